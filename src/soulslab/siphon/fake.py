"""A session without a game: a toy behind the same parts, for tests of whatever stands on a session.

The toy is a point that ``W A S D`` move by one unit per tick, and ``SPACE`` costs it one health point per tick::

    session = FakeSession()
    session.step(Step(held=("W",), advance_s=0.1))   # 60 ticks per second: six of them
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import cv2
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import (
    ClockStalledError,
    ImplausibleValueError,
    InvalidValueError,
    PointerError,
    ProcessExitedError,
    ReadOnlyError,
    UnknownAttributeError,
    UnknownKeyError,
    WindowGoneError,
)
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.clock import Advance
from soulslab.siphon.local import LocalSession
from soulslab.siphon.profile import Attribute, Base, ClockFacts, ClockGrade, Process, Profile, Value
from soulslab.siphon.session import SessionInfo, SessionOptions

TICK_HZ = 60.0
WINDOW_PX = (64, 48)
TOY_PID = 4242
_BASE = Base(module="", offset=0x1000, is_pointer=True, source="made up")


def _number(offset: int, kind: str, low: float, high: float, *, is_writable: bool = True) -> Attribute:
    return msgspec.convert(
        {
            "base": "toy",
            "offsets": [0x10, offset],
            "type": kind,
            "range": [low, high],
            "is_writable": is_writable,
            "source": "made up",
        },
        Attribute,
    )


TOY_PROFILE = Profile(
    name="toy",
    process=Process(executable="toy", command=("toy",), options={"level": "1"}),
    bases={"toy": _BASE},
    attributes={
        "hp": _number(0x0, "i32", 0, 100),
        "x": _number(0x4, "f32", -1e6, 1e6),
        "y": _number(0x8, "f32", -1e6, 1e6),
        "ticks": _number(0xC, "u32", 0, 2**32 - 1, is_writable=False),
        "level": _number(0x10, "i32", 0, 99),
        "is_hurt": Attribute(base="toy", offsets=(0x10, 0x14), type="flag", bit=2, source="made up"),
        "name": Attribute(base="toy", offsets=(0x10, 0x18), type="utf16", length=32, source="made up"),
        "velocity": Attribute(
            base="toy", offsets=(0x10, 0x38), type="f32", length=2, range=(-1e6, 1e6), source="made up"
        ),
    },
    keys={"up": "W", "left": "A", "down": "S", "right": "D", "hurt": "SPACE"},
    clock=ClockFacts(grade="lockstep", tick_hz=TICK_HZ, tick_attribute="ticks"),
)


class Toy:
    """The toy game, with switches for what goes wrong in real ones.

    Attributes:
        values: What its attributes are.
        held: Keys that are down.
        typed: Keys that were typed, in order.
        mouse_px: Where the mouse was moved to, in sum.
        is_alive: False: its process has ended.
        has_window: False: its window was closed.
        is_loading: True: its pointers lead nowhere.
        is_stalled: True: its time does not get on.
    """

    def __init__(self, level: int = 1) -> None:
        self.values: dict[str, Value] = {
            "hp": 100,
            "x": 0.0,
            "y": 0.0,
            "ticks": 0,
            "level": level,
            "is_hurt": False,
            "name": "toy",
            "velocity": np.zeros(2),
        }
        self.held: frozenset[str] = frozenset()
        self.typed: list[str] = []
        self.mouse_px = [0, 0]
        self.is_alive = True
        self.has_window = True
        self.is_loading = False
        self.is_stalled = False
        self._time_s = 0.0

    def check_alive(self) -> None:
        """Raise `ProcessExitedError` after the end of the process."""
        if not self.is_alive:
            raise ProcessExitedError(f"process {TOY_PID} (toy) has ended", pid=TOY_PID)

    def pass_time(self, seconds: float) -> None:
        """Play as many ticks as fit."""
        self._time_s += seconds
        while self.values["ticks"] < int(self._time_s * TICK_HZ + 1e-6):
            self._tick()

    def _tick(self) -> None:
        values = self.values
        velocity = np.array([("D" in self.held) - ("A" in self.held), ("W" in self.held) - ("S" in self.held)], float)
        values["velocity"] = velocity
        values["x"] += float(velocity[0])
        values["y"] += float(velocity[1])
        values["is_hurt"] = "SPACE" in self.held
        values["hp"] = max(0, values["hp"] - values["is_hurt"])
        values["ticks"] += 1

    def draw(self) -> NDArray[np.uint8]:
        """Return its window, RGB: the red of a pixel is the health, the green the tick."""
        if not self.has_window:
            raise WindowGoneError("the window of the toy was closed; restart the session")
        pixels = np.zeros((WINDOW_PX[1], WINDOW_PX[0], 3), np.uint8)
        pixels[..., 0] = self.values["hp"]
        pixels[..., 1] = self.values["ticks"] % 256
        return pixels


class _Attributes:
    """Reads the toy as an `AttributeTable` reads a game."""

    def __init__(self, toy: Toy) -> None:
        self._toy = toy

    def read(self, name: str) -> Value:
        return self.read_many([name])[name]

    def read_many(self, names: Sequence[str] | None) -> dict[str, Value]:
        self._toy.check_alive()
        return {name: self._checked(name) for name in (TOY_PROFILE.attributes if names is None else names)}

    def _checked(self, name: str) -> Value:
        attribute = self._fact(name)
        if self._toy.is_loading:
            raise PointerError("is a null pointer", attribute=name, level=0, address=0x1000, pid=TOY_PID)
        value = self._toy.values[name]
        if attribute.range is not None:
            low, high = attribute.range
            if not (np.all(low <= np.asarray(value)) and np.all(np.asarray(value) <= high)):
                raise ImplausibleValueError(name, value, low, high)
        return value.copy() if isinstance(value, np.ndarray) else value

    def write(self, values: Mapping[str, Value]) -> None:
        self._toy.check_alive()
        for name, value in values.items():
            attribute = self._fact(name)
            if not attribute.is_writable:
                raise ReadOnlyError(f"attribute {name!r} is read-only in the profile")
            if attribute.range is not None:
                low, high = attribute.range
                is_number = isinstance(value, int | float | np.number | np.ndarray)
                if not is_number or not (np.all(low <= np.asarray(value)) and np.all(np.asarray(value) <= high)):
                    raise InvalidValueError(name, value, f"it has to be a number from {low:g} to {high:g}")
            elif not isinstance(value, bool if attribute.type == "flag" else str):
                raise InvalidValueError(name, value, f"its type is {attribute.type}")
        self._toy.values.update(values)

    @staticmethod
    def _fact(name: str) -> Attribute:
        if name not in TOY_PROFILE.attributes:
            raise UnknownAttributeError(name, TOY_PROFILE.attributes)
        return TOY_PROFILE.attributes[name]


class _Input:
    """Holds keys of the toy."""

    backend = "fake"
    known = ("W", "A", "S", "D", "SPACE", "ENTER", "ESC", "MOUSE_LEFT")

    def __init__(self, toy: Toy) -> None:
        self._toy = toy

    @property
    def held(self) -> frozenset[str]:
        return self._toy.held

    def set_held(self, keys: Collection[str]) -> None:
        self._check(keys)
        self._toy.held = frozenset(keys)

    def type(self, keys: Collection[str]) -> None:
        self._check(keys)
        self._toy.typed += keys

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        self._toy.check_alive()
        self._toy.mouse_px[0] += dx_px
        self._toy.mouse_px[1] += dy_px

    def close(self) -> None:
        self._toy.held = frozenset()

    def _check(self, keys: Collection[str]) -> None:
        self._toy.check_alive()
        for key in keys:
            if key not in self.known:
                raise UnknownKeyError(key, self.known)


class _Capture:
    """Takes pictures of the toy."""

    backend = "fake"

    def __init__(self, toy: Toy) -> None:
        self._toy = toy

    @property
    def size_px(self) -> tuple[int, int]:
        return WINDOW_PX

    def grab(self, frame_format: FrameFormat) -> NDArray[np.uint8]:
        self._toy.check_alive()
        pixels: NDArray[np.uint8] = self._toy.draw()
        if frame_format.width_px:
            size = (frame_format.width_px, frame_format.height_px)
            pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.uint8)
        return cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.uint8) if frame_format.is_grey else pixels

    def close(self) -> None:
        return


class _Clock:
    """The time of the toy: it stands unless it is advanced, so that tests are exact."""

    grade: ClockGrade = "lockstep"

    def __init__(self, toy: Toy) -> None:
        self._toy = toy
        self._game_time_s = 0.0
        self._speed = 1.0

    @property
    def game_time_s(self) -> float:
        return self._game_time_s

    @property
    def speed(self) -> float:
        return self._speed

    def run(self, speed: float = 1.0) -> None:
        self._toy.check_alive()
        self._speed = speed

    def pause(self) -> None:
        self._toy.check_alive()
        self._speed = 0.0

    def advance(self, seconds: float, *, deadline_s: float = 10.0) -> Advance:
        self._toy.check_alive()
        self._speed = 0.0
        if self._toy.is_stalled:
            raise ClockStalledError(f"the toy stalls; waited {deadline_s} s", deadline_s)
        self._game_time_s += seconds
        self._toy.pass_time(seconds)
        return Advance(requested_s=seconds, elapsed_s=seconds)

    def close(self) -> None:
        self._speed = 1.0


class _ToyGame:
    """The parts of one start of the toy."""

    def __init__(self, toy: Toy, options: SessionOptions) -> None:
        self.toy = toy
        self.attributes = _Attributes(toy)
        self.clock = _Clock(toy)
        self.input = _Input(toy) if options.with_window else None
        self.capture = _Capture(toy) if options.with_window else None
        self.info = SessionInfo(
            pid=TOY_PID,
            executable="/toy",
            version="",
            module_base=0x400000,
            is_child=True,
            is_read_only=options.is_read_only,
            clock_grade="lockstep",
            input_backend="fake" if options.with_window else "",
            capture_backend="fake" if options.with_window else "",
            window_px=WINDOW_PX,
            display="",
        )

    def explain_exit(self, error: ProcessExitedError) -> ProcessExitedError:
        return error

    def close(self) -> None:
        self.toy.held = frozenset()


class _ToyOpener:
    """Starts toys; tells its session of each."""

    def __init__(self, on_start: Callable[[Toy], None]) -> None:
        self._on_start = on_start

    def open(self, profile: Profile, options: SessionOptions) -> _ToyGame:
        toy = Toy(level=int({**profile.process.options, **options.options}["level"]))
        self._on_start(toy)
        return _ToyGame(toy, options)

    def close(self) -> None:
        return


class FakeSession(LocalSession):
    """A session with the toy: the logic of a local session over parts that need no game.

    Args:
        options: How to open it; `options` may name a ``level``.
        env: The profile's ``[env]`` table.

    Attributes:
        toy: The toy of the last start, to look into and to break.
    """

    toy: Toy

    def __init__(self, options: SessionOptions | None = None, env: dict[str, Value] | None = None) -> None:
        profile = msgspec.structs.replace(TOY_PROFILE, env=env)
        super().__init__(profile, options or SessionOptions(), _ToyOpener(self._started))

    def _started(self, toy: Toy) -> None:
        self.toy = toy
