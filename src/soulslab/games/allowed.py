"""What a game lets happen: the switches of its own debug menu, turned round, so that True is an ordinary game."""

from __future__ import annotations

from soulslab.siphon.session import Session


class _Allowance:
    """Something that an attribute of the profile forbids."""

    def __init__(self, forbidden_by: str) -> None:
        self._forbidden_by = forbidden_by

    def __get__(self, owner: Allowed, kind: type[Allowed]) -> bool:
        return not owner.session.read(self._forbidden_by)

    def __set__(self, owner: Allowed, is_allowed: bool) -> None:
        owner.session.write({self._forbidden_by: not is_allowed})


class Allowed:
    """What a game lets happen; each access reads or writes it, and raises as `Session.read` and `Session.write`.

    Args:
        session: Of the game.

    Attributes:
        session: See above.
        player_deaths: The player can die.
        deaths: Anybody can.
        hits: Blows hit.
        damage: Blows that hit take health.
        attacks: Anybody attacks.
        moves: Anybody moves.
        ai: Enemies decide on what to do.
    """

    player_deaths = _Allowance("player.no_death")
    deaths = _Allowance("debug.no_death")
    hits = _Allowance("debug.no_hit")
    damage = _Allowance("debug.no_damage")
    attacks = _Allowance("debug.no_attack")
    moves = _Allowance("debug.no_move")
    ai = _Allowance("debug.no_ai")

    def __init__(self, session: Session) -> None:
        self.session = session
