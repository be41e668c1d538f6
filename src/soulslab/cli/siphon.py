"""``soulslab siphon``: looking into a running game from the command line. It parses, wires and exits with a code."""

# ruff: noqa: PLC0415  (`soulslab --help` has to answer at once)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.cli.game_session import AttachFlags, ClientFlags, check_start, flag_name, open_game
from soulslab.cli.output import table_console
from soulslab.cli.parameters import PositiveFloat, read_pairs
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.siphon.profile import Profile

siphon = App(name="siphon", help="Look into a running game: values, keys, frames, time.")


# --- looking ------------------------------------------------------------------------------------------------


@siphon.command
def attach(game: Path, *, flags: AttachFlags | None = None, client: ClientFlags | None = None) -> int:
    """Attach to a game, and say what was found: process, clock, and each attribute with its value.

    Args:
        game: The game's profile, the name of a game that comes with soulslab (doom), or the address of a server.
        flags: Which game to attach to.
        client: How to reach the server, if the game is that of one.
    """
    from soulslab.siphon.watch import attribute_table, info_table

    console = table_console()
    with open_game(game, flags, client, is_read_only=True, with_window=False) as session:
        console.print(info_table(session.info), "")
        table, n_errors = attribute_table(session)
        console.print(table)
    return 1 if n_errors else 0


@siphon.command
def watch(
    game: Path,
    *,
    flags: AttachFlags | None = None,
    client: ClientFlags | None = None,
    rate_hz: PositiveFloat = 10.0,
    seconds: PositiveFloat | None = None,
) -> None:
    """Show all attributes of a game as they change; Ctrl-C ends it.

    Args:
        game: The game's profile, the name of a game that comes with soulslab (doom), or the address of a server.
        flags: Which game to attach to.
        client: How to reach the server, if the game is that of one.
        rate_hz: How often to look.
        seconds: End by itself after so long.
    """
    from rich.console import Console

    from soulslab.siphon.watch import watch as watch_game

    with open_game(game, flags, client, is_read_only=True, with_window=False) as session:
        watch_game(session, Console(), rate_hz=rate_hz, seconds=seconds)


@siphon.command
def read(game: Path, *names: str, flags: AttachFlags | None = None, client: ClientFlags | None = None) -> None:
    """Print attributes of a game.

    Args:
        game: The game's profile, the name of a game that comes with soulslab (doom), or the address of a server.
        names: Which; all by default.
        flags: Which game to attach to.
        client: How to reach the server, if the game is that of one.
    """
    from rich.console import Console

    console = Console(soft_wrap=True)
    with open_game(game, flags, client, is_read_only=True, with_window=False) as session:
        for name, value in session.snapshot(names or None).items():
            unit = session.profile.attributes[name].unit
            console.print(f"{name} = {value}{' ' if unit else ''}{unit}", markup=False, highlight=False)


@siphon.command
def write(game: Path, *assignments: str, flags: AttachFlags | None = None, client: ClientFlags | None = None) -> None:
    """Write attributes of a game; all are checked before the first is written.

    Args:
        game: The game's profile, the name of a game that comes with soulslab (doom), or the address of a server.
        assignments: Each name=value, the value as TOML; a plain word is text.
        flags: Which game to attach to.
        client: How to reach the server, if the game is that of one.
    """
    from soulslab.siphon.watch import parse_values

    if not assignments:
        raise ConfigError("has nothing to write; give name=value", source="soulslab siphon write")
    with open_game(game, flags, client, is_read_only=False, with_window=False) as session:
        session.write(parse_values(session.profile, read_pairs(list(assignments), "write")))


@siphon.command
def capture(
    game: Path,
    file: Path,
    *,
    flags: AttachFlags | None = None,
    client: ClientFlags | None = None,
    size_px: tuple[int, int] = (0, 0),
    grey: bool = False,
) -> None:
    """Take a picture of the game's window.

    Args:
        game: The game's profile, the name of a game that comes with soulslab (doom), or the address of a server.
        file: PNG file to write.
        flags: Which game to attach to.
        client: How to reach the server, if the game is that of one.
        size_px: Width and height of the picture; the window's own by default.
        grey: Without colours.
    """
    from soulslab.siphon.capture import FrameFormat
    from soulslab.siphon.watch import save_frame

    with open_game(game, flags, client, is_read_only=True, with_window=True) as session:
        save_frame(session.capture(FrameFormat(*size_px, grey)), file)


# --- recording ----------------------------------------------------------------------------------------------


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class RecordFlags:
    """What to record.

    Attributes:
        seconds: End by itself after so long; by default Ctrl-C ends it.
        rate_hz: Samples per second.
        frames: raw: every pixel, in the file; video: a film beside it; none: only values.
        attribute: What to read; all by default; may be given many times.
        size_px: Width and height of the frames; the window's own by default.
    """

    seconds: PositiveFloat | None = None
    rate_hz: Annotated[float, Parameter(validator=Number(gt=0, lte=1000))] = 60.0
    frames: Literal["raw", "video", "none"] = "raw"
    attribute: Annotated[list[str] | None, Parameter(negative="")] = None
    size_px: tuple[int, int] = (0, 0)


@siphon.command
def record(
    game: Path,
    file: Path,
    *,
    flags: AttachFlags | None = None,
    client: ClientFlags | None = None,
    what: RecordFlags | None = None,
) -> None:
    """Record values, keys and frames of a game to HDF5; Ctrl-C ends it, and what was recorded stays.

    Args:
        game: The game's profile, the name of a game that comes with soulslab (doom), or the address of a server.
        file: New file, such as fight.h5.
        flags: Which game to attach to.
        client: How to reach the server, if the game is that of one.
        what: What to record.
    """
    from rich.console import Console

    from soulslab.siphon.recording.recorder import RecordingOptions
    from soulslab.siphon.watch import record as record_game

    what = what or RecordFlags()
    has_frames = what.frames != "none"
    options = RecordingOptions(
        rate_hz=what.rate_hz,
        attributes=tuple(what.attribute) if what.attribute else None,
        frames="dataset" if what.frames == "raw" else what.frames,
        with_keys=has_frames,
        frame_px=what.size_px,
        max_duration_s=what.seconds or 0.0,
    )
    with open_game(game, flags, client, is_read_only=True, with_window=has_frames) as session:
        record_game(session, file, options, Console())


# --- finding ------------------------------------------------------------------------------------------------


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class ScanFlags:
    """Which game to scan.

    Attributes:
        pid: Process id of a game that runs.
        executable: File name of its program; by default that of the process, or of the command.
        name: Of the game, for a new profile; that of its program by default.
        start: Start the game, as the profile says; a command after -- starts it, too.
        private: Start it on an X server of its own, which nobody sees; hold, tap and shot play it.
        option: Change a launch option of the profile, as skill=2; may be given many times.
        env: Variable that a new profile starts the game with, as SDL_VIDEODRIVER=x11; may be given many times.
        keep_home: Let the game use your own settings and saved games, in a new profile; not a fresh folder.
        clock: Grade of the clock: lockstep (of a game that is started) or realtime; the best by default.
    """

    pid: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    executable: str = ""
    name: str = ""
    start: Annotated[bool, Parameter(negative="")] = False
    private: Annotated[bool, Parameter(negative="")] = False
    option: Annotated[list[str] | None, Parameter(negative="")] = None
    env: Annotated[list[str] | None, Parameter(negative="")] = None
    keep_home: Annotated[bool, Parameter(negative="")] = False
    clock: Literal["lockstep", "realtime"] | None = None


@siphon.command
def scan(profile: Path, *command: str, flags: ScanFlags | None = None) -> None:
    """Find where a game keeps a value, line by line, and write it into a profile; help in the prompt says how.

    soulslab siphon scan my_game.toml --private -- my_game -window: starts a game that nobody sees, and scans it.
    soulslab siphon scan my_game.toml --executable my_game: scans a game that runs.
    Lines may also come from a pipe or a file; then the first mistake ends it.

    Args:
        profile: File to write to; it is made by the first save, if it does not exist yet.
        command: What starts the game, after --.
        flags: Which game to scan.
    """
    import sys

    from rich.console import Console

    from soulslab.siphon.scanner.game import ScannedGame
    from soulslab.siphon.scanner.prompt import ask, run_prompt, typed_lines
    from soulslab.siphon.scanner.workbench import Workbench
    from soulslab.siphon.session import SessionOptions

    flags = flags or ScanFlags()
    is_started = flags.start or bool(command)
    check_start(flags.pid, is_started=is_started, is_private=flags.private)
    scanned = _scanned_profile(profile, command, flags)
    options = SessionOptions(
        pid=flags.pid,
        launch="always" if is_started else "never",
        display="private" if flags.private else "",
        options=read_pairs(flags.option or [], "--option"),
        with_window=is_started,
        clock=flags.clock or "",
        allow_unknown_version=True,
    )
    is_interactive = sys.stdin.isatty()
    with ScannedGame(scanned, options) as game:
        bench = Workbench(game, profile, Console(), ask if is_interactive else None)
        bench.say(f"{scanned.name}: process {game.pid}, clock {game.clock_grade}")
        if is_interactive:
            bench.say("say what the value is (= 100), or help; Ctrl-D ends")
        run_prompt(bench, typed_lines() if is_interactive else sys.stdin, is_interactive=is_interactive)


def _scanned_profile(file: Path, command: tuple[str, ...], flags: ScanFlags) -> Profile:
    """Return the profile of the game to scan: that of the file, or a new one."""
    import msgspec

    from soulslab.siphon.profile import load_profile
    from soulslab.siphon.scanner.game import ON_DISPLAY, OWN_FOLDER, new_profile

    if file.suffix != ".toml":
        raise ConfigError("has to be the file that is made or extended, such as my_game.toml", source=file)
    if not file.exists():
        if not (flags.pid or flags.executable or command):
            _refuse_nothing(file)
        environment = ON_DISPLAY | ({} if flags.keep_home else OWN_FOLDER) | read_pairs(flags.env or [], "--env")
        return new_profile(flags.pid, flags.executable, command, environment, flags.name)
    for name in ("name", "env", "keep_home"):
        if getattr(flags, name):
            raise ConfigError(f"is for a new profile; {file} exists, so change it there", source=flag_name(name))
    profile = load_profile(file)
    process = msgspec.structs.replace(
        profile.process,
        command=command or profile.process.command,
        executable=flags.executable or profile.process.executable,
    )
    return msgspec.structs.replace(profile, process=process)


def _refuse_nothing(file: Path) -> NoReturn:
    raise ConfigError(
        "does not exist yet, so say which game it is to describe: --pid, --executable, or -- and the command that "
        "starts it, as: -- my_game -window",
        source=file,
    )
