"""Someone in a game, the player or a boss: its bars, where it stands, what it does."""

from __future__ import annotations

from typing import Protocol

import msgspec

from soulslab.games.allowed import AllowedTo
from soulslab.games.axes import Position, from_memory
from soulslab.games.boss_facts import Pose
from soulslab.siphon.session import Session


class Animation(msgspec.Struct, frozen=True, kw_only=True):
    """What someone does.

    Attributes:
        name: Of the animation; "" where nobody has published the name for its number.
        number: What the game numbers it with; -1 where the profile does not say.
        time_s: How long it has been going on.
        length_s: How long it lasts in all.
    """

    name: str
    number: int
    time_s: float
    length_s: float


class AnimationReader(Protocol):
    """How a game tells what someone does."""

    def read(self) -> Animation:
        """Return what it does now. Raises as `Session.read`."""
        ...


class _Bar:
    """A number of a character that may be written."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Character, kind: type[Character]) -> int:
        return int(owner.session.read(f"{owner.group}.{self._name}"))

    def __set__(self, owner: Character, value: int) -> None:
        owner.session.write({f"{owner.group}.{self._name}": value})


class Character:
    """Someone in a game; each access reads or writes it, and raises as `Session.read` and `Session.write`.

    What the profile does not know of it is an `UnknownAttributeError` that names it.

    Args:
        session: Of the game.
        group: Of its attributes in the profile: ``player``, ``boss``.
        animations: Tells what it does.
        stats: Names of its stats, in the order of the game; none are known of an enemy.

    Attributes:
        session: See above.
        group: See above.
        hp: Health.
        fp: Focus.
        sp: Stamina; an attack with little left leaves less than none.
        allowed: What the game lets happen to it, and lets it do.
    """

    hp = _Bar("hp")
    fp = _Bar("fp")
    sp = _Bar("sp")

    def __init__(self, session: Session, group: str, animations: AnimationReader, stats: tuple[str, ...] = ()) -> None:
        self.session = session
        self.group = group
        self.allowed = AllowedTo(session, group)
        self._animations = animations
        self._stats = stats

    @property
    def max_hp(self) -> int:
        """The most `hp`."""
        return int(self.session.read(f"{self.group}.max_hp"))

    @property
    def max_fp(self) -> int:
        """The most `fp`."""
        return int(self.session.read(f"{self.group}.max_fp"))

    @property
    def max_sp(self) -> int:
        """The most `sp`."""
        return int(self.session.read(f"{self.group}.max_sp"))

    @property
    def position_m(self) -> Position:
        """Where it stands: x, y, height."""
        return from_memory(self.session.read(f"{self.group}.position"))

    @property
    def pose(self) -> Pose:
        """Where it stands and which way it looks, read together; `soulslab.games.teleport` moves it."""
        position, angle = f"{self.group}.position", f"{self.group}.angle"
        seen = self.session.snapshot((position, angle))
        return Pose(position_m=from_memory(seen[position]), angle_rad=float(seen[angle]))

    @property
    def animation(self) -> Animation:
        """What it does."""
        return self._animations.read()

    @property
    def stats(self) -> dict[str, int]:
        """Its stats by name, read together; empty for an enemy."""
        head = f"{self.group}."
        seen = self.session.snapshot(tuple(head + name for name in self._stats)) if self._stats else {}
        return {name.removeprefix(head): int(value) for name, value in seen.items()}

    def set_stats(self, **stats: int) -> None:
        """Write stats of the player.

        Raises:
            UnknownAttributeError: There is no such stat.
        """
        self.session.write({f"{self.group}.{name}": value for name, value in stats.items()})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group!r})"
