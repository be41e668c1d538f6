"""Animations of characters in Dark Souls III, by name.

The name of a finished animation can remain in memory; `true_name` replaces it by the current attack.
"""

from __future__ import annotations

from soulslab.games.character import Animation
from soulslab.siphon.session import Session

#: Prefixes of names that remain after the animation has ended (SoulsGym 1.1.0).
LINGERING = ("SABlend", "Part")
ATTACK = "Attack"
IDLE = "IdleBattle"
NO_ATTACK = -1


def true_name(name: str, *, is_over: bool, attack_id: int, next_attack_id: int) -> str:
    """Return the current animation of a boss for a name that may be out of date (SoulsGym 1.1.0, IudexAttackID).

    Args:
        name: Name in the memory of the game.
        is_over: Whether the time of the animation has reached its length.
        attack_id: Number of the attack; -1 if the boss does not attack.
        next_attack_id: The number at an offset of 0x10 from it; -1 if there is no such attack.
    """
    is_outdated = name.startswith(LINGERING) or (name.startswith(ATTACK) and is_over)
    if not is_outdated:
        return name
    number = attack_id if attack_id != NO_ATTACK else next_attack_id
    return IDLE if number == NO_ATTACK else f"{ATTACK}{number}"


class NamedAnimations:
    """Reads the current animation (`soulslab.games.character.AnimationReader`).

    Args:
        session: Session of the game.
        group: Attribute group of the character.
    """

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group
        known = session.profile.attributes
        parts = ("animation", "animation_time", "animation_length", "animation_id", "attack_id", "next_attack_id")
        self._names = tuple(name for name in (f"{group}.{part}" for part in parts) if name in known)

    def read(self) -> Animation:
        """See `AnimationReader.read`; all values are from one snapshot."""
        prefix = f"{self._group}."
        seen = {name.removeprefix(prefix): value for name, value in self._session.snapshot(self._names).items()}
        name, time_s, length_s = str(seen["animation"]), float(seen["animation_time"]), float(seen["animation_length"])
        if "attack_id" in seen:
            name = true_name(
                name,
                is_over=time_s >= length_s,
                attack_id=int(seen["attack_id"]),
                next_attack_id=int(seen.get("next_attack_id", NO_ATTACK)),
            )
        return Animation(name=name, number=int(seen.get("animation_id", -1)), time_s=time_s, length_s=length_s)
