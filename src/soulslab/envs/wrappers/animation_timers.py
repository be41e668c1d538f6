"""How far the present animations are: what a player reads off the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from soulslab.arena.duel_state import MAX_ANIMATION_S
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import DECISION_S, TICKS_PER_S
from soulslab.arena.vocabulary import BOSS_ANIMATIONS
from soulslab.envs.wrappers.duel_source import duel_of
from soulslab.envs.wrappers.extended_observation import Env, ExtendedObservation, number
from soulslab.errors import EnvironmentUsageError, did_you_mean

FIGHTERS = ("player", "boss")
TIMERS = ("time", "frame", "steps", "one_hot")
_MAX_STEPS = round(MAX_ANIMATION_S / DECISION_S)


class AnimationTimers(ExtendedObservation, RecordConstructorArgs):
    """Adds how long the present animation of the player and of the boss has been going on.

    For each fighter and timer a field ``{fighter}_animation_{timer}``:

    - ``time``: seconds of game time since it began, 0 to 10;
    - ``frame``: the same in frames of 1/60 s, whole numbers, 0 to 600;
    - ``steps``: steps of the environment since it was first seen, 0 to 100;
    - ``one_hot``: which animation, one number for each known one; all 0 for an unknown one.

    Args:
        env: Any duel.
        of: Whose: ``"player"``, ``"boss"``.
        timers: Which of the above.

    Raises:
        EnvironmentUsageError: There is no such fighter or timer, or it is no duel.
    """

    def __init__(
        self, env: Env, of: Sequence[str] = FIGHTERS, timers: Sequence[str] = ("time", "steps", "one_hot")
    ) -> None:
        RecordConstructorArgs.__init__(self, of=of, timers=timers)
        _check("of", of, FIGHTERS)
        _check("timers", timers, TIMERS)
        self._n_animations = {"player": len(load_knight().animations), "boss": len(BOSS_ANIMATIONS)}
        fields = {f"{who}_animation_{timer}": self._space(who, timer) for who in of for timer in timers}
        super().__init__(env, fields)
        self._duel = duel_of(env, "AnimationTimers")
        self._of = tuple(of)
        self._last: dict[str, tuple[int, float]] = {}
        self._n_steps: dict[str, int] = {}

    def _space(self, who: str, timer: str) -> spaces.Box:
        most = {"time": MAX_ANIMATION_S, "frame": MAX_ANIMATION_S * TICKS_PER_S, "steps": float(_MAX_STEPS)}
        return number(0.0, most[timer]) if timer in most else number(0.0, 1.0, self._n_animations[who])

    def values(self, *, is_first: bool) -> dict[str, Any]:
        """Return all timers, asked for or not."""
        state = self._duel.duel_state
        values: dict[str, Any] = {}
        for who in self._of:
            animation, time_s = int(state[f"{who}_animation"]), float(state[f"{who}_animation_duration"])
            last_animation, last_s = self._last.get(who, (animation, time_s))
            # The same animation may follow itself; then its time has gone back.
            goes_on = not is_first and animation == last_animation and time_s >= last_s
            self._n_steps[who] = self._n_steps.get(who, 0) + 1 if goes_on else 0
            self._last[who] = animation, time_s
            values[f"{who}_animation_time"] = time_s
            values[f"{who}_animation_frame"] = round(time_s * TICKS_PER_S)
            values[f"{who}_animation_steps"] = self._n_steps[who]
            values[f"{who}_animation_one_hot"] = self._one_hot(who, animation)
        return values

    def _one_hot(self, who: str, animation: int) -> NDArray[np.float32]:
        row = np.zeros(self._n_animations[who], np.float32)
        if animation >= 0:
            row[animation] = 1.0
        return row


def _check(option: str, given: Sequence[str], known: tuple[str, ...]) -> None:
    if isinstance(given, str) or not given:
        raise EnvironmentUsageError(f"AnimationTimers: {option} must be a list of some of {known}, not {given!r}")
    for name in given:
        if name not in known:
            raise EnvironmentUsageError(f"AnimationTimers: {option}: unknown {name!r}{did_you_mean(str(name), known)}")
