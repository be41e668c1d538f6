"""A character of a game, the player or a boss: health, focus, stamina, pose, animation and stats."""

from __future__ import annotations

from typing import Protocol

import msgspec

from soulslab.games.axes import Position, from_memory
from soulslab.games.boss_facts import Pose
from soulslab.games.permissions import CharacterPermissions
from soulslab.siphon.session import Session


class Animation(msgspec.Struct, frozen=True, kw_only=True):
    """Current animation of a character.

    Attributes:
        name: Name of the animation; "" if the name for the number is not published.
        number: Number of the animation in the game; -1 if the profile does not have it.
        time_s: Time since the animation started.
        length_s: Total length of the animation.
    """

    name: str
    number: int
    time_s: float
    length_s: float


class AnimationReader(Protocol):
    """Reads the current animation of a character."""

    def read(self) -> Animation:
        """Return the current animation; raises the errors of `Session.read`."""
        ...


class _IntegerAttribute:
    """Property that reads and writes one integer attribute of a character."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Character, kind: type[Character]) -> int:
        return int(owner.session.read(f"{owner.group}.{self._name}"))

    def __set__(self, owner: Character, value: int) -> None:
        owner.session.write({f"{owner.group}.{self._name}": value})


class Character:
    """A character of a game.

    Each access reads or writes attributes, and raises the errors of `Session.read` and `Session.write`. An attribute
    that the profile does not have raises `UnknownAttributeError`.

    Args:
        session: Session of the game.
        group: Attribute group of the character in the profile: ``player``, ``boss``.
        animations: Reads the current animation.
        stats: Names of the stats, in the order of the game; empty for enemies.

    Attributes:
        session: The session.
        group: The attribute group.
        hp: Health.
        fp: Focus.
        sp: Stamina; negative after an attack that costs more than there was.
        allowed: Permissions of this character.
    """

    hp = _IntegerAttribute("hp")
    fp = _IntegerAttribute("fp")
    sp = _IntegerAttribute("sp")

    def __init__(self, session: Session, group: str, animations: AnimationReader, stats: tuple[str, ...] = ()) -> None:
        self.session = session
        self.group = group
        self.allowed = CharacterPermissions(session, group)
        self._animations = animations
        self._stats = stats

    @property
    def max_hp(self) -> int:
        """Maximum of `hp`."""
        return int(self.session.read(f"{self.group}.max_hp"))

    @property
    def max_fp(self) -> int:
        """Maximum of `fp`."""
        return int(self.session.read(f"{self.group}.max_fp"))

    @property
    def max_sp(self) -> int:
        """Maximum of `sp`."""
        return int(self.session.read(f"{self.group}.max_sp"))

    @property
    def position_m(self) -> Position:
        """Position: x, y, height."""
        return from_memory(self.session.read(f"{self.group}.position"))

    @property
    def pose(self) -> Pose:
        """Position and orientation, read in one snapshot; `soulslab.games.teleport` changes them."""
        position, angle = f"{self.group}.position", f"{self.group}.angle"
        seen = self.session.snapshot((position, angle))
        return Pose(position_m=from_memory(seen[position]), angle_rad=float(seen[angle]))

    @property
    def animation(self) -> Animation:
        """Current animation."""
        return self._animations.read()

    @property
    def stats(self) -> dict[str, int]:
        """Stats by name, read in one snapshot; empty for enemies."""
        prefix = f"{self.group}."
        seen = self.session.snapshot(tuple(prefix + name for name in self._stats)) if self._stats else {}
        return {name.removeprefix(prefix): int(value) for name, value in seen.items()}

    def set_stats(self, **stats: int) -> None:
        """Write stats of the player.

        Raises:
            UnknownAttributeError: The profile has no stat of this name.
        """
        self.session.write({f"{self.group}.{name}": value for name, value in stats.items()})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group!r})"
