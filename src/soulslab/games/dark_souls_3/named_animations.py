"""What someone in Dark Souls III does, by name; names that linger in bosses are told from attacks that go on."""

from __future__ import annotations

from soulslab.games.character import Animation
from soulslab.siphon.session import Session

#: Names that stay when what they name is over (SoulsGym 1.1.0).
LINGERING = ("SABlend", "Part")
ATTACK = "Attack"
IDLE = "IdleBattle"
NO_ATTACK = -1


def true_name(name: str, *, is_over: bool, attack_id: int, next_attack_id: int) -> str:
    """Return what a boss does, for a name that may linger (SoulsGym 1.1.0, IudexAttackID).

    Args:
        name: As the game has it.
        is_over: The time of the animation has reached its length.
        attack_id: Number of the attack; -1 for none.
        next_attack_id: The number 0x10 behind it; -1 for none.
    """
    lingers = name.startswith(LINGERING) or (name.startswith(ATTACK) and is_over)
    if not lingers:
        return name
    number = attack_id if attack_id != NO_ATTACK else next_attack_id
    return IDLE if number == NO_ATTACK else f"{ATTACK}{number}"


class NamedAnimations:
    """Reads what someone does (`soulslab.games.character.AnimationReader`).

    Args:
        session: Of the game.
        group: Of its attributes.
    """

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group
        known = session.profile.attributes
        parts = ("animation", "animation_time", "animation_length", "animation_id", "attack_id", "next_attack_id")
        self._names = tuple(name for name in (f"{group}.{part}" for part in parts) if name in known)

    def read(self) -> Animation:
        """See `AnimationReader.read`; all of it is read together."""
        head = f"{self._group}."
        seen = {name.removeprefix(head): value for name, value in self._session.snapshot(self._names).items()}
        name, time_s, length_s = str(seen["animation"]), float(seen["animation_time"]), float(seen["animation_length"])
        if "attack_id" in seen:
            name = true_name(
                name,
                is_over=time_s >= length_s,
                attack_id=int(seen["attack_id"]),
                next_attack_id=int(seen.get("next_attack_id", NO_ATTACK)),
            )
        return Animation(name=name, number=int(seen.get("animation_id", -1)), time_s=time_s, length_s=length_s)
