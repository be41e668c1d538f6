"""``soulslab siphon tap``, ``hold``, ``toggle``, ``move``, ``stream`` and ``shell``: manual control of a game."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.game_session import GameFlags, open_game
from soulslab.cli.output import plain_console, print_line
from soulslab.cli.parameters import Game, PositiveFloat

if TYPE_CHECKING:
    from soulslab.siphon.manual_control import ManualControl

MAX_HOLD_MS = 3_600_000
Milliseconds = Annotated[int, Parameter(validator=Number(gte=0, lte=MAX_HOLD_MS))]
Count = Annotated[int, Parameter(validator=Number(gte=1, lte=1_000_000))]
Pixels = Annotated[int, Parameter(allow_leading_hyphen=True)]


@contextmanager
def _open_control(game: Path, flags: GameFlags) -> Iterator[ManualControl]:
    """Open a session with a game, and release all keys at the end."""
    from soulslab.siphon.manual_control import ManualControl

    with open_game(game, flags, is_read_only=False, with_window=True) as session, ManualControl(session) as control:
        yield control


def tap(
    game: Game, *keys: str, flags: GameFlags = GameFlags(), hold_ms: Milliseconds = 100, delay_ms: Milliseconds = 0
) -> None:
    """Press keys of a game together and release them.

    Args:
        keys: Names such as W, SPACE, LEFT_ARROW, MOUSE_LEFT.
        hold_ms: Game time for which the keys are held down.
        delay_ms: Game time between two presses and between two releases.
    """
    with _open_control(game, flags) as control:
        control.tap(keys, hold_s=hold_ms / 1000, delay_s=delay_ms / 1000)


def hold(game: Game, *keys: str, flags: GameFlags = GameFlags(), seconds: PositiveFloat = 1.0) -> None:
    """Hold keys of a game down for some time; Ctrl-C releases them.

    Args:
        keys: Names such as W, SPACE, LEFT_ARROW, MOUSE_LEFT.
        seconds: Game time.
    """
    with _open_control(game, flags) as control:
        control.tap(keys, hold_s=seconds)


def toggle(game: Game, *keys: str, flags: GameFlags = GameFlags()) -> None:
    """Press keys of a game; Enter releases and presses them alternately, Ctrl-D releases them and ends.

    Args:
        keys: Names such as W, SPACE, LEFT_ARROW, MOUSE_LEFT.
    """
    with _open_control(game, flags) as control:
        control.toggle(keys)
        print_line(f"down: {' '.join(control.down)}; Enter releases, Ctrl-D ends")
        for _ in sys.stdin:
            control.toggle(keys)
            print_line(f"down: {' '.join(control.down) or '(none)'}")


def move(game: Game, dx_px: Pixels, dy_px: Pixels, *, flags: GameFlags = GameFlags(), steps: Count = 1) -> None:
    """Move the mouse of a game relative to its position.

    Args:
        dx_px: Pixels to the right; negative to the left.
        dy_px: Pixels downwards; negative upwards.
        steps: Number of equal movements, 10 ms apart.
    """
    with _open_control(game, flags) as control:
        control.move(dx_px, dy_px, n_steps=steps)


def stream(
    game: Game,
    folder: Path | None = None,
    *,
    flags: GameFlags = GameFlags(),
    rate_hz: PositiveFloat = 10.0,
    frames: Count | None = None,
    size_px: tuple[int, int] = (0, 0),
    grey: bool = False,
) -> None:
    """Capture frames of a game's window continuously; Ctrl-C stops.

    Args:
        folder: Folder for numbered PNG files; without it, the frames are only counted.
        rate_hz: Frames per second.
        frames: Stop after this number of frames.
        size_px: Width and height of the frames; by default, the size of the window.
        grey: Greyscale.
    """
    from soulslab.siphon.capture import FrameFormat
    from soulslab.siphon.manual_control import ManualControl

    frame = FrameFormat(*size_px, grey)
    with open_game(game, flags, is_read_only=True, with_window=True) as session:
        taken = ManualControl(session).stream(folder, frame, rate_hz=rate_hz, n_frames=frames)
    width, height = taken.size_px
    rate = taken.n_frames / max(taken.seconds, 1e-9)
    where = f" in {folder}" if folder else ""
    print_line(f"{taken.n_frames} frames of {width}x{height} px in {taken.seconds:.1f} s ({rate:.1f} Hz){where}")


def shell(game: Game, *, flags: GameFlags = GameFlags()) -> None:
    """Read, write, press keys and save frames in a prompt; help lists the commands, Ctrl-D ends.

    Commands can also come from a pipe or a file; the first error then ends the shell.
    """
    from soulslab.siphon.manual_control import Shell
    from soulslab.siphon.scanner.prompt import typed_lines

    is_interactive = sys.stdin.isatty()
    with _open_control(game, flags) as control:
        if is_interactive:
            profile, info = control.session.profile, control.session.info
            print_line(f"{profile.name}: process {info.pid}; help lists the commands")
        lines = typed_lines() if is_interactive else sys.stdin
        Shell(control, plain_console(soft_wrap=True)).run(lines, is_interactive=is_interactive)
