"""``soulslab siphon``: inspect, record and scan a running game."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.cli.game_session import GameFlags, check_start, flag_name, open_game
from soulslab.cli.output import plain_console, print_line, table_console
from soulslab.cli.parameters import Flag, Game, PositiveFloat, Repeated, option_group, read_pairs
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.siphon.profile import Profile

siphon = App(name="siphon", help="Inspect and control a running game: values, keys, frames, time.")


# --- inspection ------------------------------------------------------------------------------------------------


@siphon.command
def attach(game: Game, *, flags: GameFlags = GameFlags()) -> int:
    """Attach to a game, and print its process, its clock and its attributes with their values."""
    from soulslab.siphon.terminal_output import attribute_table, info_table

    console = table_console()
    with open_game(game, flags, is_read_only=True, with_window=False) as session:
        console.print(info_table(session.info), "")
        table, n_errors = attribute_table(session)
        console.print(table)
    return 1 if n_errors else 0


@siphon.command
def watch(
    game: Game, *, flags: GameFlags = GameFlags(), rate_hz: PositiveFloat = 10.0, seconds: PositiveFloat | None = None
) -> None:
    """Show the attributes of a game continuously; Ctrl-C stops.

    Args:
        rate_hz: Updates per second.
        seconds: Stop after this time.
    """
    from soulslab.siphon.terminal_output import watch as watch_game

    with open_game(game, flags, is_read_only=True, with_window=False) as session:
        watch_game(session, plain_console(), rate_hz=rate_hz, seconds=seconds)


@siphon.command
def read(game: Game, *names: str, flags: GameFlags = GameFlags()) -> None:
    """Print attributes of a game.

    Args:
        names: Names of attributes; by default all.
    """
    with open_game(game, flags, is_read_only=True, with_window=False) as session:
        for name, value in session.snapshot(names or None).items():
            unit = session.profile.attributes[name].unit
            print_line(f"{name} = {value}{' ' if unit else ''}{unit}")


@siphon.command
def write(game: Game, *assignments: str, flags: GameFlags = GameFlags()) -> None:
    """Write attributes of a game, after all values have been checked.

    Args:
        assignments: name=value, the value as TOML; a plain word is a string.
    """
    from soulslab.siphon.terminal_output import parse_values

    if not assignments:
        raise ConfigError("needs at least one name=value", source="soulslab siphon write")
    with open_game(game, flags, is_read_only=False, with_window=False) as session:
        session.write(parse_values(session.profile, read_pairs(list(assignments), "write")))


@siphon.command
def capture(
    game: Game, file: Path, *, flags: GameFlags = GameFlags(), size_px: tuple[int, int] = (0, 0), grey: bool = False
) -> None:
    """Save a frame of the game's window.

    Args:
        file: PNG file to write.
        size_px: Width and height of the frame; by default, the size of the window.
        grey: Greyscale.
    """
    from soulslab.siphon.capture import FrameFormat
    from soulslab.siphon.terminal_output import save_frame

    with open_game(game, flags, is_read_only=True, with_window=True) as session:
        save_frame(session.capture(FrameFormat(*size_px, grey)), file)


# --- recording ----------------------------------------------------------------------------------------------


@siphon.command
def record(
    game: Game,
    file: Path,
    *,
    flags: GameFlags = GameFlags(),
    seconds: PositiveFloat | None = None,
    rate_hz: Annotated[float, Parameter(validator=Number(gt=0, lte=1000))] = 60.0,
    frames: Literal["dataset", "video", "none"] = "dataset",
    attribute: Repeated = None,
    size_px: tuple[int, int] = (0, 0),
) -> None:
    """Record values, keys and frames of a game to HDF5; Ctrl-C stops and keeps the recording.

    Args:
        file: New file, such as fight.h5.
        seconds: Stop after this time; by default, Ctrl-C stops.
        rate_hz: Samples per second.
        frames: dataset: every pixel, compressed without loss; video: a video file beside it; none: only values.
        attribute: Attribute to read; by default all; may be repeated.
        size_px: Width and height of the frames; by default, the size of the window.
    """
    from soulslab.siphon.recording.recorder import RecordingOptions
    from soulslab.siphon.terminal_output import record as record_game

    has_frames = frames != "none"
    options = RecordingOptions(
        rate_hz=rate_hz,
        attributes=tuple(attribute) if attribute else None,
        frames=frames,
        with_keys=has_frames,
        frame_px=size_px,
        max_duration_s=seconds or 0.0,
    )
    with open_game(game, flags, is_read_only=True, with_window=has_frames) as session:
        record_game(session, file, options, plain_console())


# --- scanning ------------------------------------------------------------------------------------------------


@option_group
class ScanFlags:
    """The game to scan.

    Attributes:
        pid: Process id of a running game.
        executable: File name of the program; by default, that of the process or of the command.
        name: Name of the game in a new profile; by default, that of the program.
        start: Start the game with the command of the profile; a command after -- also starts it.
        private: Start the game on a private X server, which is not visible; hold, tap and shot control it.
        option: Change a launch option of the profile, as skill=2; may be repeated.
        env: Environment variable for a new profile, as SDL_VIDEODRIVER=x11; may be repeated.
        keep_home: In a new profile, let the game use your settings and saved games instead of an empty folder.
        clock: Grade of the clock: lockstep (if the scan starts the game) or realtime; by default, the best one.
    """

    pid: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    executable: str = ""
    name: str = ""
    start: Flag = False
    private: Flag = False
    option: Repeated = None
    env: Repeated = None
    keep_home: Flag = False
    clock: Literal["lockstep", "realtime"] | None = None


@siphon.command
def scan(profile: Path, *command: str, flags: ScanFlags = ScanFlags()) -> None:
    """Find the address of a value in a prompt, and write it into a profile; help lists the commands.

    soulslab siphon scan my_game.toml --private -- my_game -window: start a game without a visible window and scan it.
    soulslab siphon scan my_game.toml --executable my_game: scan a running game.
    Commands can also come from a pipe or a file; the first error then ends the scan.

    Args:
        profile: Profile to write to; the first save creates it if it does not exist.
        command: Command that starts the game, after --.
    """
    from rich.console import Console

    from soulslab.siphon.scanner.prompt import ask, run_prompt, typed_lines
    from soulslab.siphon.scanner.scanned_game import ScannedGame
    from soulslab.siphon.scanner.workbench import Workbench
    from soulslab.siphon.session import SessionOptions

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
            bench.say("enter the current value (= 100), or help; Ctrl-D ends")
        run_prompt(bench, typed_lines() if is_interactive else sys.stdin, is_interactive=is_interactive)


def _scanned_profile(file: Path, command: tuple[str, ...], flags: ScanFlags) -> Profile:
    import msgspec

    from soulslab.siphon.profile import load_profile
    from soulslab.siphon.scanner.scanned_game import ON_DISPLAY, OWN_FOLDER, new_profile

    if file.suffix != ".toml":
        raise ConfigError("must be the TOML file to create or extend, such as my_game.toml", source=file)
    if not file.exists():
        if not (flags.pid or flags.executable or command):
            raise ConfigError(
                "does not exist yet; name its game with --pid, --executable, or -- and the command that starts it, "
                "as: -- my_game -window",
                source=file,
            )
        environment = ON_DISPLAY | ({} if flags.keep_home else OWN_FOLDER) | read_pairs(flags.env or [], "--env")
        return new_profile(flags.pid, flags.executable, command, environment, flags.name)
    for name in ("name", "env", "keep_home"):
        if getattr(flags, name):
            raise ConfigError(f"is for a new profile; {file} exists, so edit that file", source=flag_name(name))
    profile = load_profile(file)
    process = msgspec.structs.replace(
        profile.process,
        command=command or profile.process.command,
        executable=flags.executable or profile.process.executable,
    )
    return msgspec.structs.replace(profile, process=process)
