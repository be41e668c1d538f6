"""What someone in Elden Ring does: the game numbers it, and the profile has the names that are known."""

from __future__ import annotations

from soulslab.games.character import Animation
from soulslab.siphon.session import Session


class NumberedAnimations:
    """Reads what someone does (`soulslab.games.character.AnimationReader`).

    Args:
        session: Of the game; its profile's ``[duel.player_animations]`` and ``[duel.boss_animations]`` name numbers.
        group: Of its attributes.
    """

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._attributes = tuple(f"{group}.{part}" for part in ("animation", "animation_time", "animation_length"))
        table = (session.profile.duel or {}).get(f"{group}_animations", {})
        self._names = {number: name for name, number in table.items()}

    def read(self) -> Animation:
        """See `AnimationReader.read`; all of it is read together."""
        seen = self._session.snapshot(self._attributes)
        number, time_s, length_s = (seen[name] for name in self._attributes)
        name = self._names.get(int(number), "")
        return Animation(name=name, number=int(number), time_s=float(time_s), length_s=float(length_s))
