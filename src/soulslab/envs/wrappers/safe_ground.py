"""What happens when the player leaves the ground: it is put back, or the episode ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import Record
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.duel_source import WritesQuantities, check_knows, duel_of, game_of
from soulslab.envs.wrappers.extended_observation import Env, Wrapper
from soulslab.errors import EnvironmentUsageError, NotResetError, did_you_mean

ON_EXIT = ("teleport", "terminate", "truncate")

_FALLS = frozenset(i for i, name in enumerate(load_knight().animations) if name.startswith("Fall"))
#: What a teleport switches off while it moves the player, where the game has it.
_GUARDS = ("player.no_death", "player.no_gravity")


class SafeGround(Wrapper, RecordConstructorArgs):
    """Keeps the player on the ground.

    The player has left it when it is more than ``beyond_m`` outside of the boundary, when it falls, or when it is
    below ``lowest_m``. ``info["ground"]`` has ``is_outside``, ``distance_m`` (to the edge, inside positive),
    ``is_teleported`` and ``n_teleports`` of the episode. A teleport goes to the nearest place that is ``safe_m`` from
    the edge, at the height where the player last stood on the ground. It shows from the next observation on, and
    brings no reward.

    Args:
        env: Any duel; for teleports one in a running game.
        boundary: The edge.
        on_exit: ``"teleport"`` puts the player back, ``"terminate"`` and ``"truncate"`` end the episode.
        beyond_m: Tolerance outside of the boundary; negative inside of it.
        safe_m: How far from the edge a teleport ends.
        lowest_m: Height below which the player falls; None goes by its animation alone.

    Raises:
        EnvironmentUsageError: An option is wrong, the ground is nowhere ``safe_m`` from its edge, or nothing can be
            written there.
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
            NotResetError: The episode has ended here.
        """
        if self._is_over:
            raise NotResetError("step: the player left the ground, so the episode is over; call reset() first")
        observation, reward, terminated, truncated, info = self.env.step(action)
        state = self._duel.duel_state
        place = np.array(state["player_pose"][:2])
        distance_m = self._boundary.distance(place)
        is_outside = distance_m < -self._beyond_m or self._falls(state)
        is_teleported = False
        if not is_outside:
            self._height_m = float(state["player_pose"][2])
        elif not (terminated or truncated):
            if self._game is not None:
                self._teleport(self._game, place)
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

    def _falls(self, state: Record) -> bool:
        is_low = self._lowest_m is not None and state["player_pose"][2] < self._lowest_m
        return bool(is_low) or int(state.player_animation) in _FALLS

    def _teleport(self, env: WritesQuantities, place: NDArray[np.float64]) -> None:
        """Put the player back. Where time runs on, it must not die or fall in between."""
        safe = self._boundary.nearest_inside(place, self._safe_m)
        guards = {name: value for name, value in env.game.read(*_known(env)).items() if not value}
        if guards:
            env.write_quantities(dict.fromkeys(guards, True))
        try:
            env.write_quantities({"player.position": np.append(safe, self._height_m)})
        finally:
            if guards:
                env.write_quantities(guards)
        self._n_teleports += 1


def _known(env: WritesQuantities) -> list[str]:
    return [name for name in _GUARDS if env.game.has(name)]
