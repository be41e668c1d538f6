"""DUEL_STATE: the 15 fields of a boss duel, the same for the simulator, the window and the real games.

The table `DUEL_FIELDS` is the only definition of the fields. Observation spaces, bounds, the record that the kernels
write and a page of the documentation are generated from it; no code refers to a field by position. Names and order are
those of SoulsGym 1.1.0 (MIT).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np

#: The camera is this far behind and above the player.
CAMERA_BACK_M, CAMERA_UP_M = 4.0, 2.0

Kind = Literal["scalar", "pose", "camera", "category", "constant", "flag"]


class DuelField(msgspec.Struct, frozen=True):
    """One field of a duel; ``name`` is its key in the observation, ``unit`` its unit, or what the integers mean.

    ``kind`` is ``scalar`` (shape (1,), float32), ``pose`` (x, y, z, angle), ``camera`` (x, y, z and the direction it
    looks in), ``category`` (an integer), ``constant`` (an integer with a single value) or ``flag`` (0 or 1).
    """

    name: str
    kind: Kind
    unit: str
    doc: str

    @property
    def size(self) -> int:
        """Number of components."""
        return {"pose": 4, "camera": 6}.get(self.kind, 1)

    @property
    def is_integer(self) -> bool:
        """Whether the observation holds it as an integer."""
        return self.kind in {"category", "constant", "flag"}


#: Largest animation time that is reported; longer times are clipped.
MAX_ANIMATION_S = 10.0

DUEL_FIELDS = (
    DuelField("phase", "category", "1 or 2", "phase of the fight"),
    DuelField("player_hp", "scalar", "hit points", "player's health"),
    DuelField("player_max_hp", "constant", "hit points", "player's full health"),
    DuelField("player_sp", "scalar", "stamina points", "player's stamina"),
    DuelField("player_max_sp", "constant", "stamina points", "player's full stamina"),
    DuelField("boss_hp", "scalar", "hit points", "boss's health"),
    DuelField("boss_max_hp", "constant", "hit points", "boss's full health"),
    DuelField("player_pose", "pose", "m, m, m, rad", "x, y, height and angle of the player"),
    DuelField("boss_pose", "pose", "m, m, m, rad", "x, y, height and angle of the boss"),
    DuelField("camera_pose", "camera", "m, m, m, unit vector", "position of the camera and direction of its view"),
    DuelField("player_animation", "category", "number, -1 unknown", "player's animation"),
    DuelField("player_animation_duration", "scalar", "s", "time since the animation began"),
    DuelField("boss_animation", "category", "number, -1 unknown", "boss's animation"),
    DuelField("boss_animation_duration", "scalar", "s", "time since the animation began"),
    DuelField("lock_on", "flag", "0 or 1", "whether the camera is locked on the boss"),
)

#: The fields as one record, and the time of the boss's binned animation, which the features need (see
#: `soulslab.arena.features`).
DUEL_STATE: np.dtype[Any] = np.dtype(
    (
        np.record,
        [
            *((one.name, "i8" if one.is_integer else "f8", (one.size,) if one.size > 1 else ()) for one in DUEL_FIELDS),
            ("boss_bin_duration", "f8"),
        ],
    )
)
