"""A duel that a test sets up and plays tick by tick or decision by decision.

The player stands in the centre of the floor and faces +y. The boss stands ahead of it and only turns, unless a test
begins a move.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from soulslab.arena.boss_file import load_boss
from soulslab.arena.boss_rules import start_move
from soulslab.arena.duel_rules import duel_tick
from soulslab.arena.knight_file import load_knight
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.vocabulary import NOTHING

KNIGHT = load_knight()
KNOCK_BACKS = tuple(KNIGHT.knock_backs)
NEVER = 10**9


def shipped(name: str) -> Any:
    return load_boss(name, KNOCK_BACKS)


def make_simulator(boss: str = "judge", seeds: Any = (1,), **options: Any) -> Simulator:
    """Return a simulator whose duel i is seeded with ``seeds[i]`` and reset, without autoreset."""
    options = {"autoreset": "disabled", **options}
    simulator = Simulator(shipped(boss), len(seeds), FightOptions(**options))
    everyone = np.ones(len(seeds), np.bool_)
    simulator.seed(np.array(seeds, np.uint64), everyone)
    simulator.reset(everyone)
    return simulator


class Stage:
    """A duel; ``d`` is its record, ``f`` the record of the fight."""

    def __init__(self, boss: str = "judge", *, gap_m: float = 10.0, **options: Any) -> None:
        self.simulator = make_simulator(boss, states=True, **options)
        self.d, self.f = self.simulator.duels[0], self.simulator.fight[0]
        self.d.b_wait = NEVER
        self.f.b_walk = self.f.b_run = 0.0
        self.place(gap_m)

    def place(self, gap_m: float) -> None:
        """Put the boss ``gap_m`` (between the bodies) ahead of the player, both facing each other."""
        d, f = self.d, self.f
        d.p_x, d.p_y = f.centre_x, f.centre_y
        d.b_x, d.b_y = f.centre_x, f.centre_y + gap_m + f.p_radius + f.b_radius
        d.p_fx, d.p_fy, d.c_fx, d.c_fy, d.b_fx, d.b_fy = 0.0, 1.0, 0.0, 1.0, 0.0, -1.0

    def tick(self, n: int = 1, action: int = NOTHING, *, press: bool = False) -> None:
        """Play ``n`` ticks; with ``press`` the keys of the action are pressed at the first one."""
        for k in range(n):
            duel_tick(self.d, self.f, action, press and k == 0)

    def decide(self, action: int = NOTHING, n: int = 1) -> np.ndarray:
        """Play an action and then ``n - 1`` decisions of nothing; return the action mask."""
        for k in range(n):
            self.simulator.step(np.array([action if k == 0 else NOTHING]))
        return self.simulator.masks[0]

    def move(self, name: str) -> int:
        """Return the number of a move of the boss."""
        return [move.id for move in self.simulator.boss.moves].index(name)

    def begin(self, name: str) -> Any:
        """Begin a move of the boss; return the record of its first window."""
        start_move(self.d, self.f, self.move(name))
        return self.f.windows[self.f.moves[self.move(name)].first_window]

    def stand_still(self, *animations: str) -> None:
        """Remove the movement from these animations of the player."""
        for name in animations:
            self.f.animations[KNIGHT.number(name)].advance = 0.0

    @property
    def animation(self) -> str:
        """Name of the player's animation."""
        return KNIGHT.animations[self.d.p_anim]
