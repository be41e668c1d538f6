"""A scripted player of varied habits, whose fights show much of a boss that it does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.vocabulary import (
    BOSS_ATTACKS,
    FIRST_ROLL,
    HEAVY_ATTACK,
    LIGHT_ATTACK,
    N_DIRECTIONS,
    NOTHING,
    PARRY,
)

FORWARD, RIGHT, BACKWARD, LEFT = 0, 2, 4, 6
#: Habits; attacking is frequent, so that the fights reach the second phase.
HABITS = ("stand", "circle", "attack", "attack", "attack", "roll", "keep", "parry", "flee")
#: Decisions for which a habit lasts, distances to keep (m), and times of a roll or parry in an attack (s).
DURATION, DISTANCES_M, REACTION_S = (15, 80), (1.5, 2.5, 3.5, 5.0, 7.0, 9.0, 12.0), (0.1, 1.8)
STRIKE_M, NEAR_S = 2.6, 0.06


class VariedPlayer:
    """Plays one fight; changes its habit, distance, side and the time of its rolls at random."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._left = 0

    def begin(self, states: NDArray[np.record], which: NDArray[np.bool_]) -> None:  # noqa: ARG002  (interface)
        """Start a fight; nothing is remembered."""
        self._left = 0

    def act(self, states: NDArray[np.record], masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Choose an action for the `DUEL_STATE` record in ``states`` (1,), given ``masks`` (1, A)."""
        if self._left <= 0:
            self._change()
        self._left -= 1
        state: Any = states[0]
        way = state.boss_pose[:2] - state.player_pose[:2]
        is_attacked = state.boss_animation < len(BOSS_ATTACKS)
        is_time = bool(is_attacked and abs(state.boss_animation_duration - self._reaction_s) < NEAR_S)
        action = self._choose(float(np.hypot(*way)), is_time=is_time)
        return np.array([action if masks[0, action] else NOTHING])

    def _change(self) -> None:
        rng = self._rng
        self._left = int(rng.integers(*DURATION))
        self._habit = str(rng.choice(HABITS))
        self._distance_m = float(rng.choice(DISTANCES_M))
        self._side = int(rng.choice((RIGHT, LEFT)))
        self._reaction_s = float(rng.uniform(*REACTION_S))
        self._roll = FIRST_ROLL + int(rng.integers(N_DIRECTIONS))

    def _choose(self, distance_m: float, *, is_time: bool) -> int:
        if is_time and self._habit in ("roll", "attack"):
            self._reaction_s = float(self._rng.uniform(*REACTION_S))
            return self._roll
        off_m = distance_m - self._distance_m
        strike = LIGHT_ATTACK if self._rng.random() < 0.8 else HEAVY_ATTACK
        actions = {
            "stand": NOTHING,
            "circle": self._side if off_m < 1.0 else FORWARD,
            "attack": FORWARD if distance_m > STRIKE_M else strike,
            "roll": FORWARD if off_m > 0.5 else NOTHING,
            "keep": FORWARD if off_m > 0.3 else BACKWARD if off_m < -0.3 else NOTHING,
            "parry": PARRY if is_time else FORWARD if distance_m > STRIKE_M else NOTHING,
            "flee": BACKWARD,
        }
        return actions[self._habit]
