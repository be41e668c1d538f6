"""Which actions are open, by what can be seen: the animation, how long it lasts, and the stamina.

The same rule as `soulslab.arena.player_rules.write_mask`, in seconds as SoulsGym has it, for times that are read of a
game need not lie on the ticks of the built-in fight. At those both agree to the last one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.knight_file import load_knight
from soulslab.arena.vocabulary import FIRST_ROLL, LIGHT_ATTACK, N_DIRECTIONS, NOTHING

#: Who falls can do nothing; the animations of a fall begin so.
_FALL = "Fall"
#: Of times that are read as float32. A tick of 1/60 s that does not meet a lock is at least 3 ms beside it.
_ROUNDING_S = 1e-4
_UNLOCKED = (0.0, 0.0, 0.0)


class Freedom(NamedTuple):
    """What the player can do now.

    Attributes:
        can_move: Walk.
        can_roll: Roll.
        can_attack: Attack and parry.
    """

    can_move: bool
    can_roll: bool
    can_attack: bool

    def allows(self, action: int) -> bool:
        """Tell whether one of the 20 actions is open."""
        if action == NOTHING:
            return True
        if action < FIRST_ROLL:
            return self.can_move
        return self.can_roll if action < LIGHT_ATTACK else self.can_attack

    def write(self, mask: NDArray[np.bool_]) -> int:
        """Write which actions are open, (20,) bool; return how many."""
        mask[:FIRST_ROLL] = self.can_move
        mask[FIRST_ROLL:LIGHT_ATTACK] = self.can_roll
        mask[LIGHT_ATTACK:NOTHING] = self.can_attack
        mask[NOTHING] = True
        return 1 + N_DIRECTIONS * (self.can_move + self.can_roll) + 3 * self.can_attack


class Locks:
    """The lock times of the player's animations."""

    def __init__(self) -> None:
        self._locks_s = load_knight().locks_s

    def freedom(self, animation: str, time_s: float, sp: float) -> Freedom:
        """Return what can be done.

        Args:
            animation: The player's. In one that is in no table all is open: a key that does nothing does no harm.
            time_s: How long it lasts.
            sp: The player's stamina.
        """
        if animation.startswith(_FALL):
            return Freedom(False, False, False)
        attack_s, roll_s, move_s = self._locks_s.get(animation, _UNLOCKED)
        has_breath, time_s = sp > 0.0, time_s + _ROUNDING_S
        return Freedom(time_s >= move_s, has_breath and time_s >= roll_s, has_breath and time_s >= attack_s)


def is_falling(animation: str) -> bool:
    """Tell whether an animation of the player is one of a fall."""
    return animation.startswith(_FALL)
