"""Wrappers that change a running game: `SafeGround` moves the player back, `HealthRefund` restores lost health."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from soulslab.arena.knight_file import load_knight
from soulslab.envs.arguments import check_choice, check_names
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.duel_source import FIGHTERS, Env, Wrapper, WritesQuantities, check_knows, duel_of, game_of
from soulslab.errors import EnvironmentUsageError, NotResetError, SiphonError

ON_EXIT = ("teleport", "terminate", "truncate")
REFUNDS = ("hit", "time", "phase")

_FALL_ANIMATIONS = frozenset(i for i, name in enumerate(load_knight().animations) if name.startswith("Fall"))
#: Flags that a teleport sets while it moves the player, if the game has them.
_TELEPORT_FLAGS = ("player.no_death", "player.no_gravity")


class SafeGround(Wrapper, RecordConstructorArgs):
    """Keeps the player on the ground.

    The player has left the ground if it is more than ``beyond_m`` outside of the boundary, if it falls, or if it is
    below ``lowest_m``. A teleport moves it to the nearest position that is ``safe_m`` from the edge, at the height at
    which it last stood on the ground. The teleport is visible from the next observation on, and does not change the
    reward. ``info["ground"]`` has ``is_outside``, ``distance_m`` (to the edge, positive inside), ``is_teleported``, and
    ``n_teleports`` of the episode.

    Args:
        env: A duel environment; teleports need a running game.
        on_exit: ``"teleport"`` moves the player back, ``"terminate"`` and ``"truncate"`` end the episode.
        beyond_m: Tolerance outside of the boundary; a negative one ends inside of it.
        safe_m: Distance from the edge after a teleport.
        lowest_m: Height below which the player counts as falling; None uses the player's animation only.

    Raises:
        EnvironmentUsageError: An option is invalid, no position is ``safe_m`` from the edge, or the game cannot be
            written.
    """

    def __init__(
        self,
        env: Env,
        boundary: Boundary,
        on_exit: str = "teleport",
        beyond_m: float = 0.0,
        safe_m: float = 1.0,
        lowest_m: float | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, boundary=boundary, on_exit=on_exit, beyond_m=beyond_m, safe_m=safe_m, lowest_m=lowest_m
        )
        super().__init__(env)
        check_choice("SafeGround: on_exit: unknown", on_exit, ON_EXIT)
        if not safe_m > -beyond_m:
            raise EnvironmentUsageError(
                f"SafeGround: a teleport to {safe_m} m from the edge would be outside again, with beyond_m={beyond_m}"
            )
        self._boundary, self._on_exit = boundary, on_exit
        self._beyond_m, self._safe_m, self._lowest_m = beyond_m, safe_m, lowest_m
        self._duel = duel_of(env, "SafeGround")
        self._game: WritesQuantities | None = None
        if on_exit == "teleport":
            self._game = game_of(env, "SafeGround(on_exit='teleport')")
            boundary.nearest_inside(boundary.rings[0][0], safe_m)
        self._height_m = 0.0
        self._n_teleports = 0
        self._is_over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        if self._game is not None:
            check_knows(self._game, "SafeGround(on_exit='teleport')", "player.position")
        position = np.array(self._duel.duel_state["player_pose"][:2])
        self._height_m = float(self._duel.duel_state["player_pose"][2])
        self._n_teleports = 0
        self._is_over = False
        distance_m = self._boundary.distance(position)
        return observation, {**info, "ground": self._ground(distance_m, is_outside=self._is_outside(distance_m))}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`.

        Raises:
            NotResetError: The episode has ended because the player left the ground.
        """
        if self._is_over:
            raise NotResetError("step: the player left the ground, so the episode is over; call reset() first")
        observation, reward, terminated, truncated, info = self.env.step(action)
        state = self._duel.duel_state
        position = np.array(state["player_pose"][:2])
        distance_m = self._boundary.distance(position)
        is_outside = self._is_outside(distance_m)
        is_teleported = False
        if not is_outside:
            self._height_m = float(state["player_pose"][2])
        elif not (terminated or truncated):
            if self._game is not None:
                self._teleport(self._game, position)
                is_teleported = True
            else:
                self._is_over = True
                terminated, truncated = self._on_exit == "terminate", self._on_exit == "truncate"
        ground = self._ground(distance_m, is_outside=is_outside, is_teleported=is_teleported)
        return observation, reward, terminated, truncated, {**info, "ground": ground}

    def _is_outside(self, distance_m: float) -> bool:
        """Return whether the player has left the ground, given its distance to the edge."""
        state = self._duel.duel_state
        is_low = self._lowest_m is not None and bool(state["player_pose"][2] < self._lowest_m)
        return bool(distance_m < -self._beyond_m or is_low or int(state.player_animation) in _FALL_ANIMATIONS)

    def _ground(self, distance_m: float, *, is_outside: bool, is_teleported: bool = False) -> dict[str, Any]:
        return {
            "is_outside": is_outside,
            "distance_m": distance_m,
            "is_teleported": is_teleported,
            "n_teleports": self._n_teleports,
        }

    def _teleport(self, env: WritesQuantities, position: NDArray[np.float64]) -> None:
        """Move the player back. In real time it must not die or fall meanwhile, so flags of the game protect it."""
        target = self._boundary.nearest_inside(position, self._safe_m)
        known = [name for name in _TELEPORT_FLAGS if env.game.has(name)]
        flags = {name: value for name, value in env.game.read(*known).items() if not value}
        if flags:
            env.write_quantities(dict.fromkeys(flags, True))
        try:
            env.write_quantities({"player.position": np.append(target, self._height_m)})
        finally:
            if flags:
                env.write_quantities(flags)
        self._n_teleports += 1


class HealthRefund(Wrapper, RecordConstructorArgs):
    """Restores lost health by writing to the game.

    The observation and the reward of a step include the loss. The refund is visible from the next observation on, and
    does not change the reward. ``info["refund"]`` has the health that each fighter lost in the step and received after
    it, in hit points: ``player_lost``, ``player_given``, ``boss_lost``, ``boss_given``.

    - ``when="hit"``: after each step with a loss, restore ``share`` of the loss.
    - ``when="time"``: after each step, restore ``share`` of full health per second of game time.
    - ``when="phase"``: when the second phase of the fight begins, restore ``share`` of the missing health.

    A deadly blow still kills. With ``keeps_alive`` the wrapper sets the flag of the game that the player cannot die, so
    that even a deadly blow is refunded.

    Args:
        env: A duel in a running game that counts health itself (``episodes="demo"``).
        of: The fighters: ``"player"``, ``"boss"`` or both.
        when: See above.
        share: See above; from 0 to 1, except for ``"time"``.
        keeps_alive: See above. The profile of the game must have the quantity ``player.no_death``.

    Raises:
        EnvironmentUsageError: An option is invalid, or the game cannot be written.
    """

    def __init__(
        self,
        env: Env,
        of: Sequence[str] = ("player",),
        when: str = "hit",
        share: float = 1.0,
        keeps_alive: bool = False,
    ) -> None:
        RecordConstructorArgs.__init__(self, of=of, when=when, share=share, keeps_alive=keeps_alive)
        super().__init__(env)
        check_names("HealthRefund: of", of, FIGHTERS)
        check_choice("HealthRefund: when: unknown", when, REFUNDS)
        if not share >= 0.0 or (when != "time" and share > 1.0):
            raise EnvironmentUsageError(f"HealthRefund: share must be from 0 to 1, not {share!r}")
        self._of, self._when, self._share, self._keeps_alive = tuple(of), when, share, keeps_alive
        self._duel = duel_of(env, "HealthRefund")
        self._game = game_of(env, "HealthRefund")
        if getattr(getattr(env.unwrapped, "options", None), "episodes", "") == "in_place":
            raise EnvironmentUsageError(
                "HealthRefund: with episodes='in_place' the environment keeps the health of the game full and counts "
                "losses itself; use episodes='demo'"
            )
        self._hp: dict[str, float] = {}
        self._phase = 1
        self._time_s = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        check_knows(self._game, "HealthRefund", *(f"{who}.hp" for who in self._of))
        if self._keeps_alive:
            check_knows(self._game, "HealthRefund(keeps_alive=True)", "player.no_death")
            self._game.write_quantities({"player.no_death": True})
        self._read_state()
        self._time_s = float(info["game_time_s"])
        return observation, {**info, "refund": _refund(dict.fromkeys(FIGHTERS, 0.0), dict.fromkeys(FIGHTERS, 0.0))}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        hp, phase = dict(self._hp), self._phase
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._read_state()
        passed_s, self._time_s = info["game_time_s"] - self._time_s, info["game_time_s"]
        lost = {who: max(hp[who] - self._hp[who], 0.0) for who in FIGHTERS}
        given = dict.fromkeys(FIGHTERS, 0.0)
        if not (terminated or truncated):
            has_new_phase = self._phase > phase
            given |= {who: self._refund_of(who, lost[who], passed_s, has_new_phase) for who in self._of}
        written = {f"{who}.hp": self._hp[who] + given[who] for who in self._of if given[who] > 0.0}
        if written:
            self._game.write_quantities(written)
            self._hp |= {name.removesuffix(".hp"): value for name, value in written.items()}
        return observation, reward, terminated, truncated, {**info, "refund": _refund(lost, given)}

    def close(self) -> None:
        """Reset the flag of ``keeps_alive`` unless the game cannot be written any more, and close the environment."""
        keeps_alive, self._keeps_alive = self._keeps_alive, False
        try:
            if keeps_alive and self._hp:
                with contextlib.suppress(SiphonError):  # a game that has ended has no flag
                    self._game.write_quantities({"player.no_death": False})
        finally:
            super().close()

    def _read_state(self) -> None:
        state = self._duel.duel_state
        self._hp = {who: float(state[f"{who}_hp"]) for who in FIGHTERS}
        self._full = {who: float(state[f"{who}_max_hp"]) for who in FIGHTERS}
        self._phase = int(state.phase)

    def _refund_of(self, who: str, lost: float, passed_s: float, has_new_phase: bool) -> float:
        """Return the health that a fighter receives now, in hit points."""
        missing = self._full[who] - self._hp[who]
        due = {
            "hit": self._share * lost,
            "time": self._share * self._full[who] * passed_s,
            "phase": self._share * missing * has_new_phase,
        }
        return float(min(due[self._when], missing))


def _refund(lost: Mapping[str, float], given: Mapping[str, float]) -> dict[str, float]:
    """Return ``info["refund"]``."""
    return {f"{who}_lost": lost[who] for who in FIGHTERS} | {f"{who}_given": given[who] for who in FIGHTERS}
