"""What a game lets happen: switches of its own, turned round, so that True is an ordinary game."""

from __future__ import annotations

from soulslab.siphon.session import Session


class _Allowance:
    """Something that an attribute of the profile forbids."""

    def __init__(self, forbidden_by: str) -> None:
        self._forbidden_by = forbidden_by

    def __get__(self, owner: Allowed | AllowedTo, kind: type[Allowed | AllowedTo]) -> bool:
        return not owner.session.read(owner.head + self._forbidden_by)

    def __set__(self, owner: Allowed | AllowedTo, is_allowed: bool) -> None:
        owner.session.write({owner.head + self._forbidden_by: not is_allowed})


class Allowed:
    """What a game lets happen; each access reads or writes it, and raises as `Session.read` and `Session.write`.

    Args:
        session: Of the game.

    Attributes:
        session: See above.
        head: How the names of its attributes begin.
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

    head = ""

    def __init__(self, session: Session) -> None:
        self.session = session


class AllowedTo:
    """What a game lets happen to someone, and lets it do; accesses are as those of `Allowed`.

    Args:
        session: Of the game.
        group: Of its attributes in the profile: ``player``, ``boss``.

    Attributes:
        session: See above.
        head: How the names of its attributes begin.
        deaths: It can die.
        damage: Blows that hit it take health.
        hits: Blows hit it.
        attacks: It attacks.
        moves: It moves.
        ai: It decides on what to do.
        gravity: It falls.
    """

    deaths = _Allowance("no_death")
    damage = _Allowance("no_damage")
    hits = _Allowance("no_hit")
    attacks = _Allowance("no_attack")
    moves = _Allowance("no_move")
    ai = _Allowance("no_ai")
    gravity = _Allowance("no_gravity")

    def __init__(self, session: Session, group: str) -> None:
        self.session = session
        self.head = f"{group}."
