"""Switches of a game that forbid something, inverted: True means that the game behaves as usual."""

from __future__ import annotations

from soulslab.siphon.session import Session


class _Permission:
    """Property that reads and writes the negation of an attribute of the profile."""

    def __init__(self, forbidden_by: str) -> None:
        self._forbidden_by = forbidden_by

    def __get__(self, owner: GamePermissions | CharacterPermissions, kind: type) -> bool:
        return not owner.session.read(owner.prefix + self._forbidden_by)

    def __set__(self, owner: GamePermissions | CharacterPermissions, is_allowed: bool) -> None:
        owner.session.write({owner.prefix + self._forbidden_by: not is_allowed})


class GamePermissions:
    """Switches for all characters of a game.

    Each access reads or writes one attribute, and raises the errors of `Session.read` and `Session.write`.

    Args:
        session: Session of the game.

    Attributes:
        session: The session.
        prefix: Prefix of the attribute names.
        player_deaths: The player can die.
        deaths: Characters can die.
        hits: Attacks hit.
        damage: Attacks that hit reduce health.
        attacks: Characters attack.
        moves: Characters move.
        ai: Enemies choose actions.
    """

    player_deaths = _Permission("player.no_death")
    deaths = _Permission("debug.no_death")
    hits = _Permission("debug.no_hit")
    damage = _Permission("debug.no_damage")
    attacks = _Permission("debug.no_attack")
    moves = _Permission("debug.no_move")
    ai = _Permission("debug.no_ai")

    prefix = ""

    def __init__(self, session: Session) -> None:
        self.session = session


class CharacterPermissions:
    """Switches for one character; the accesses work as in `GamePermissions`.

    Args:
        session: Session of the game.
        group: Attribute group of the character in the profile: ``player``, ``boss``.

    Attributes:
        session: The session.
        prefix: Prefix of the attribute names.
        deaths: The character can die.
        damage: Attacks that hit the character reduce its health.
        hits: Attacks hit the character.
        attacks: The character attacks.
        moves: The character moves.
        ai: The character chooses actions.
        gravity: The character falls.
    """

    deaths = _Permission("no_death")
    damage = _Permission("no_damage")
    hits = _Permission("no_hit")
    attacks = _Permission("no_attack")
    moves = _Permission("no_move")
    ai = _Permission("no_ai")
    gravity = _Permission("no_gravity")

    def __init__(self, session: Session, group: str) -> None:
        self.session = session
        self.prefix = f"{group}."
