"""How far it is to the edge of the ground, and which way is back, as part of the observation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs

from soulslab.arena.records import Record
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.duel_source import duel_of
from soulslab.envs.wrappers.extended_observation import Env, ExtendedObservation, number
from soulslab.errors import EnvironmentUsageError, did_you_mean

RELATIVE_TO = ("player", "camera", "world")


class BoundaryObservation(ExtendedObservation, RecordConstructorArgs):
    """Adds ``boundary_distance`` (1,) and ``boundary_normal`` (2,).

    The distance is that of the player to the edge, in m, positive inside. The normal points inwards from the nearest
    edge, a unit vector: how far ahead and how far to the right of whoever looks; with ``"world"`` it is x and y.

    Args:
        env: Any duel.
        boundary: The edge.
        relative_to: Ahead and right of the ``"player"``, of the ``"camera"`` (as the actions are), or ``"world"``.
        most_m: Distances beyond it are reported as it.

    Raises:
        EnvironmentUsageError: An option is wrong, or it is no duel.
    """

    def __init__(self, env: Env, boundary: Boundary, relative_to: str = "player", most_m: float = 50.0) -> None:
        RecordConstructorArgs.__init__(self, boundary=boundary, relative_to=relative_to, most_m=most_m)
        if relative_to not in RELATIVE_TO:
            hint = did_you_mean(str(relative_to), RELATIVE_TO)
            raise EnvironmentUsageError(f"BoundaryObservation: relative_to: unknown {relative_to!r}{hint}")
        if not most_m > 0.0:
            raise EnvironmentUsageError(f"BoundaryObservation: most_m must be greater than 0, not {most_m!r}")
        fields = {"boundary_distance": number(-most_m, most_m), "boundary_normal": number(-1.0, 1.0, 2)}
        super().__init__(env, fields)
        self._boundary = boundary
        self._relative_to = relative_to
        self._duel = duel_of(env, "BoundaryObservation")

    def values(self, *, is_first: bool) -> dict[str, Any]:  # noqa: ARG002 (nothing is carried on)
        """Return distance and normal at the player's place."""
        state = self._duel.duel_state
        place = np.array(state["player_pose"][:2])
        distance_m, way = self._boundary.sense(place)
        if self._relative_to != "world":
            fx, fy = _facing(state, self._relative_to)
            # Right of (fx, fy) is (fy, -fx): angles grow to the left.
            way = np.array([way[0] * fx + way[1] * fy, way[0] * fy - way[1] * fx])
        return {"boundary_distance": distance_m, "boundary_normal": way}


def _facing(state: Record, of: str) -> tuple[float, float]:
    """Return the way that the player or the camera faces, a unit vector on the ground."""
    if of == "player":
        angle = float(state["player_pose"][3])
        return -math.sin(angle), -math.cos(angle)
    x, y = float(state["camera_pose"][3]), float(state["camera_pose"][4])
    flat = math.hypot(x, y)
    return (x / flat, y / flat) if flat > 0.0 else (0.0, 1.0)  # straight up or down: no way is ahead
