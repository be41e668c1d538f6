"""A wrapper that moves a player who leaves the ground back, or ends the episode."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import Record
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.duel_source import Env, Wrapper, WritesQuantities, check_knows, duel_of, game_of
from soulslab.errors import EnvironmentUsageError, NotResetError, did_you_mean

ON_EXIT = ("teleport", "terminate", "truncate")

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
        boundary: The edge of the ground.
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
        if on_exit not in ON_EXIT:
            raise EnvironmentUsageError(
                f"SafeGround: on_exit: unknown {on_exit!r}{did_you_mean(str(on_exit), ON_EXIT)}"
            )
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
        self._height_m = float(self._duel.duel_state["player_pose"][2])
        self._n_teleports = 0
        self._is_over = False
        return observation, info

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
        is_outside = distance_m < -self._beyond_m or self._is_falling(state)
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
        ground = {
            "is_outside": bool(is_outside),
            "distance_m": distance_m,
            "is_teleported": is_teleported,
            "n_teleports": self._n_teleports,
        }
        return observation, reward, terminated, truncated, {**info, "ground": ground}

    def _is_falling(self, state: Record) -> bool:
        is_low = self._lowest_m is not None and state["player_pose"][2] < self._lowest_m
        return bool(is_low) or int(state.player_animation) in _FALL_ANIMATIONS

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
