"""The session interface: one attached game, with local, remote and fake implementations.

::

    with open_session(load_profile(path), SessionOptions(display="private")) as game:
        game.clock.pause()
        result = game.step(Step(held=("W",), advance_s=0.1, attributes=("hp", "x"), frame=FrameFormat(84, 84, True)))
        result.snapshot["hp"], result.frame.pixels
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Protocol

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.errors import (
    EntityNotFoundError,
    ImplausibleValueError,
    InputError,
    PointerError,
    UndecidedAttributeError,
)
from soulslab.siphon.attributes.alternatives import Finding
from soulslab.siphon.attributes.pointer_chains import ChainNumber, Number
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.clock import Advance, Clock
from soulslab.siphon.input import Input
from soulslab.siphon.pad import Pad
from soulslab.siphon.profile import ClockGrade, Profile, Value
from soulslab.siphon.profile.schema import InputBackend

LOADING = (PointerError, EntityNotFoundError, ImplausibleValueError, UndecidedAttributeError)
"""Errors of reading while a game loads."""


class SessionOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of a session.

    Attributes:
        pid: Id of the process to attach to; 0 to find it by the profile's executable, or to start it (see `launch`).
        launch: ``always`` starts a new game, ``never`` attaches to a running one, ``auto`` starts one if the profile
            has a command and no `pid` is given.
        display: ``private`` starts a private X server for a started game; "" uses the display of this process; ``:N``
            names one. Without effect on a game that runs already.
        screen_px: Width and height of a private display.
        options: Values that replace those in `Process.options` of the profile, for a started game.
        is_read_only: Refuse everything that changes the game: writes to its memory, keys, mouse, control of its time,
            and restarts. The time of a game that the session did not start is not controlled.
        with_window: Open the window, for keys and frames; otherwise only memory and time are available.
        window_title: Text that the title of the window contains; replaces the profile's, "" keeps it. It also selects
            among several matching processes.
        input_backend: Input backend that replaces the profile's; "" keeps it. ``pad`` connects a gamepad to the game,
            which has to be one that the session starts, or that was started with one; keys of actions with a control
            of the pad in the profile are then sent by the pad.
        clock: Requested grade; "" for the profile's or, for a game that the session did not start, the best available
            grade up to it.
        on_orphan: What a lockstep game does when this process dies: ``end``, ``run`` at 1x, or stay ``paused``. A game
            that the session did not start runs on instead of ending.
        allow_unknown_version: Attach although the profile does not know the executable's version.
        allow_missing: Open the session although patterns of the profile have no match. An attribute that needs one of
            them raises `PatternError` when it is used.
        deadline_s: Wall time until the game must be ready.
        controller: Name of the controller of the game, such as the id of an environment. While the session is open, no
            other session with a controller can be opened for the same process; "" for a session that only reads or
            shares the game.
        deterministic: Start the game with a fixed clock, fixed random sources, a fixed environment and fixed addresses,
            and leave it paused (docs/deterministic_starts.md). Requires a game that the session starts, and the clock
            grade ``lockstep``.
        seed: Seed of a deterministic start; it determines the time of day and the random numbers.
    """

    pid: int = 0
    launch: str = "auto"
    display: str = "private"
    screen_px: tuple[int, int] = (1280, 720)
    options: dict[str, str] = {}
    is_read_only: bool = False
    with_window: bool = True
    window_title: str = ""
    input_backend: InputBackend | str = ""
    clock: ClockGrade | str = ""
    on_orphan: str = "end"
    allow_unknown_version: bool = False
    allow_missing: bool = False
    deadline_s: float = 120.0
    controller: str = ""
    deterministic: bool = False
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about an attached game.

    Attributes:
        pid: Process id, on the machine of the game.
        executable: Path of its program; under Wine, of the Windows program.
        version: Version of the executable; "" if it has none.
        module_base: Address at which the executable is loaded.
        is_child: Whether the session started the game, and ends it on close.
        is_read_only: Whether everything that changes the game is refused.
        clock_grade: Grade of its clock.
        clock_reason: Why the grade is lower than the profile's; "" if it is not.
        input_backend: Name of the input backend; "" without a window.
        capture_backend: Name of the capture backend; "" without a window.
        window_px: Width and height of the window; (0, 0) without one.
        display: X display; "" without a window.
        n_starts: Number of times that this session has started the game or attached to it.
        sources: Source of the selected variant of each attribute with alternatives for this version; "" before the
            first read has selected one.
    """

    pid: int
    executable: str
    version: str
    module_base: int
    is_child: bool
    is_read_only: bool
    clock_grade: ClockGrade
    input_backend: str
    capture_backend: str
    window_px: tuple[int, int]
    display: str
    n_starts: int = 1
    sources: dict[str, str] = {}
    clock_reason: str = ""


class Snapshot(Mapping[str, Value]):
    """Attributes that were read together: a mapping from names to values, with the time.

    Attributes:
        game_time_s: `Clock.game_time_s` at the time of reading.
        wall_time_s: `time.time()` at the time of reading.
    """

    __slots__ = ("_values", "game_time_s", "wall_time_s")

    def __init__(self, values: dict[str, Value], game_time_s: float, wall_time_s: float) -> None:
        self._values = values
        self.game_time_s = game_time_s
        self.wall_time_s = wall_time_s

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Snapshot({self._values!r}, game_time_s={self.game_time_s:.6f})"


class Frame(msgspec.Struct, frozen=True, eq=False):
    """An image of the game's window.

    Attributes:
        pixels: (H, W, 3) RGB or (H, W) grey, uint8.
        game_time_s: `Clock.game_time_s` at the time of capture.
        wall_time_s: `time.time()` at the time of capture.
    """

    pixels: NDArray[np.uint8]
    game_time_s: float
    wall_time_s: float


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Actions of one step, in this order: set keys, move the mouse, set the gamepad, advance time, read, capture.

    Attributes:
        held: Keys to hold from now on; None for no change.
        again: Keys of `held` that the game must see going down again, even if they are held already.
        mouse_px: Relative movement of the mouse.
        pad: State of the gamepad from now on (`Input.set_pad`); None for no change.
        advance_s: Game time to advance by.
        attributes: Attributes to read; None for all of the profile.
        frame: Format of the image to capture; None for no image.
        deadline_s: Longest wall time of the step.
        speed: Game seconds per wall second during the advance; None for the clock's default (`Clock.advance`).

    Raises `InputError` if keys are to be pressed again, but `held` is not given.
    """

    held: tuple[str, ...] | None = None
    again: tuple[str, ...] = ()
    mouse_px: tuple[int, int] = (0, 0)
    pad: Pad | None = None
    advance_s: float = 0.0
    attributes: tuple[str, ...] | None = None
    frame: FrameFormat | None = None
    deadline_s: float = 10.0
    speed: float | None = None

    def __post_init__(self) -> None:
        """Refuse a step without effect."""
        if self.again and self.held is None:
            raise InputError(
                f"a step presses {', '.join(self.again)} again, but has no keys held; name them in held, too"
            )

    @property
    def changes_game(self) -> bool:
        """Whether the step sends keys, moves the mouse, sets the gamepad or advances time."""
        return self.sends_input or self.mouse_px != (0, 0) or self.advance_s != 0.0

    @property
    def sends_input(self) -> bool:
        """Whether the step sets keys or the gamepad, which stay as set."""
        return self.held is not None or self.pad is not None


class StepResult(msgspec.Struct, frozen=True, eq=False):
    """Result of a step.

    Attributes:
        advance: How much game time passed.
        snapshot: Values of the attributes that were read.
        frame: Captured image; None if none was requested.
    """

    advance: Advance
    snapshot: Snapshot
    frame: Frame | None


class Session(AbstractContextManager["Session"], Protocol):
    """An attached game.

    Every method raises `ProcessExitedError` when the game has ended and `SessionStateError` after `close`; every method
    of a remote session may raise `RemoteError`. All methods are thread-safe; calls are serialised.

    Attributes:
        profile: Profile of the game.
        input: Its keyboard and mouse.
        clock: Its clock.
    """

    profile: Profile

    @property
    def info(self) -> SessionInfo:
        """Current facts about the game. Raises `WindowGoneError` while its window is closed or hidden."""

    @property
    def input(self) -> Input:
        """Its keyboard and mouse. Raises `WindowNotFoundError` in a session without a window."""

    @property
    def clock(self) -> Clock:
        """Its clock."""

    def read(self, name: str) -> Value:
        """Return one attribute.

        Raises:
            UnknownAttributeError: No such attribute.
            AttributeVersionError: It is not known for the version of the game.
            PointerError: Its pointer chain cannot be followed now.
            ImplausibleValueError: It is outside its range.
            EntityNotFoundError: Its entity does not exist now.
            UndecidedAttributeError: It has alternatives, and no variant gives a plausible value now.
        """

    def snapshot(self, names: Sequence[str] | None = None) -> Snapshot:
        """Return several attributes, read together; None for all that are known for the version of the game.

        Raises as `read`.
        """

    def examine(self, names: Sequence[str] | None = None) -> dict[str, tuple[Finding, ...]]:
        """Return the result of reading each variant of attributes, in the order of the profile; failures do not raise.

        None stands for all attributes that are known for the version of the game. Raises `UnknownAttributeError` or
        `AttributeVersionError` as `read`.
        """

    def read_number(self, where: ChainNumber) -> Number:
        """Return a number by a pointer chain that is not in the profile.

        Raises:
            PatternError: The profile has no such base, or its pattern has no match.
            PointerError: The chain cannot be followed now.
            ImplausibleValueError: It is not a number (NaN).
        """

    def write_number(self, where: ChainNumber, value: Number) -> None:
        """Write a number by a pointer chain that is not in the profile.

        Raises:
            ReadOnlyError: The session is read-only.
            InvalidValueError: The value has the wrong type, or does not fit.
            PatternError, PointerError: As in `read_number`.
        """

    def write(self, values: Mapping[str, Value]) -> None:
        """Write attributes; all are checked before the first is written.

        Raises:
            ReadOnlyError: The session is read-only, or the attribute is not writable.
            InvalidValueError: A value has the wrong type or lies outside its range.
            UnknownAttributeError, AttributeVersionError, PointerError, EntityNotFoundError: As in `read`.
            UndecidedAttributeError: It has alternatives, and no variant is selected yet.
        """

    def capture(self, frame_format: FrameFormat = NATIVE) -> Frame:
        """Capture the window.

        Raises `WindowGoneError` if the window is closed or unmapped, `WindowNotFoundError` if the session has none.
        """

    def step(self, step: Step) -> StepResult:
        """Send keys, advance time, read and capture: one round trip to a game on another machine.

        For steps of whole simulation ticks, align the game first (`soulslab.siphon.tick_alignment.TickAlignment`).

        Raises:
            ReadOnlyError: The session is read-only, and the step does more than read.
            ClockStalledError: The game did not reach the end of the step in time.
            InputError, WindowGoneError: Keys cannot be sent, or the window cannot be captured.
            SiphonError: Any error of `read`.
        """

    def restart(self, options: Mapping[str, str] | None = None, *, seed: int | None = None) -> None:
        """End the game and start it again, or find it again if the session did not start it; keys are released.

        The options replace those in `Process.options` from now on. The seed, 0 to 2**32 - 1, makes this start and later
        ones deterministic (`SessionOptions.deterministic`). None does not change them. Options and a seed with which
        the game does not start are discarded: the next call uses those of the last start.

        Raises:
            ReadOnlyError: The session is read-only.
            ConfigError: The game cannot be started deterministically, or the seed is out of range.
            LaunchError, ProcessNotFoundError, WaitTimeoutError: The game did not start.
        """

    def close(self) -> None:
        """Release keys and time, and end the game if the session started it; a second call does nothing."""
