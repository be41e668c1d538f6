"""Session with the built-in fight in this process, without a game process or a window, for tests.

Keys, game time, attributes and writes have the same effect on the fight as in the real window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.binding import Binding
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.live_fight import BUTTONS, LiveFight, LiveFightOptions
from soulslab.arena.records import TICKS_PER_S
from soulslab.arena.top_down import draw_duel
from soulslab.errors import (
    PatternError,
    PointerError,
    ReadOnlyError,
    UnknownAttributeError,
)
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.attributes.alternatives import Finding, examine_variant
from soulslab.siphon.attributes.pointer_chains import ChainNumber, Number
from soulslab.siphon.local import LocalSession
from soulslab.siphon.profile import Profile, Value, load_profile
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_game import FakeGame, FakeOpener, InProcessGame, fake_info

PID = 4343
WINDOW_PX = (320, 180)


class FakeArena(InProcessGame):
    """The game of a `FakeArenaSession`.

    Attributes:
        fight: The fight; tests read and change it.
        is_deaf: True means that the game ignores all keys.
        n_drawn: Number of times the window was drawn.
        of_fighters: Attributes that cannot be read while the game loads.
    """

    name, pid, window_px = "arena", PID, WINDOW_PX

    def __init__(self, profile: Profile, options: Mapping[str, str]) -> None:
        super().__init__()
        boss = find_boss(options.get("boss", "judge"))
        self.fight = LiveFight(
            boss,
            LiveFightOptions(
                phase=options.get("phase", "full"),
                random_pose=options.get("poses", "fixed") == "random",
                seed=int(options.get("seed", "0")),
            ),
        )
        self.profile = profile
        self.binding = Binding(profile.duel, profile.attributes)
        self.is_deaf = False
        self.n_drawn = 0
        # In units of 1 / (ticks per s) ns, so that fractions of a tick add up exactly.
        self._time_left_ns = 0
        self._n_events = 0
        self.of_fighters = {
            name for quantity, name in self.binding.attributes.items() if quantity.startswith(("player.", "boss."))
        }
        self._buttons = {key: name for name, key in profile.keys.items()}

    def play(self, seconds: float) -> None:
        """See `InProcessGame.play`."""
        self._time_left_ns += round(seconds * 1e9 * self.fight.speed) * TICKS_PER_S
        n_ticks, self._time_left_ns = divmod(self._time_left_ns, 10**9)
        for _ in range(n_ticks):
            self._tick()

    def _tick(self) -> None:
        held = {self._buttons[key] for key in self.input.held if key in self._buttons}
        events = self.input.events[self._n_events :]
        self._n_events = len(self.input.events)
        pressed = [self._buttons[key] for key, is_press in events if is_press and key in self._buttons]
        if self.is_deaf:
            held, pressed = set(), []
        if "restart" in pressed:
            self.fight.restart()
        self.fight.tick(held & set(BUTTONS), [name for name in pressed if name in BUTTONS])

    def draw(self) -> NDArray[np.uint8]:
        """See `InProcessGame.draw`."""
        _, height_px = self.read_size_px()
        self.n_drawn += 1
        picture = draw_duel(self.fight.boss, self.fight.fight, self.fight.duel, height_px=height_px)
        return np.ascontiguousarray(picture)


class _Attributes:
    """Reads and writes the fight by the names of the profile (`soulslab.siphon.local.Attributes`)."""

    def __init__(self, arena: FakeArena) -> None:
        self._arena = arena
        self.sources: dict[str, str] = {}

    def read(self, name: str) -> Value:
        return self.read_many((name,))[name]

    def read_many(self, names: Sequence[str] | None) -> dict[str, Value]:
        arena = self._arena
        values = self._select(names)
        for name in values:
            if arena.fight.stage == "loading" and name in arena.of_fighters:
                problem = "is not available while the game loads"
                raise PointerError(problem, attribute=name, level=0, address=0, pid=PID, is_null=True)
        return values

    def examine(self, names: Sequence[str] | None) -> dict[str, tuple[Finding, ...]]:
        facts = self._arena.profile.attributes
        # The fight has no memory layout, so addresses do not exist.
        return {
            name: (examine_variant(facts[name].source, partial(self.read, name), lambda: 0),)
            for name in self._select(names)
        }

    def _select(self, names: Sequence[str] | None) -> dict[str, Value]:
        """Return the values of the named attributes, even while the game loads; None for all."""
        arena = self._arena
        arena.check_alive()
        values = arena.binding.values(arena.fight)
        for name in names or ():
            if name not in values:
                raise UnknownAttributeError(name, values)
        return values if names is None else {name: values[name] for name in names}

    def write(self, values: Mapping[str, Value]) -> None:
        arena = self._arena
        arena.check_alive()
        for name in values:
            if not arena.profile.attributes[name].is_writable:
                raise ReadOnlyError(f"attribute {name!r} is read-only in the profile; nothing was written")
        arena.binding.apply(arena.fight, values)

    def read_number(self, where: ChainNumber) -> Number:
        problem = "has no memory address: the fake session only has the attributes of the fight"
        raise PatternError(problem, base=where.base)

    def write_number(self, where: ChainNumber, value: Number) -> None:
        del value
        self.read_number(where)


class FakeArenaSession(LocalSession):
    """Session with the built-in fight in this process; `arena` is the game since the last start.

    Args:
        options: Session options; their ``options`` are those of the profile's command (``boss``, ``phase``, ``seed``,
            ``poses``).
        profile: Names and keys; None uses the profile of the arena.
    """

    arena: FakeArena

    def __init__(self, options: SessionOptions | None = None, profile: Profile | None = None) -> None:
        super().__init__(profile or load_profile(PROFILE_PATH), options or SessionOptions(), FakeOpener(self._start))

    def _start(self, profile: Profile, options: SessionOptions) -> FakeGame:
        self.arena = FakeArena(profile, {**profile.process.options, **options.options})
        return FakeGame(self.arena, _Attributes(self.arena), options, fake_info(PID, "/arena", WINDOW_PX, options))
