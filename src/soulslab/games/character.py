"""Characters of a running game, their permissions, and the coordinate system of positions.

Positions are x and y on the ground, then the height, in metres. Both games store x, height, y. Angles are in radians,
as in ``player.angle``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.games.boss_facts import Pose
from soulslab.siphon.session import Session

Position = tuple[float, float, float]
"""x, y and height, m."""

T = TypeVar("T")


def from_memory(stored: Sequence[float] | NDArray[np.float64]) -> Position:
    """Return x, y, height from the order in which a game stores them."""
    x, height, y = (float(number) for number in stored)
    return x, y, height


def to_memory(position: Position) -> NDArray[np.float64]:
    """Return a position in the order in which a game stores it: x, height, y."""
    x, y, height = position
    return np.array([x, height, y])


class AttributeGroup:
    """Object whose properties are attributes of a game, with names that begin with a prefix."""

    def __init__(self, session: Session, prefix: str = "") -> None:
        self.session = session
        self.prefix = prefix


class AttributeProperty(Generic[T]):
    """Property that reads and writes one attribute of a game; raises the errors of `Session.read` and `Session.write`.

    The name of the attribute follows the prefix of the owner. ``kind`` converts the value that was read.
    """

    def __init__(
        self, name: str, kind: Callable[[Any], T], *, is_negated: bool = False, is_writable: bool = True
    ) -> None:
        self._name = name
        self._kind = kind
        self._is_negated = is_negated
        self._is_writable = is_writable

    def __get__(self, owner: AttributeGroup, kind: type) -> T:
        value = owner.session.read(owner.prefix + self._name)
        return self._kind(not value if self._is_negated else value)

    def __set__(self, owner: AttributeGroup, value: T) -> None:
        if not self._is_writable:
            raise AttributeError(f"{self._name} cannot be set")
        owner.session.write({owner.prefix + self._name: not value if self._is_negated else value})


def _permission(forbidden_by: str) -> AttributeProperty[bool]:
    """Return the property for a switch that forbids something: True means that the game behaves as usual."""
    return AttributeProperty(forbidden_by, bool, is_negated=True)


class GamePermissions(AttributeGroup):
    """Switches for all characters of a game; see `CharacterPermissions`. ``player_deaths`` concerns the player only."""

    player_deaths = _permission("player.no_death")
    deaths = _permission("debug.no_death")
    hits = _permission("debug.no_hit")
    damage = _permission("debug.no_damage")
    attacks = _permission("debug.no_attack")
    moves = _permission("debug.no_move")
    ai = _permission("debug.no_ai")


class CharacterPermissions(AttributeGroup):
    """Switches for the character of one attribute group: ``player``, ``boss``.

    Attributes:
        deaths: The character can die.
        damage: Attacks that hit the character reduce its health.
        hits: Attacks hit the character.
        attacks: The character attacks.
        moves: The character moves.
        ai: The character chooses actions.
        gravity: The character falls.
    """

    deaths = _permission("no_death")
    damage = _permission("no_damage")
    hits = _permission("no_hit")
    attacks = _permission("no_attack")
    moves = _permission("no_move")
    ai = _permission("no_ai")
    gravity = _permission("no_gravity")


class Animation(msgspec.Struct, frozen=True, kw_only=True):
    """Current animation of a character.

    The name is "" if it is not published for the number; the number is -1 if the profile does not have it.
    """

    name: str
    number: int
    time_s: float
    length_s: float


class Character(AttributeGroup):
    """A character of a game.

    Each access reads or writes attributes, and raises the errors of `Session.read` and `Session.write`. An attribute
    that the profile does not have raises `UnknownAttributeError`. Health (``hp``), focus (``fp``) and stamina (``sp``)
    can be set, their maxima cannot. Stamina is negative after an attack that costs more than there was.

    Args:
        session: Session of the game.
        group: Attribute group of the character in the profile: ``player``, ``boss``.
        read_animation: Function that reads the current animation.
        stats: Names of the stats, in the order of the game; empty for enemies.

    Attributes:
        allowed: Permissions of this character.
    """

    hp = AttributeProperty("hp", int)
    fp = AttributeProperty("fp", int)
    sp = AttributeProperty("sp", int)
    max_hp = AttributeProperty("max_hp", int, is_writable=False)
    max_fp = AttributeProperty("max_fp", int, is_writable=False)
    max_sp = AttributeProperty("max_sp", int, is_writable=False)
    position_m = AttributeProperty("position", from_memory, is_writable=False)
    """Position: x, y, height."""

    def __init__(
        self, session: Session, group: str, read_animation: Callable[[], Animation], stats: tuple[str, ...] = ()
    ) -> None:
        super().__init__(session, f"{group}.")
        self.group = group
        self.allowed = CharacterPermissions(session, self.prefix)
        self._read_animation = read_animation
        self._stats = stats

    @property
    def pose(self) -> Pose:
        """Position and orientation, read in one snapshot; `SoulsGame.teleport` changes them."""
        position, angle = f"{self.group}.position", f"{self.group}.angle"
        seen = self.session.snapshot((position, angle))
        return Pose(position_m=from_memory(seen[position]), angle_rad=float(seen[angle]))

    @property
    def animation(self) -> Animation:
        """Current animation."""
        return self._read_animation()

    @property
    def stats(self) -> dict[str, int]:
        """Stats by name, read in one snapshot; empty for enemies."""
        seen = self.session.snapshot(tuple(self.prefix + name for name in self._stats)) if self._stats else {}
        return {name.removeprefix(self.prefix): int(value) for name, value in seen.items()}

    def set_stats(self, **stats: int) -> None:
        """Write stats of the player by name."""
        self.session.write({self.prefix + name: value for name, value in stats.items()})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group!r})"
