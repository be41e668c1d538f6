"""``soulslab siphon``: looking into a running game from the command line. It parses, wires and exits with a code."""

# ruff: noqa: PLC0415  (`soulslab --help` has to answer at once)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.siphon.local import LocalSession

siphon = App(name="siphon", help="Look into a running game: values, keys, frames, time.")

PositiveFloat = Annotated[float, Parameter(validator=Number(gt=0))]


@Parameter(name="*")  # its fields are flags of the commands
@dataclass(frozen=True)
class AttachFlags:
    """Which game to attach to.

    Attributes:
        pid: Process id; by default the process that the profile names.
        start: Start the game instead, as the profile says.
        private: Start it on an X server of its own, which nobody sees.
        option: Change a launch option of the profile, as skill=2; may be given many times.
        clock: Grade of the clock: lockstep, scaled or realtime; the best by default.
        allow_unknown_version: Attach although the profile does not know this version of the game.
    """

    pid: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    start: Annotated[bool, Parameter(negative="")] = False
    private: Annotated[bool, Parameter(negative="")] = False
    option: Annotated[list[str] | None, Parameter(negative="")] = None
    clock: Literal["lockstep", "scaled", "realtime"] | None = None
    allow_unknown_version: Annotated[bool, Parameter(negative="")] = False


def _open(profile: Path, flags: AttachFlags | None, *, is_read_only: bool, with_window: bool) -> LocalSession:
    """Open the session that a command works on."""
    from soulslab.games import profile_path
    from soulslab.siphon.local import open_session
    from soulslab.siphon.profile import load_profile
    from soulslab.siphon.session import SessionOptions

    flags = flags or AttachFlags()
    if flags.pid and flags.start:
        raise ConfigError("either names a running game or starts one", source="--pid --start")
    options = SessionOptions(
        pid=flags.pid,
        launch="always" if flags.start else "never",
        display="private" if flags.private else "",
        options=_pairs(flags.option or [], "--option"),
        is_read_only=is_read_only,
        with_window=with_window,
        clock=flags.clock or "",
        allow_unknown_version=flags.allow_unknown_version,
    )
    return open_session(load_profile(profile_path(profile)), options)


def _pairs(texts: list[str], source: str) -> dict[str, str]:
    """Split each ``name=value``."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError("is not of the form name=value", source=f"{source} {text}")
        pairs[name.strip()] = value.strip()
    return pairs


# --- looking ------------------------------------------------------------------------------------------------


@siphon.command
def attach(profile: Path, *, flags: AttachFlags | None = None) -> int:
    """Attach to a game, and say what was found: process, window, clock, and each attribute with its address.

    Args:
        profile: The game's profile, or the name of a game that comes with soulslab (doom).
        flags: Which game to attach to.
    """
    from rich.console import Console

    from soulslab.siphon.watch import attribute_table, info_table

    console = Console()
    with _open(profile, flags, is_read_only=True, with_window=False) as game:
        console.print(info_table(game.info), "")
        table, n_errors = attribute_table(game)
        console.print(table)
    return 1 if n_errors else 0


@siphon.command
def watch(
    profile: Path,
    *,
    flags: AttachFlags | None = None,
    rate_hz: PositiveFloat = 10.0,
    seconds: PositiveFloat | None = None,
) -> None:
    """Show all attributes of a game as they change; Ctrl-C ends it.

    Args:
        profile: The game's profile, or the name of a game that comes with soulslab (doom).
        flags: Which game to attach to.
        rate_hz: How often to look.
        seconds: End by itself after so long.
    """
    from rich.console import Console

    from soulslab.siphon.watch import watch as watch_game

    with _open(profile, flags, is_read_only=True, with_window=False) as game:
        watch_game(game, Console(), rate_hz=rate_hz, seconds=seconds)


@siphon.command
def read(profile: Path, *names: str, flags: AttachFlags | None = None) -> None:
    """Print attributes of a game.

    Args:
        profile: The game's profile, or the name of a game that comes with soulslab (doom).
        names: Which; all by default.
        flags: Which game to attach to.
    """
    from rich.console import Console

    console = Console(soft_wrap=True)
    with _open(profile, flags, is_read_only=True, with_window=False) as game:
        for name, value in game.snapshot(names or None).items():
            unit = game.profile.attributes[name].unit
            console.print(f"{name} = {value}{' ' if unit else ''}{unit}", markup=False, highlight=False)


@siphon.command
def write(profile: Path, *assignments: str, flags: AttachFlags | None = None) -> None:
    """Write attributes of a game; all are checked before the first is written.

    Args:
        profile: The game's profile, or the name of a game that comes with soulslab (doom).
        assignments: Each name=value, the value as TOML; a plain word is text.
        flags: Which game to attach to.
    """
    from soulslab.siphon.watch import parse_values

    if not assignments:
        raise ConfigError("has nothing to write; give name=value", source="soulslab siphon write")
    with _open(profile, flags, is_read_only=False, with_window=False) as game:
        game.write(parse_values(game.profile, _pairs(list(assignments), "write")))


@siphon.command
def capture(
    profile: Path,
    file: Path,
    *,
    flags: AttachFlags | None = None,
    size_px: tuple[int, int] = (0, 0),
    grey: bool = False,
) -> None:
    """Take a picture of the game's window.

    Args:
        profile: The game's profile, or the name of a game that comes with soulslab (doom).
        file: PNG file to write.
        flags: Which game to attach to.
        size_px: Width and height of the picture; the window's own by default.
        grey: Without colours.
    """
    from soulslab.siphon.capture import FrameFormat
    from soulslab.siphon.watch import save_frame

    with _open(profile, flags, is_read_only=True, with_window=True) as game:
        save_frame(game.capture(FrameFormat(*size_px, grey)), file)
