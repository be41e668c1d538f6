"""``soulslab siphon``: looking into a running game from the command line. It parses, wires and exits with a code."""

# ruff: noqa: PLC0415  (`soulslab --help` has to answer at once)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.cli_files import table_console
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.siphon.local import LocalSession
    from soulslab.siphon.profile import Profile
    from soulslab.siphon.rpc.client import RemoteSession

siphon = App(name="siphon", help="Look into a running game: values, keys, frames, time.")


PositiveFloat = Annotated[float, Parameter(validator=Number(gt=0))]


@Parameter(name="*")  # its fields are flags of the commands
@dataclass(frozen=True)
class AttachFlags:
    """Which game to attach to.

    Attributes:
        pid: Process id; by default the process that the profile names.
        window_title: A part of the title of its window; of several processes it picks the one that has such a window.
        start: Start the game instead, as the profile says.
        private: Start it on an X server of its own, which nobody sees.
        option: Change a launch option of the profile, as skill=2; may be given many times.
        clock: Grade of the clock: lockstep, scaled or realtime; the best by default.
        seed: Start it deterministically with this seed, and leave it paused.
        allow_unknown_version: Attach although the profile does not know this version of the game.
        boss: Boss of the game whose boss.* are meant: its name, or the path of its file; the profile's own by default.
    """

    pid: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    window_title: str = ""
    start: Annotated[bool, Parameter(negative="")] = False
    private: Annotated[bool, Parameter(negative="")] = False
    option: Annotated[list[str] | None, Parameter(negative="")] = None
    clock: Literal["lockstep", "scaled", "realtime"] | None = None
    seed: Annotated[int | None, Parameter(validator=Number(gte=0, lt=2**32))] = None
    allow_unknown_version: Annotated[bool, Parameter(negative="")] = False
    boss: str = ""


@Parameter(name="*")  # its fields are flags of the commands
@dataclass(frozen=True)
class ClientFlags:
    """How to reach the server, if the game is that of one.

    Attributes:
        token_file: File with the server's token; by default it is in the environment variable SOULSLAB_TOKEN.
        certificate: File with the server's certificate, or that of who signed it.
    """

    token_file: Path | None = None
    certificate: Path | None = None


def open_game(
    game: Path, flags: AttachFlags | None, client: ClientFlags | None, *, is_read_only: bool, with_window: bool
) -> LocalSession | RemoteSession:
    """Open the session that a command works on: a game of this machine, or that of a server."""
    from soulslab.siphon.rpc.address import is_address

    flags, client = flags or AttachFlags(), client or ClientFlags()
    if is_address(str(game)) and not game.exists():
        return _connect(str(game), flags, client)
    for name in ("token_file", "certificate"):
        if getattr(client, name):
            raise ConfigError(f"is for the game of a server; {game} is no address", source=_flag(name))
    return open_local(game, flags, is_read_only=is_read_only, with_window=with_window)


def _connect(address: str, flags: AttachFlags, client: ClientFlags) -> RemoteSession:
    """Attach to the game of a server."""
    from soulslab.siphon.rpc.client import connect
    from soulslab.siphon.rpc.tokens import find_token

    for name in ("pid", "window_title", "start", "private", "option", "clock", "seed", "allow_unknown_version", "boss"):
        if getattr(flags, name) != getattr(AttachFlags(), name):
            raise ConfigError("is for a game of this machine; the server has opened its game", source=_flag(name))
    return connect(address, token=find_token(file=client.token_file), tls=client.certificate)


def open_local(game: Path, flags: AttachFlags, *, is_read_only: bool, with_window: bool) -> LocalSession:
    """Attach to a game of this machine, or start it."""
    from soulslab.games.boss_facts import load_profile_with
    from soulslab.siphon.local import open_session
    from soulslab.siphon.session import SessionOptions

    _check_start(flags.pid, is_started=flags.start, is_private=flags.private)
    options = SessionOptions(
        pid=flags.pid,
        launch="always" if flags.start else "never",
        display="private" if flags.private else "",
        options=read_pairs(flags.option or [], "--option"),
        is_read_only=is_read_only,
        with_window=with_window,
        window_title=flags.window_title,
        clock=flags.clock or "",
        deterministic=flags.seed is not None,
        seed=flags.seed or 0,
        allow_unknown_version=flags.allow_unknown_version,
    )
    return open_session(load_profile_with(game, flags.boss), options)


def _check_start(pid: int, *, is_started: bool, is_private: bool) -> None:
    """Raise `ConfigError` for flags that contradict each other."""
    if pid and is_started:
        raise ConfigError("either names a running game or starts one", source="--pid --start")
    if is_private and not is_started:
        raise ConfigError("is for a game that is started: add --start", source="--private")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def read_pairs(texts: list[str], source: str) -> dict[str, str]:
    """Return names and values of each ``name=value``; `source` is their flag, for errors."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError("is not of the form name=value", source=f"{source} {text}")
        pairs[name.strip()] = value.strip()
    return pairs


# --- looking ------------------------------------------------------------------------------------------------


@siphon.command
def attach(game: Path, *, flags: AttachFlags | None = None, client: ClientFlags | None = None) -> int:
    """Attach to a game, and say what was found: process, clock, and each attribute with its value.

    Args:
        game: The game's profile, the name of a game that comes with soulslab (doom), or the address of a server.
        flags: Which game to attach to.
        client: How to reach the server, if the game is that of one.
    """
    from soulslab.siphon.terminal_output import attribute_table, info_table

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

    from soulslab.siphon.terminal_output import watch as watch_game

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
    from soulslab.siphon.terminal_output import parse_values

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
    from soulslab.siphon.terminal_output import save_frame

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
    from soulslab.siphon.terminal_output import record as record_game

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

    from soulslab.siphon.scanner.prompt import ask, run_prompt, typed_lines
    from soulslab.siphon.scanner.scanned_game import ScannedGame
    from soulslab.siphon.scanner.workbench import Workbench
    from soulslab.siphon.session import SessionOptions

    flags = flags or ScanFlags()
    is_started = flags.start or bool(command)
    _check_start(flags.pid, is_started=is_started, is_private=flags.private)
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
    from soulslab.siphon.scanner.scanned_game import ON_DISPLAY, OWN_FOLDER, new_profile

    if file.suffix != ".toml":
        raise ConfigError("has to be the file that is made or extended, such as my_game.toml", source=file)
    if not file.exists():
        if not (flags.pid or flags.executable or command):
            _refuse_nothing(file)
        environment = ON_DISPLAY | ({} if flags.keep_home else OWN_FOLDER) | read_pairs(flags.env or [], "--env")
        return new_profile(flags.pid, flags.executable, command, environment, flags.name)
    for name in ("name", "env", "keep_home"):
        if getattr(flags, name):
            raise ConfigError(f"is for a new profile; {file} exists, so change it there", source=_flag(name))
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
