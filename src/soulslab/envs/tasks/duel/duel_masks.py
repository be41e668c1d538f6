"""Which actions are open, computed from the player's animation, its duration and the player's stamina.

The rule is that of `soulslab.arena.player.write_mask`, but in seconds as in SoulsGym, because durations that are read
from a game are not always whole ticks of the built-in fight. For whole ticks both give the same result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.knight_file import load_knight
from soulslab.arena.vocabulary import FIRST_ROLL, LIGHT_ATTACK, N_DIRECTIONS, NOTHING

#: Prefix of the animations of a fall, in which no action is open.
_FALL = "Fall"
#: Tolerance for durations that are read as float32. A tick of 1/60 s either coincides with the end of a lock or is at
#: least 3 ms away from it.
_ROUNDING_S = 1e-4
_UNLOCKED = (0.0, 0.0, 0.0)


class OpenActions(NamedTuple):
    """Which kinds of actions are open.

    Attributes:
        can_move: Whether the player can walk.
        can_roll: Whether the player can roll.
        can_attack: Whether the player can attack and parry.
    """

    can_move: bool
    can_roll: bool
    can_attack: bool

    def allows(self, action: int) -> bool:
        """Return whether one of the 20 actions is open."""
        if action == NOTHING:
            return True
        if action < FIRST_ROLL:
            return self.can_move
        return self.can_roll if action < LIGHT_ATTACK else self.can_attack

    def write(self, mask: NDArray[np.bool_]) -> int:
        """Write which actions are open to `mask`, (20,) bool; return the number of open actions."""
        mask[:FIRST_ROLL] = self.can_move
        mask[FIRST_ROLL:LIGHT_ATTACK] = self.can_roll
        mask[LIGHT_ATTACK:NOTHING] = self.can_attack
        mask[NOTHING] = True
        return 1 + N_DIRECTIONS * (self.can_move + self.can_roll) + 3 * self.can_attack


class AnimationLocks:
    """The lock times of the player's animations."""

    def __init__(self) -> None:
        self._locks_s = load_knight().locks_s

    def open_actions(self, animation: str, time_s: float, sp: float) -> OpenActions:
        """Return which kinds of actions are open.

        Args:
            animation: Name of the player's animation. In an unknown animation all actions are open, because a key
                without effect does no harm.
            time_s: Time since the animation began.
            sp: Stamina of the player.
        """
        if animation.startswith(_FALL):
            return OpenActions(False, False, False)
        attack_s, roll_s, move_s = self._locks_s.get(animation, _UNLOCKED)
        has_stamina, time_s = sp > 0.0, time_s + _ROUNDING_S
        return OpenActions(time_s >= move_s, has_stamina and time_s >= roll_s, has_stamina and time_s >= attack_s)


def is_falling(animation: str) -> bool:
    """Return whether an animation of the player belongs to a fall."""
    return animation.startswith(_FALL)
