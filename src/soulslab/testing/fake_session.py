"""A session without a game: a toy game on fake backends, for tests of code that uses sessions.

The toy is a point that ``W A S D`` move by one unit per tick, and ``SPACE`` costs it one health point per tick::

    session = FakeSession()
    session.step(Step(held=("W",), advance_s=0.1))   # 60 ticks per second: six of them

Its values are in a `FakeMemory`, behind pointers, and are accessed as those of a real game.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, MutableMapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.local import LocalSession
from soulslab.siphon.profile import Attribute, Base, ClockFacts, Process, Profile, Value
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_game import FakeGame, FakeOpener, InProcessGame, fake_info
from soulslab.testing.fake_memory import FakeMemory

TICK_HZ = 60.0
WINDOW_PX = (64, 48)
TOY_PID = 4242
MODULE_BASE = 0x400000
#: Addresses in the toy's memory: the static pointer, the object that it leads to, and the object with the values.
ROOT_AT, OWNER_AT, OBJECT_AT = MODULE_BASE + 0x1000, 0x10000, 0x20000
OWNER_OFFSET = 0x10
NAME_BYTES = 32
HURT_BIT = 2
#: Layout of the values from OBJECT_AT: struct format and offset of each.
LAYOUT = {
    "hp": ("<i", 0x0),
    "x": ("<f", 0x4),
    "y": ("<f", 0x8),
    "ticks": ("<I", 0xC),
    "level": ("<i", 0x10),
    "is_hurt": ("<B", 0x14),
    "name": (f"<{NAME_BYTES}s", 0x18),
    "velocity": ("<2f", 0x38),
}
OBJECT_SIZE = 0x40


def _attribute(name: str, kind: str, **facts: Any) -> Attribute:
    place = {"base": "toy", "offsets": (OWNER_OFFSET, LAYOUT[name][1])}
    return msgspec.convert({**place, "type": kind, "source": "made up", **facts}, Attribute)


TOY_PROFILE = Profile(
    name="toy",
    process=Process(executable="toy", command=("toy",), options={"level": "1"}),
    bases={"toy": Base(offset=ROOT_AT - MODULE_BASE, is_pointer=True, source="made up")},
    attributes={
        "hp": _attribute("hp", "i32", range=(0, 100)),
        "x": _attribute("x", "f32", range=(-1e6, 1e6)),
        "y": _attribute("y", "f32", range=(-1e6, 1e6)),
        "ticks": _attribute("ticks", "u32", range=(0, 2**32 - 1), is_writable=False),
        "level": _attribute("level", "i32", range=(0, 99)),
        "is_hurt": _attribute("is_hurt", "flag", bit=HURT_BIT),
        "name": _attribute("name", "utf16", length=NAME_BYTES),
        "velocity": _attribute("velocity", "f32", range=(-1e6, 1e6), length=2),
    },
    keys={"up": "W", "left": "A", "down": "S", "right": "D", "hurt": "SPACE"},
    clock=ClockFacts(grade="lockstep", tick_hz=TICK_HZ, tick_attribute="ticks"),
)


class ToyValues(MutableMapping[str, Value]):
    """The values of the toy without range checks, and without regard to whether its pointers are set."""

    def __init__(self, data: bytearray) -> None:
        self._data = data

    def __getitem__(self, name: str) -> Value:
        form, offset = LAYOUT[name]
        values = struct.unpack_from(form, self._data, offset)
        if name == "name":
            return values[0].decode("utf-16-le").partition("\0")[0]
        if name == "is_hurt":
            return bool(values[0] >> HURT_BIT & 1)
        return np.array(values) if len(values) > 1 else values[0]

    def __setitem__(self, name: str, value: Value) -> None:
        form, offset = LAYOUT[name]
        if name == "name":
            value = value.encode("utf-16-le")
        if name == "is_hurt":
            value = bool(value) << HURT_BIT
        parts = value if isinstance(value, np.ndarray) else (value,)
        struct.pack_into(form, self._data, offset, *parts)

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"attribute {name!r} of the toy cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(LAYOUT)

    def __len__(self) -> int:
        return len(LAYOUT)


class Toy(InProcessGame):
    """The toy game, with its memory and the values of its attributes."""

    name, pid, window_px = "toy", TOY_PID, WINDOW_PX

    def __init__(self, level: int = 1) -> None:
        self.memory = FakeMemory(TOY_PID)
        super().__init__()
        self._root = self.memory.map(ROOT_AT, bytearray(8))
        owner = self.memory.map(OWNER_AT, bytearray(OWNER_OFFSET + 8))
        struct.pack_into("<Q", owner, OWNER_OFFSET, OBJECT_AT)
        self.values = ToyValues(self.memory.map(OBJECT_AT, bytearray(OBJECT_SIZE)))
        self.values.update(hp=100, level=level, name="toy")
        self.is_loading = False
        self._time_s = 0.0

    @property
    def is_loading(self) -> bool:
        """Whether its pointers are null, as during loading."""
        return not any(self._root)

    @is_loading.setter
    def is_loading(self, is_loading: bool) -> None:
        struct.pack_into("<Q", self._root, 0, 0 if is_loading else OWNER_AT)

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return not self.memory.has_ended

    @is_alive.setter
    def is_alive(self, is_alive: bool) -> None:
        self.memory.has_ended = not is_alive

    @property
    def held(self) -> frozenset[str]:
        """Keys that are held."""
        return self.input.held

    def play(self, seconds: float) -> None:
        """See `InProcessGame.play`; advances by as many ticks as fit."""
        self._time_s += seconds
        while self.values["ticks"] < int(self._time_s * TICK_HZ + 1e-6):
            self._tick()

    def _tick(self) -> None:
        values, held = self.values, self.held
        velocity = np.array([("D" in held) - ("A" in held), ("W" in held) - ("S" in held)], float)
        values["velocity"] = velocity
        values["x"] += velocity[0]
        values["y"] += velocity[1]
        values["is_hurt"] = "SPACE" in held
        values["hp"] = max(0, values["hp"] - values["is_hurt"])
        values["ticks"] += 1

    def draw(self) -> NDArray[np.uint8]:
        """See `InProcessGame.draw`: the red of a pixel is the health, the green the tick."""
        width_px, height_px = self.read_size_px()
        pixels = np.zeros((height_px, width_px, 3), np.uint8)
        pixels[..., 0] = self.values["hp"]
        pixels[..., 1] = self.values["ticks"] % 256
        return pixels


class FakeSession(LocalSession):
    """A session with the toy (since the last start): the logic of a local session on fake backends.

    Args:
        options: Session options; `options` may name a ``level``.
        env: The profile's ``[env]`` table.
    """

    toy: Toy

    def __init__(self, options: SessionOptions | None = None, env: dict[str, Value] | None = None) -> None:
        profile = msgspec.structs.replace(TOY_PROFILE, env=env)
        super().__init__(profile, options or SessionOptions(), FakeOpener(self._start))

    def _start(self, profile: Profile, options: SessionOptions) -> FakeGame:
        self.toy = toy = Toy(level=int({**profile.process.options, **options.options}["level"]))
        info = msgspec.structs.replace(fake_info(TOY_PID, "/toy", WINDOW_PX, options), module_base=MODULE_BASE)
        table = AttributeTable(profile, toy.memory, ResolvedAddresses(bases={"toy": ROOT_AT}))
        return FakeGame(toy, table, options, info)
