"""One game that we are attached to: the interface that local, remote and fake sessions share.

::

    with open_session(load_profile(path), SessionOptions(display="private")) as game:
        game.clock.pause()
        result = game.step(Step(held=("W",), advance_s=0.1, attributes=("hp", "x"), frame=FrameFormat(84, 84, True)))
        result.snapshot["hp"], result.frame.pixels
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Annotated, Protocol, Self

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
from soulslab.siphon.attributes.chain_number import ChainNumber, Number
from soulslab.siphon.attributes.examination import Finding
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.clock import Advance, Clock
from soulslab.siphon.input import Input
from soulslab.siphon.profile import ClockGrade, InputBackend, Profile, Value

LOADING = (PointerError, EntityNotFoundError, ImplausibleValueError, UndecidedAttributeError)
"""What reading raises while a game loads."""


class SessionOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to open a session.

    Attributes:
        pid: Attach to this process; 0 finds it by the profile's executable, or starts it (see `launch`).
        launch: ``always`` starts a new game, ``never`` attaches to one that runs, ``auto`` starts one if the profile
            says how and no `pid` is given.
        display: ``private`` starts an X server of its own for a game that is started; "" uses the one of this
            process; ``:N`` names one. A game that we attach to has its display already, and keeps it.
        screen_px: Width and height of a private display.
        options: Replace `Process.options` of the profile, for a game that is started.
        is_read_only: Refuse everything that changes the game: writes to its memory, keys, mouse, control of its time,
            and restarts. The time of a game that the session did not start is not controlled.
        with_window: Find the window, for keys and frames; without it only memory and time.
        window_title: Text that the title of the window contains; replaces the profile's, "" keeps it. Of several
            processes that may be the game it picks the one that has such a window.
        input_backend: Replaces the profile's; "" keeps it.
        clock: Wanted grade; "" takes the profile's, or, of a game that we did not start, the best up to it that can
            be had.
        on_orphan: What a lockstep game does when we die: ``end`` it, ``run`` on at 1x, or stay ``paused``. A game that
            we did not start runs on instead of being ended.
        allow_unknown_version: Attach although the executable's version is none that the profile knows.
        allow_missing: Open the session although patterns of the profile are not found in the game. An attribute that
            needs one raises `PatternError` when it is used.
        deadline_s: Wall time for the game to come up, window and memory.
        controller: Name of what controls the game, such as the id of an environment. While the session is open, no
            other session with a controller can be opened to the same process; "" only looks, or shares the game.
        deterministic: Start the game with a fixed clock, fixed random sources, a fixed environment and fixed
            addresses, and leave it paused (docs/deterministic_starts.md). It needs a game that the session starts, and
            the clock grade ``lockstep``.
        seed: Seed of a deterministic start: another one is another time of day and other random numbers.
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
    deadline_s: float = 30.0
    controller: str = ""
    deterministic: bool = False
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is attached to.

    Attributes:
        pid: Process id, on the machine of the game.
        executable: Path of the program.
        version: Of the executable; "" if it carries none.
        module_base: Address where it is loaded.
        is_child: We started it, and end it on close.
        is_read_only: Everything that changes the game is refused.
        clock_grade: Grade of the clock.
        clock_reason: Why the grade is lower than the profile's; "" if it is not.
        input_backend: "" without a window.
        capture_backend: "" without a window.
        window_px: Width and height of the window; (0, 0) without one.
        display: X display; "" without a window.
        n_starts: How often the game has been started or attached to by this session.
        sources: Of each attribute with alternatives that are for this version: the source that holds; "" before that
            is decided, which is when the attribute is read for the first time.
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
    """Attributes that were read together: a mapping from name to value, with the time.

    Attributes:
        game_time_s: `Clock.game_time_s` at the reading.
        wall_time_s: `time.time()` at the reading.
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
    """A picture of the game.

    Attributes:
        pixels: (H, W, 3) RGB or (H, W) grey, uint8.
        game_time_s: `Clock.game_time_s` when it was taken.
        wall_time_s: `time.time()` when it was taken.
    """

    pixels: NDArray[np.uint8]
    game_time_s: float
    wall_time_s: float


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to do in one step, in this order: keys, mouse, time, then look.

    Attributes:
        held: Keys to hold from now on; None leaves them as they are.
        again: Those of `held` that the game is to see going down anew, also where they are down already.
        mouse_px: Relative movement of the mouse.
        advance_s: Game time to let pass.
        attributes: What to read then; None for all of the profile.
        frame: Picture to take then; None for none.
        deadline_s: Wall time that the game may take.
        speed: Game seconds per wall second while time passes; None leaves it to the clock (`Clock.advance`).

    Raises:
        InputError: Keys are to be pressed again, but nothing is said of what is held.
    """

    held: tuple[str, ...] | None = None
    again: tuple[str, ...] = ()
    mouse_px: tuple[int, int] = (0, 0)
    advance_s: float = 0.0
    attributes: tuple[str, ...] | None = None
    frame: FrameFormat | None = None
    deadline_s: float = 10.0
    speed: float | None = None

    def __post_init__(self) -> None:
        """Refuse what would do nothing."""
        if self.again and self.held is None:
            raise InputError(
                f"a step presses {', '.join(self.again)} again, but has no keys held; name them in held, too"
            )

    @property
    def changes_game(self) -> bool:
        """Whether the step does more than read: it sends keys, moves the mouse or lets time pass."""
        return self.held is not None or self.mouse_px != (0, 0) or self.advance_s != 0.0


class StepResult(msgspec.Struct, frozen=True, eq=False):
    """What a step came to.

    Attributes:
        advance: How time went.
        snapshot: What was read.
        frame: The picture, if one was asked for.
    """

    advance: Advance
    snapshot: Snapshot
    frame: Frame | None


class Session(Protocol):
    """One game that we are attached to.

    Every method raises `ProcessExitedError` when the game has ended and `SessionStateError` after `close`; a remote
    session may raise `RemoteError` from every method. All of them may be called from several threads, one at a time.

    Attributes:
        profile: The game as data.
        input: Its keys and mouse.
        clock: Its time.
    """

    profile: Profile

    @property
    def info(self) -> SessionInfo:
        """What we are attached to, now. Raises `WindowGoneError` while its window is closed or hidden."""
        ...

    @property
    def input(self) -> Input:
        """Its keys and mouse. Raises `WindowNotFoundError` in a session without a window."""
        ...

    @property
    def clock(self) -> Clock:
        """Its time."""
        ...

    def read(self, name: str) -> Value:
        """Return one attribute.

        Raises:
            UnknownAttributeError: No such attribute.
            AttributeVersionError: It is not known for the version of the game.
            PointerError: Its chain leads nowhere now.
            ImplausibleValueError: It is outside its range.
            EntityNotFoundError: Its entity is not there now.
            UndecidedAttributeError: It has alternatives, and none of the ways gives a plausible value now.
        """
        ...

    def snapshot(self, names: Sequence[str] | None = None) -> Snapshot:
        """Return several attributes, read together. Raises as `read`.

        Args:
            names: Which; None for all of the profile that are known for the version of the game.
        """
        ...

    def examine(self, names: Sequence[str] | None = None) -> dict[str, tuple[Finding, ...]]:
        """Return what each way to attributes leads to now, in the order of the profile; nothing that fails raises.

        Args:
            names: Which; None for all of the profile that are known for the version of the game.

        Raises:
            UnknownAttributeError: No such attribute.
            AttributeVersionError: It is not known for the version of the game.
        """
        ...

    def read_number(self, where: ChainNumber) -> Number:
        """Return a number that the profile does not name, by a chain of pointers of one's own.

        Raises:
            PatternError: The profile has no such base, or it was not found.
            PointerError: The chain leads nowhere now.
            ImplausibleValueError: It is not a number (NaN).
        """
        ...

    def write_number(self, where: ChainNumber, value: Number) -> None:
        """Write such a number.

        Raises:
            ReadOnlyError: The session is read-only.
            InvalidValueError: The value has the wrong type, or does not fit.
            PatternError, PointerError: As in `read_number`.
        """
        ...

    def write(self, values: Mapping[str, Value]) -> None:
        """Write attributes; all are checked before the first is written.

        Raises:
            ReadOnlyError: The session is read-only, or the attribute is.
            InvalidValueError: A value has the wrong type or lies outside its range.
            UnknownAttributeError, AttributeVersionError, PointerError, EntityNotFoundError: As in `read`.
            UndecidedAttributeError: It has alternatives, and it cannot be told yet which of them holds.
        """
        ...

    def capture(self, frame_format: FrameFormat = NATIVE) -> Frame:
        """Take a picture of the window.

        Raises:
            WindowGoneError: It was closed or unmapped.
            WindowNotFoundError: The session has no window.
        """
        ...

    def step(self, step: Step) -> StepResult:
        """Send keys, let time pass, read and take a picture: one round trip when the game is on another machine.

        For steps of whole ticks of the game, go to the middle of a tick first
        (`soulslab.siphon.tick_alignment.TickAlignment`).

        Raises:
            ReadOnlyError: The session is read-only, and the step does more than read.
            ClockStalledError: The game did not get there in time.
            InputError, WindowGoneError: Keys cannot be sent, or no picture be taken.
            SiphonError: All that `read` raises.
        """
        ...

    def restart(self, options: Mapping[str, str] | None = None, *, seed: int | None = None) -> None:
        """End the game and start it again, or find it again if we did not start it; keys are released.

        Args:
            options: Replace `Process.options`, from now on; None keeps what was given before.
            seed: Make this start and later ones deterministic with this seed, 0 to 2**32 - 1; None keeps what was
                given before (`SessionOptions.deterministic`).

        Options and a seed with which the game does not start are not kept: the next call uses those of the last start.

        Raises:
            ReadOnlyError: The session is read-only.
            ConfigError: The game cannot be started deterministically, or the seed is out of range.
            LaunchError, ProcessNotFoundError, WaitTimeoutError: It did not come back.
        """
        ...

    def close(self) -> None:
        """Release keys and time, end the game if we started it, and let go; a second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
