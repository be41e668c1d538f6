"""The player character as data: ``knight.toml`` as structs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from soulslab.config.loading import load_settings
from soulslab.errors import ConfigError

KNIGHT_FILE = Path(__file__).parent / "knight.toml"


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all structs of the knight's file."""


class Vitals(_Data, frozen=True):
    """Health, stamina and body size."""

    hp: int
    sp: int
    sp_regen_per_s: float
    sp_pause_s: float
    radius_m: float


class Speed(_Data, frozen=True):
    """Walking speeds while locked on the boss."""

    forward_m_s: float
    side_m_s: float
    backward_m_s: float
    turn_rad_s: float


class Roll(_Data, frozen=True):
    """The roll and its invulnerability frames."""

    animation: str
    stamina: float
    invulnerable_s: tuple[float, float]
    moving_s: tuple[float, float]
    distance_m: float
    tail_s: float


class Parry(_Data, frozen=True):
    """The parry and the period in which it succeeds."""

    animation: str
    stamina: float
    active_s: tuple[float, float]


class Riposte(_Data, frozen=True):
    """The critical attack on a parried boss."""

    animation: str
    boss_animation: str
    reach_m: float
    hit_s: float
    damage: float


class Openers(_Data, frozen=True):
    """First attack animation of each attack button."""

    light: str
    heavy: str


class Attack(_Data, frozen=True):
    """One attack animation; ``next``, ``light`` and ``heavy`` name the animations that can follow."""

    stamina: float
    active_s: tuple[float, float] | None = None
    damage: float = 0.0
    poise_damage: float = 0.0
    reach_m: float = 0.0
    arc_rad: float = 1.0
    advance_m: float = 0.0
    tail_s: float = 0.0
    next: str | None = None
    light: str | None = None
    heavy: str | None = None


class KnockBack(_Data, frozen=True):
    """Effect of a hit: an animation, a push and, on the ground, a time without further hits."""

    animation: str
    push_m: float
    invulnerable_s: float = 0.0


class Knight(_Data, frozen=True):
    """The player character. ``locks_s`` maps each animation to its (attack, roll, move) lock times in seconds."""

    vitals: Vitals
    speed: Speed
    locks_s: dict[str, tuple[float, float, float]]
    roll: Roll
    parry: Parry
    riposte: Riposte
    openers: Openers
    attacks: dict[str, Attack]
    knock_backs: dict[str, KnockBack]

    @property
    def animations(self) -> tuple[str, ...]:
        """Animation names; the number of an animation is its index."""
        return tuple(self.locks_s)

    def number(self, animation: str) -> int:
        """Return the number of an animation; raises `ConfigError` if there is no such animation."""
        try:
            return self.animations.index(animation)
        except ValueError:
            raise ConfigError(f"unknown animation {animation!r}", source=KNIGHT_FILE) from None


@cache
def load_knight() -> Knight:
    """Return the knight that ships with soulslab."""
    return load_settings(Knight, KNIGHT_FILE)
