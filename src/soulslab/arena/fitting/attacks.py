"""The boss's attacks, and the hits on the player, found in recorded fights.

Times in an attack are in ticks (1/60 s) since its animation began. A gap is the distance between the edges of the two
bodies, a bearing the angle of the player from the boss's facing, positive to its left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.fight_table import HIT_GRACE_TICKS, PUSH_TICKS, ticks
from soulslab.arena.fitting.recorded_fight import RecordedFight
from soulslab.arena.knight_file import Knight
from soulslab.arena.records import TICKS_PER_S
from soulslab.arena.vocabulary import BOSS_MISC, BOSS_MOVEMENT

STAGGER, PARRIED, THROWN = BOSS_MISC[0], BOSS_MISC[1], "ThrowDef"
STUNS = (STAGGER, PARRIED, THROWN)
#: Animations of the boss that are not attacks.
NO_ATTACKS = frozenset((*BOSS_MOVEMENT, *BOSS_MISC, "ThrowAtk", THROWN, ""))
_FALLS = ("FallStart", "FallLoop")
#: Time after a hit in which further losses of health, such as those of a poison, count as its damage.
DRAIN_TICKS = 3 * TICKS_PER_S


class Columns(msgspec.Struct, frozen=True, eq=False):
    """Arrays of the same length, whose rows can be selected; a subclass has a field for each array."""

    def where(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """Return some of the rows, by mask or index."""
        return type(self)(**{name: getattr(self, name)[which] for name in self.__struct_fields__})


class Course(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One fight as arrays with T rows, with derived quantities.

    Attributes:
        tick: int64, tick of the fight.
        boss_ticks: int64, ticks since the boss's animation began; ``player_ticks`` likewise.
        player_xy: (T, 2) position of the player in m; ``boss_xy`` likewise.
        facing: (T, 2) unit vector of the boss's facing.
        distance: Distance of the centres of the two bodies in m.
        bearing: Bearing of the player in rad.
        hp: Health of the player; ``boss_hp`` of the boss.
        phase: Phase of the fight; 0 if it was not read.
        boss: Name of the boss's animation; ``player`` of the player's.
        is_open: Whether a hit would hurt the player.
        is_parrying: Whether a parry would succeed.
        damage: Loss of the player's health by a hit since the moment before; ``drain`` without a hit or a fall.
        boss_damage: Likewise for the boss.
        step: Ticks between two moments.
    """

    tick: NDArray[np.int64]
    boss_ticks: NDArray[np.int64]
    player_ticks: NDArray[np.int64]
    player_xy: NDArray[np.float64]
    boss_xy: NDArray[np.float64]
    facing: NDArray[np.float64]
    distance: NDArray[np.float64]
    bearing: NDArray[np.float64]
    hp: NDArray[np.float64]
    boss_hp: NDArray[np.float64]
    phase: NDArray[np.int64]
    boss: NDArray[np.str_]
    player: NDArray[np.str_]
    is_open: NDArray[np.bool_]
    is_parrying: NDArray[np.bool_]
    damage: NDArray[np.float64]
    drain: NDArray[np.float64]
    boss_damage: NDArray[np.float64]
    step: int


class Attack(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One animation of the boss, from its start to the start of the next one.

    Attributes:
        course: Index of the fight.
        animation: Its name.
        start: Tick of the fight at which it began.
        first: Index of its first moment; ``last`` of its last one.
        next_start: Tick at which the next animation began; -1 if the fight ended before.
        following: Name of the next animation; "" if the fight ended before.
        phase: Phase at its start.
    """

    course: int
    animation: str
    start: int
    first: int
    last: int
    next_start: int
    following: str
    phase: int

    @property
    def is_attack(self) -> bool:
        """Whether it is an attack, and not a movement or a stun."""
        return self.animation not in NO_ATTACKS

    @property
    def is_complete(self) -> bool:
        """Whether it ran to its end."""
        return self.next_start >= 0 and self.following not in STUNS


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One hit on the player.

    Attributes:
        attack: Index of the attack that was under way, or the last one before; -1 for none.
        k: Ticks since that attack began.
        moment: Index of the moment at which it was seen.
        course: Index of the fight.
        gap: Gap at the hit in m; ``bearing`` in rad.
        damage: Loss of health; ``is_lethal`` if it was all that was left.
        drained: Further loss of health without a hit in the `DRAIN_TICKS` after it, until the next hit.
        animation: The player's animation after it.
        phase: Phase of the fight.
        is_during: Whether the attack was under way.
        is_prompt: Whether the player was open in the moment before, so it was hit as soon as the attack reached it.
    """

    attack: int
    k: int
    moment: int
    course: int
    gap: float
    bearing: float
    damage: float
    is_lethal: bool
    drained: float
    animation: str
    phase: int
    is_during: bool
    is_prompt: bool


class Observations(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """All that the estimates use.

    Attributes:
        courses: The fights.
        attacks: All animations of the boss in order, fight by fight, also movements and stuns.
        hits: All hits on the player.
        knight: The player.
        contact_m: Distance of the centres at contact.
        has_contact: Whether the bodies touched; otherwise ``contact_m`` is an upper bound.
        step: Ticks between two moments, in the fight with the lowest rate.
    """

    courses: list[Course]
    attacks: list[Attack]
    hits: list[Hit]
    knight: Knight
    contact_m: float
    has_contact: bool
    step: int

    def of(self, animation: str) -> list[int]:
        """Return the indices of all attacks with this animation."""
        return [i for i, attack in enumerate(self.attacks) if attack.animation == animation]

    def gap(self, course: Course) -> NDArray[np.float64]:
        """Return the gap at each moment of a fight, (T,)."""
        return course.distance - self.contact_m


def observe(fights: Sequence[RecordedFight], knight: Knight) -> Observations:
    """Return the attacks and hits of recorded fights."""
    courses = [_course(fight, knight) for fight in fights]
    attacks = [attack for i, course in enumerate(courses) for attack in _attacks(course, i)]
    distances = np.concatenate([course.distance for course in courses])
    contact_m, has_contact = _contact(distances)
    return Observations(
        courses=courses,
        attacks=attacks,
        hits=_hits(courses, attacks, knight, contact_m),
        knight=knight,
        contact_m=contact_m,
        has_contact=has_contact,
        step=max((course.step for course in courses), default=1),
    )


def _contact(distances: NDArray[np.float64]) -> tuple[float, bool]:
    """Return the distance at contact, which the bodies keep while one presses against the other."""
    near = distances[distances <= np.quantile(distances, 0.25)]
    values, counts = np.unique(np.round(near, 3), return_counts=True)
    most = int(np.argmax(counts))
    if counts[most] >= max(5, 3 * np.median(counts)):
        return float(np.median(near[np.abs(near - values[most]) < 1e-3])), True
    return float(distances.min()), False


def _course(fight: RecordedFight, knight: Knight) -> Course:
    m = fight.moments
    player = np.asarray(fight.player_animations)[m["player_animation"]]
    player_xy, boss_xy = (np.stack([m[f"{who}_x"], m[f"{who}_y"]], axis=1) for who in ("player", "boss"))
    facing = np.stack([-np.sin(m["boss_angle"]), -np.cos(m["boss_angle"])], axis=1)
    way = player_xy - boss_xy
    hp = m["player_hp"]
    before = np.where(m["is_topped_up"], fight.player_max_hp, np.concatenate([hp[:1], hp[:-1]]))
    loss = np.maximum(before - hp, 0.0)
    player_ticks = np.rint(m["player_time_s"] * TICKS_PER_S).astype(np.int64)
    # The animation of a knock-back begins with a hit. Other losses are falls, or damage over time.
    knock_backs = [each.animation for each in knight.knock_backs.values()]
    is_hit = np.isin(player, knock_backs) & (player_ticks < np.diff(m["tick"], prepend=m["tick"][0] - 1))
    damage = np.where(is_hit, loss, 0.0)
    return Course(
        tick=m["tick"].astype(np.int64),
        boss_ticks=np.rint(m["boss_time_s"] * TICKS_PER_S).astype(np.int64),
        player_ticks=player_ticks,
        player_xy=player_xy,
        boss_xy=boss_xy,
        facing=facing,
        distance=np.hypot(way[:, 0], way[:, 1]),
        bearing=np.arctan2(facing[:, 0] * way[:, 1] - facing[:, 1] * way[:, 0], (facing * way).sum(axis=1)),
        hp=hp,
        boss_hp=m["boss_hp"],
        phase=m["phase"].astype(np.int64),
        boss=np.asarray(fight.boss_animations)[m["boss_animation"]],
        player=player,
        is_open=_is_open(player, player_ticks, m["tick"], damage, knight),
        is_parrying=_within(player, player_ticks, knight.parry.animation, knight.parry.active_s),
        damage=damage,
        drain=np.where(is_hit | np.isin(player, _FALLS), 0.0, loss),
        boss_damage=np.maximum(-np.diff(m["boss_hp"], prepend=m["boss_hp"][0]), 0.0),
        step=fight.ticks_per_moment,
    )


def _within(
    names: NDArray[np.str_], since: NDArray[np.int64], animation: str, period_s: tuple[float, float]
) -> NDArray[np.bool_]:
    low, high = map(ticks, period_s)
    return (names == animation) & (since >= low) & (since < high)


def _is_open(
    player: NDArray[np.str_],
    player_ticks: NDArray[np.int64],
    tick: NDArray[np.int64],
    damage: NDArray[np.float64],
    knight: Knight,
) -> NDArray[np.bool_]:
    """Return whether a hit would hurt the player: not in a roll or riposte, after a hit, or in a fall."""
    is_open = ~_within(player, player_ticks, knight.roll.animation, knight.roll.invulnerable_s)
    is_open &= (player != knight.riposte.animation) & ~np.isin(player, _FALLS)
    grace = {each.animation: max(ticks(each.invulnerable_s), HIT_GRACE_TICKS) for each in knight.knock_backs.values()}
    for i in np.flatnonzero(damage > 0):
        since = tick[i:] - hit_tick(tick, player_ticks, int(i))
        is_open[i : i + int(np.searchsorted(since, grace.get(str(player[i]), HIT_GRACE_TICKS)))] = False
        is_open[i] = True  # it was open to this hit
    return is_open


def hit_tick(tick: NDArray[np.int64], player_ticks: NDArray[np.int64], moment: int) -> int:
    """Return the tick of a hit, given the moment at which it was seen: the player's animation starts with it."""
    since = int(player_ticks[moment])
    before = int(tick[moment - 1]) if moment else int(tick[0]) - 1
    return int(tick[moment]) - since if since < int(tick[moment]) - before else int(tick[moment])


def _attacks(course: Course, number: int) -> list[Attack]:
    tick, since, names = course.tick, course.boss_ticks, course.boss
    restarts = (names[1:] != names[:-1]) | (np.diff(since) < np.diff(tick) - 1)
    firsts = np.concatenate([[0], np.flatnonzero(restarts) + 1])
    starts = tick[firsts] - since[firsts]
    found = []
    for i, first in enumerate(firsts):
        is_last = i + 1 == len(firsts)
        found.append(
            Attack(
                course=number,
                animation=str(names[first]),
                start=int(starts[i]),
                first=int(first),
                last=len(tick) - 1 if is_last else int(firsts[i + 1]) - 1,
                next_start=-1 if is_last else int(starts[i + 1]),
                following="" if is_last else str(names[firsts[i + 1]]),
                phase=int(course.phase[first]),
            )
        )
    return found


def _hits(courses: list[Course], attacks: list[Attack], knight: Knight, contact_m: float) -> list[Hit]:
    # A hit pushes the player away from the boss, so at a lower rate it is seen farther away than it was.
    pushes = {each.animation: each.push_m / PUSH_TICKS for each in knight.knock_backs.values()}
    hits = []
    for number, course in enumerate(courses):
        own = [i for i, attack in enumerate(attacks) if attack.course == number]
        starts = np.array([attacks[i].start for i in own])
        is_attack = np.array([attacks[i].is_attack for i in own])
        for moment in np.flatnonzero(course.damage > 0):
            push = pushes.get(str(course.player[moment]))
            if push is None:
                continue
            at = hit_tick(course.tick, course.player_ticks, int(moment))
            pushed = push * min(int(course.tick[moment]) - at, PUSH_TICKS)
            place = max(int(np.searchsorted(starts, at, side="right")) - 1, 0)
            before = np.flatnonzero(is_attack[: place + 1])
            attack = own[int(before[-1])] if len(before) else -1
            hits.append(
                Hit(
                    attack=attack,
                    k=at - attacks[attack].start if attack >= 0 else 0,
                    moment=int(moment),
                    course=number,
                    gap=float(course.distance[moment]) - contact_m - pushed,
                    bearing=float(course.bearing[moment]),
                    damage=float(course.damage[moment]),
                    is_lethal=bool(course.hp[moment] <= 0),
                    drained=_drained(course, int(moment)),
                    animation=str(course.player[moment]),
                    phase=int(course.phase[moment]),
                    is_during=bool(len(before)) and int(before[-1]) == place,
                    is_prompt=bool(moment > 0 and course.is_open[moment - 1]),
                )
            )
    return hits


def _drained(course: Course, moment: int) -> float:
    """Return the loss of health without a hit after a hit, until the next one."""
    end = int(np.searchsorted(course.tick, course.tick[moment] + DRAIN_TICKS))
    later_hits = np.flatnonzero(course.damage[moment + 1 : end] > 0)
    end = moment + 1 + int(later_hits[0]) if len(later_hits) else end
    return float(course.drain[moment + 1 : end].sum())
