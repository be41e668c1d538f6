"""Generated bosses: a boss for each seed, drawn from the family of ``boss_family.toml`` and checked for fairness.

The same seed gives the same boss in every run of one `VERSION`. A drawn boss whose attacks cannot all be avoided is
replaced by the next one. The damage of its moves is scaled so that the reference player wins the share of fights that
was drawn for it. These checks take half a second; for some seeds ``checked_bosses.toml`` has their results
(``scripts/check_bosses.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from soulslab.arena.boss_fairness import damage_factor, longest_chain_s, unavoidable_moves
from soulslab.arena.boss_file import (
    MOVE_ANIMATIONS,
    Boss,
    FollowUp,
    Ground,
    Move,
    PhaseTwo,
    Pose,
    Projectile,
    Window,
)
from soulslab.config.loading import load_settings
from soulslab.errors import EnvironmentUsageError

FAMILY_FILE = Path(__file__).parent / "boss_family.toml"
CHECKED_FILE = Path(__file__).parent / "checked_bosses.toml"
#: Version of the family; it grows with any change that changes the boss of a seed.
VERSION: Final = 1
MAX_SEED: Final = 2**31 - 1
#: Processor time of the checks of a boss (s).
CHECK_S: Final = 0.5
#: Bosses that are drawn for one seed until one of them is fair.
MAX_DRAWS: Final = 50
#: Least and greatest share of its fights that the reference player wins, drawn for each boss.
WIN_SHARE: Final = (0.55, 0.75)
#: Least and greatest factor of the damage; outside of it a boss can hardly hit the reference player, or always does.
DAMAGE_FACTOR: Final = (0.5, 1.6)
#: Longest sequence of moves without a pause.
MAX_CHAIN_S: Final = 12.0

Range: TypeAlias = tuple[float, float]
Group: TypeAlias = Literal["core", "near", "far", "phase_two", "transformation"]


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the structs of the family's file; a `Range` is the least and the greatest value of a number."""


class _WindowRanges(_Data, frozen=True):
    """Ranges of a `Window`; ``gap_s`` is the time from the start of the previous window, ``parry`` a probability."""

    gap_s: Range
    length_s: Range
    damage: Range
    reach: Range = (1.0, 1.0)  # factor of the boss's reach
    arc_rad: Range = (1.5, 1.5)
    knock_back: str = "middle"
    parry: float = 0.0
    tracking_rad_s: Range = (2.8, 4.0)
    aim_s: Range = (0.12, 0.2)
    advance_m: Range = (0.0, 0.0)
    advance_s: Range = (0.3, 0.3)
    speed_m_s: Range | None = None  # of projectiles, if it throws any
    count: tuple[int, int] = (1, 1)
    spread_rad: Range = (0.0, 0.0)


class _FollowUpRanges(_Data, frozen=True):
    """Ranges of a `FollowUp`."""

    move: str
    probability: Range
    within_m: Range


class _MoveRanges(_Data, frozen=True):
    """Ranges of a `Move`."""

    id: str
    group: Group
    weight: Range
    recovery_s: Range
    windows: tuple[_WindowRanges, ...]
    range_m: tuple[Range, Range] = ((0.0, 0.0), (5.0, 5.0))
    bearing_rad: tuple[Range, Range] = ((0.0, 0.0), (0.8, 0.8))
    cooldown_s: Range = (0.0, 0.0)
    follow_ups: tuple[_FollowUpRanges, ...] = ()


class _MoveCounts(_Data, frozen=True):
    """Number of moves that are drawn from each group."""

    near: tuple[int, int]
    far: tuple[int, int]
    phase_two: tuple[int, int]


class _Family(_Data, frozen=True):
    """The family's file."""

    hp: Range
    poise: Range
    poise_regen_per_s: Range
    radius_m: Range
    walk_m_s: Range
    run_m_s: Range
    run_beyond_m: Range
    turn_rad_s: Range
    keep_near_m: Range
    keep_far_m: Range
    pause_least_s: Range
    pause_greatest_s: Range
    phase_two_pause: Range
    phase_two_damage: Range
    phase_two_below: Range
    stagger_s: Range
    parried_s: Range
    tempo: Range
    reach_m: Range
    floor_radius_m: Range
    cliff_width_rad: Range
    n_moves: _MoveCounts
    moves: tuple[_MoveRanges, ...]


@cache
def _family() -> _Family:
    return load_settings(_Family, FAMILY_FILE)


class CheckedBosses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Results of the fairness checks of one version of the family.

    Attributes:
        version: `VERSION` of the family.
        bosses: By seed, the number of unfair bosses before the fair one, and its damage scale in both phases.
    """

    version: int
    bosses: dict[str, tuple[int, float, float]]


@cache
def _checked() -> dict[str, tuple[int, float, float]]:
    found = load_settings(CheckedBosses, CHECKED_FILE)
    return found.bosses if found.version == VERSION else {}


def is_checked(seed: int) -> bool:
    """Return whether the results of the checks of a seed are stored."""
    return str(seed) in _checked()


@lru_cache(maxsize=1024)
def generate_boss(seed: int) -> Boss:
    """Return the boss of a seed, from 0 to `MAX_SEED`.

    Raises:
        EnvironmentUsageError: The seed is out of range, or no boss of this seed is fair.
    """
    if not 0 <= seed <= MAX_SEED:
        raise EnvironmentUsageError(f"generated:{seed}: the seed must be from 0 to {MAX_SEED}")
    if not is_checked(seed):
        return check_boss(seed)[1]
    n_unfair, *scale = _checked()[str(seed)]
    drawn, _ = list(islice(_draw_bosses(seed), n_unfair + 1))[-1]
    return msgspec.structs.replace(drawn, damage_scale=tuple(scale))


def check_boss(seed: int) -> tuple[int, Boss]:
    """Find the fair boss of a seed; return the number of unfair bosses before it, and the boss.

    Raises:
        EnvironmentUsageError: No boss of this seed is fair.
    """
    for n_unfair, (drawn, share) in enumerate(islice(_draw_bosses(seed), MAX_DRAWS)):
        if longest_chain_s(drawn) > MAX_CHAIN_S or unavoidable_moves(drawn):
            continue
        factor = damage_factor(drawn, share)
        if factor is not None and DAMAGE_FACTOR[0] <= factor <= DAMAGE_FACTOR[1]:
            scale = tuple(round(value * factor, 2) for value in drawn.damage_scale)
            return n_unfair, msgspec.structs.replace(drawn, damage_scale=scale)
    raise EnvironmentUsageError(f"generated:{seed}: none of {MAX_DRAWS} bosses was fair; use another seed")


def _draw_bosses(seed: int) -> Iterator[tuple[Boss, float]]:
    """Yield the bosses of a seed, fair or not, and the share of the fights that the reference player should win."""
    rng = np.random.default_rng([seed, VERSION])
    while True:
        yield _Draw(rng).boss(f"Generated boss {seed}"), rng.uniform(*WIN_SHARE)


class _Draw:
    """Draws one boss of the family."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._family = _family()
        self._tempo = rng.uniform(*self._family.tempo)
        self._reach_m = rng.uniform(*self._family.reach_m)

    def boss(self, name: str) -> Boss:
        """Return a boss that is valid, but may be unfair."""
        family, number = self._family, self._number
        ranges = self._choose_moves()
        moves = self._moves(ranges)
        least_s, greatest_s = number(family.pause_least_s), number(family.pause_greatest_s)
        factor = number(family.phase_two_pause)
        return Boss(
            name=name,
            hp=round(number(family.hp)),
            poise=number(family.poise, 0),
            poise_regen_per_s=number(family.poise_regen_per_s),
            radius_m=number(family.radius_m),
            walk_m_s=number(family.walk_m_s),
            run_m_s=number(family.run_m_s),
            run_beyond_m=number(family.run_beyond_m),
            turn_rad_s=number(family.turn_rad_s),
            keep_m=(number(family.keep_near_m), number(family.keep_far_m)),
            pause_s=((least_s, greatest_s), (round(least_s * factor, 2), round(greatest_s * factor, 2))),
            damage_scale=(1.0, number(family.phase_two_damage)),
            stagger_s=number(family.stagger_s),
            parried_s=number(family.parried_s),
            phase_two=PhaseTwo(number(family.phase_two_below), "transformation"),
            ground=self._ground(),
            moves=moves,
        )

    def _number(self, limits: Range, digits: int = 2) -> float:
        return round(float(self._rng.uniform(*limits)), digits)

    def _count(self, limits: tuple[int, int]) -> int:
        return int(self._rng.integers(limits[0], limits[1] + 1))

    def _choose_moves(self) -> list[_MoveRanges]:
        """Return the moves of the boss: those that every boss has, and some of each other group."""
        chosen = []
        for group in ("core", "near", "far", "phase_two", "transformation"):
            moves = [move for move in self._family.moves if move.group == group]
            limits = getattr(self._family.n_moves, group, (len(moves), len(moves)))
            places = sorted(self._rng.permutation(len(moves))[: self._count(limits)])
            chosen += [moves[place] for place in places]
        return chosen

    def _moves(self, chosen: Sequence[_MoveRanges]) -> tuple[Move, ...]:
        """Return the moves with random animations, so that the number of an animation says nothing about the move."""
        *others, transformation = chosen
        animations = self._rng.permutation(MOVE_ANIMATIONS[:-1])
        moves = [self._move(ranges, str(name)) for ranges, name in zip(others, animations, strict=False)]
        return (*moves, self._move(transformation, MOVE_ANIMATIONS[-1]))

    def _move(self, ranges: _MoveRanges, animation: str) -> Move:
        number = self._number
        windows: list[Window] = []
        for window in ranges.windows:
            windows.append(self._window(window, windows[-1].start_s if windows else 0.0))
        return Move(
            id=ranges.id,
            animation=animation,
            windows=tuple(windows),
            recovery_s=number(ranges.recovery_s),
            weight=number(ranges.weight),
            range_m=(number(ranges.range_m[0]), number(ranges.range_m[1])),
            bearing_rad=(number(ranges.bearing_rad[0], 4), number(ranges.bearing_rad[1], 4)),
            cooldown_s=number(ranges.cooldown_s),
            phases=(2,) if ranges.group == "phase_two" else (1, 2),
            follow_ups=tuple(
                FollowUp(follow.move, number(follow.probability), number(follow.within_m))
                for follow in ranges.follow_ups
            ),
        )

    def _window(self, ranges: _WindowRanges, previous_s: float) -> Window:
        number = self._number
        start_s = round(previous_s + number(ranges.gap_s) * self._tempo, 2)
        projectile = None
        if ranges.speed_m_s is not None:
            count = self._count(ranges.count)
            projectile = Projectile(number(ranges.speed_m_s), count, number(ranges.spread_rad) if count > 1 else 0.0)
        return Window(
            start_s=start_s,
            end_s=round(start_s + number(ranges.length_s), 2),
            damage=round(number(ranges.damage)),
            reach_m=round(number(ranges.reach) * self._reach_m, 2) if projectile is None else 0.0,
            arc_rad=number(ranges.arc_rad, 4),
            knock_back=ranges.knock_back,
            parry=bool(self._rng.random() < ranges.parry),
            tracking_rad_s=number(ranges.tracking_rad_s),
            aim_s=number(ranges.aim_s),
            advance_m=number(ranges.advance_m),
            advance_s=number(ranges.advance_s),
            projectile=projectile,
        )

    def _ground(self) -> Ground:
        """Return a round floor around the origin, with eight start poses on a circle."""
        radius = self._number(self._family.floor_radius_m)
        margin = round(radius + 8.0, 2)
        poses = tuple(self._pose(0.65 * radius, angle) for angle in np.arange(8) * math.pi / 4)
        return Ground(
            limits_m=((-margin, margin), (-margin, margin), (-10.0, 8.0)),
            centre_m=(0.0, 0.0),
            radius_m=radius,
            floor_m=0.0,
            cliff_rad=self._number((-3.1, 3.1)),
            cliff_width_rad=self._number(self._family.cliff_width_rad),
            reward_centre_m=(0.0, 0.0),
            player_pose=poses[0],
            player_poses_random=poses,
            boss_pose=(0.0, 0.0, 0.0, 0.0),
        )

    @staticmethod
    def _pose(distance_m: float, angle: float) -> Pose:
        """Return a pose at a distance from the origin that faces it (see `soulslab.arena.records`)."""
        x, y = distance_m * math.cos(angle), distance_m * math.sin(angle)
        return round(x, 3), round(y, 3), 0.0, round(math.atan2(x, y), 3)
