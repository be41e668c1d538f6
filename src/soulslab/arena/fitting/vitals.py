"""Health, phases, poise and stuns of the boss, and the durations of its attacks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import MOVE_ANIMATIONS
from soulslab.arena.fitting.attacks import STAGGER, STUNS, THROWN, Course, Hit, Observations, observe
from soulslab.arena.fitting.estimate import Estimate, between, exact
from soulslab.arena.fitting.recorded_fight import RecordedFight
from soulslab.arena.knight_file import Knight
from soulslab.arena.records import TICKS_PER_S
from soulslab.errors import FitError

#: Grid of the poise and its regeneration per second.
POISES = np.arange(10.0, 400.0, 2.0)
REGENS = np.arange(0.0, 30.1, 0.5)
#: A later end of an attack is its duration if it is at least this share as frequent as the most frequent end.
FREQUENT = 1 / 3
#: Difference in damage that is more than rounding.
VARIED_HP = 2.0
#: Median and spread of the priors, which decide where several values explain a recording; the poise is log-normal.
USUAL_POISE, POISE_SPREAD = 120.0, 0.45
USUAL_REGEN, REGEN_SPREAD = 6.0, 4.0

PHASE_MOVE = "Attack1500"
#: Longest attack of a boss file in s.
MAX_MOVE_S = 10.0

_log = logging.getLogger(__name__)


class Health(msgspec.Struct, frozen=True):
    """Full health, and the health at which the second phase begins with its animation; None if it was not seen.

    ``has_first_phase`` is whether the recordings show more than the second phase.
    """

    hp: Estimate
    phase_two_hp: Estimate | None
    phase_two_move: str | None
    has_first_phase: bool = True


def health(o: Observations) -> Health:
    """Return the boss's health and the change of its phase; raises FitError if the boss has no health."""
    hp = max(float(course.boss_hp[0]) for course in o.courses)
    if not hp > 0.0:
        raise FitError("the boss has no health in the recordings; check the address of boss.hp in the profile")
    if not any((course.phase != 2).any() for course in o.courses):
        # The second phase begins with a part of the health, by default half of it.
        return Health(Estimate(2.0 * hp, hp, 4.0 * hp), None, None, has_first_phase=False)
    full = exact(hp)
    change: list[tuple[str, float]] = []
    for attack in o.attacks:
        course = o.courses[attack.course]
        row = min(attack.last + 1, len(course.phase) - 1)
        if attack.is_attack and attack.phase == 1 and course.phase[row] == 2:
            change.append((attack.animation, float(course.boss_hp[attack.first])))
    if not change:
        return Health(full, None, None)
    names = [name for name, _ in change]
    move = max(set(names), key=names.count)
    levels = [level for name, level in change if name == move]
    least = [float(course.boss_hp[course.phase == 1].min()) for course in o.courses if (course.phase == 1).any()]
    # The health of phase 1 does not fall below the threshold, so all levels are equal in games with this rule.
    threshold = max(levels)
    above = [level for level in least if level > threshold]
    is_clamped = min(levels) == threshold
    high = threshold + 1 if is_clamped else min([*above, hp])
    return Health(full, between(threshold, high), move)


def observe_boss(fights: Sequence[RecordedFight], knight: Knight) -> tuple[Observations, Health]:
    """Return the observations of all attacks that a boss file can hold, and the health.

    Raises `FitError` without a fight, or if the boss has no health.
    """
    if not fights:
        raise FitError("no recorded fights were given; record some, or name the recordings")
    o = observe(fights, knight)
    vitals = health(o)
    if unfit := _unfit_attacks(o, vitals.phase_two_move):
        o = observe([_without_attacks(fight, unfit) for fight in fights], knight)
    return o, vitals


def _unfit_attacks(o: Observations, phase_two_move: str | None) -> set[str]:
    """Return the animations of attacks that a boss file cannot hold, after a warning that names them.

    An animation without a name counts as an attack, so there may be too many kinds, or one that lasts longer than an
    attack may, such as waiting. The most frequent ones fit, and the change of phase.
    """
    counts = Counter(attack.animation for attack in o.attacks if attack.is_attack)
    long = set()
    for animation in counts:
        duration = durations(o, o.of(animation))
        if duration is not None and duration.value > MAX_MOVE_S * TICKS_PER_S:
            long.add(animation)
    # A change of phase that was not seen needs a name of its own.
    is_named = phase_two_move is None or phase_two_move in MOVE_ANIMATIONS
    n_names = len(MOVE_ANIMATIONS) - (is_named and PHASE_MOVE not in counts)
    others = sorted(counts.keys() - long, key=lambda each: (each != phase_two_move, -counts[each], each))[n_names:]
    for problem, animations in (
        (f"last longer than {MAX_MOVE_S} s", long),
        (f"are more than {n_names} kinds of attacks", others),
    ):
        if animations:
            _log.warning("left out of the fit, because they %s: %s", problem, ", ".join(sorted(animations)))
    return {*long, *others}


def _without_attacks(fight: RecordedFight, animations: set[str]) -> RecordedFight:
    """Return a fight in which some animations are not attacks."""
    names = tuple("" if name in animations else name for name in fight.boss_animations)
    return msgspec.structs.replace(fight, boss_animations=names)


def durations(o: Observations, indices: Sequence[int]) -> Estimate | None:
    """Return the duration of an attack in ticks; None if none ran to its end."""
    found = []
    for i in indices:
        attack = o.attacks[i]
        if attack.is_complete and attack.next_start > attack.start:  # the times of animations may be wrong
            is_followed = i + 1 < len(o.attacks) and o.attacks[i + 1].is_attack
            # After its end the animation stays for one tick, unless a follow-up replaces it.
            found.append(attack.next_start - attack.start - (0 if is_followed else 1))
    if not found:
        return None
    # An end is seen less than one step late. The boss may break off an attack, often at the same moment. The duration
    # is therefore the latest end that is not much rarer than the most frequent one; recordings may have rare late ones.
    ends, every = np.unique(found), np.array(found)
    counts = np.array([np.count_nonzero((end <= every) & (every < end + o.step)) for end in ends])
    last = ends[counts >= FREQUENT * counts.max()].max()
    near = ends > last - o.step
    value = int(ends[near][counts[near].argmax()])
    return Estimate(value, value, value)


def stun(o: Observations, animation: str) -> Estimate | None:
    """Return the duration of a stagger, or of the stun after a parry, in ticks; None if it never ended by itself."""
    found = [
        attack.next_start - attack.start - 1
        for attack in o.attacks
        if attack.animation == animation and attack.next_start >= 0 and attack.following not in (*STUNS, THROWN)
    ]
    return Estimate(min(found), min(found), min(found)) if found else None


def damage_ratio(o: Observations) -> Estimate | None:
    """Return the damage in phase 2 as a share of that in phase 1, from attacks that hit in both."""
    seen: dict[tuple[str, str], dict[int, list[float]]] = {}
    for hit in o.hits:
        if hit.attack < 0 or hit.is_lethal or hit.phase not in (1, 2):
            continue
        key = (o.attacks[hit.attack].animation, hit.animation)
        seen.setdefault(key, {1: [], 2: []})[hit.phase].append(hit.damage)
    limits = []
    for damages in seen.values():
        ones, twos = sorted(set(damages[1])), sorted(set(damages[2]))
        if ones and len(ones) == len(twos):
            limits += [(two / (one + 1), (two + 1) / one) for one, two in zip(ones, twos, strict=True) if one > 0]
    if not limits:
        return None
    # The ratio that most attacks agree on.
    ends = sorted({end for limit in limits for end in limit})
    centres = [(one + other) / 2 for one, other in pairwise(ends)]
    votes = [sum(low < centre < high for low, high in limits) for centre in centres]
    best = centres[int(np.argmax(votes))]
    agreeing = [limit for limit in limits if limit[0] < best < limit[1]]
    low, high = max(low for low, _ in agreeing), min(high for _, high in agreeing)
    # Equal damage in both phases is a ratio of 1 rather than one near it.
    value = 1.0 if low < 1.0 < high else round((low + high) / 2, 4)
    return Estimate(value, low, high)


class Poise(msgspec.Struct, frozen=True):
    """Poise and its regeneration per second; ``is_known`` is False if the boss was never staggered."""

    poise: Estimate
    regen_per_s: Estimate
    is_known: bool


def poise(o: Observations, phase_two_move: str | None) -> Poise | None:
    """Return the poise: the values of a grid with which the recorded hits stagger the boss when it was staggered.

    None if it was never hit.
    """
    n_wrong = np.zeros((len(POISES), len(REGENS)), np.int64)
    n_staggers = 0
    for number, course in enumerate(o.courses):
        staggers = {a.start for a in o.attacks if a.course == number and a.animation == STAGGER}
        n_staggers += len(staggers)
        n_wrong += _contradictions(course, o.knight, staggers, phase_two_move)
    if not any((course.boss_damage > 0).any() for course in o.courses):
        return None
    prior = np.exp(-0.5 * (np.log(POISES / USUAL_POISE) / POISE_SPREAD) ** 2)[:, None]
    weight = (n_wrong == n_wrong.min()) * prior * np.exp(-0.5 * ((REGENS - USUAL_REGEN) / REGEN_SPREAD) ** 2)
    return Poise(_quantiles(POISES, weight.sum(axis=1)), _quantiles(REGENS, weight.sum(axis=0)), n_staggers > 0)


def _quantiles(values: NDArray[np.float64], weight: NDArray[np.float64]) -> Estimate:
    """Return the median and the 90 % interval of a distribution over a grid, up to the next values of the grid."""
    low, median, high = np.searchsorted(np.cumsum(weight) / weight.sum(), (0.05, 0.5, 0.95))
    step = float(values[1] - values[0])
    return Estimate(float(values[median]), max(float(values[low]) - step, 0.0), float(values[high]) + step)


def _contradictions(
    course: Course, knight: Knight, staggers: set[int], phase_two_move: str | None
) -> NDArray[np.int64]:
    """Return how many hits of a fight contradict each pair of the grid: a stagger too many or too few."""
    most, regen = np.meshgrid(POISES, REGENS / TICKS_PER_S, indexing="ij")
    left, n_wrong, last = most.copy(), np.zeros(most.shape, np.int64), 0
    is_sure, taken = np.ones(most.shape, np.bool_), 0.0
    changes = np.flatnonzero(course.boss == phase_two_move)
    changed = int(course.tick[changes[0]]) if len(changes) else None
    for moment in np.flatnonzero(course.boss_damage > 0):
        strength = _strength(course, knight, int(moment))
        if strength is None:
            continue
        tick = int(course.tick[moment])
        if changed is not None and last < changed <= tick:
            # Hits before the change of phase may have taken poise without health, which has a limit in phase 1.
            is_sure[:] = False
        if changed is not None:
            is_sure |= regen * (tick - changed) >= most + taken
            taken += strength if tick >= changed else 0.0
        left = np.minimum(left + regen * (tick - last), most) - strength
        last = tick
        is_broken = left <= 0
        was_staggered = any(tick - o <= 6 and o <= tick for o in staggers)
        name = str(course.boss[moment])
        before = str(course.boss[moment - 1]) if moment else name
        is_immune = before in STUNS or (before == phase_two_move and course.phase[moment] == 1)
        if not is_immune:
            n_wrong += is_sure & (is_broken != was_staggered)
            is_sure |= was_staggered
        left = np.where(is_broken | (was_staggered and not is_immune), most, left)
    return n_wrong


def _strength(course: Course, knight: Knight, moment: int) -> float | None:
    """Return the poise damage of a hit on the boss: that of the player's attack, known from its animation or damage."""
    attacks = knight.attacks
    for name in (str(course.player[moment]), str(course.player[moment - 1])):
        if name in attacks and attacks[name].active_s is not None:
            return attacks[name].poise_damage
    damage = float(course.boss_damage[moment])
    for attack in attacks.values():
        if attack.active_s is not None and attack.damage == damage:
            return attack.poise_damage
    return None


def damages(hits: Sequence[Hit], ratio: Estimate) -> Estimate | None:
    """Return the damage of a window in phase 1 terms; None if no hit showed it.

    A boss file has no damage over time, so the damage includes what the player loses after a hit. If the hits have
    several damages, it is their mean.
    """
    known = [hit for hit in hits if not hit.is_lethal]
    if not known:
        return None
    # The next hit often comes before all of it is lost.
    factor = 1.0 + float(np.quantile([hit.drained / hit.damage for hit in known], 0.75))
    nominal = [hit.damage / (ratio.value if hit.phase == 2 else 1.0) for hit in known]
    if np.ptp(nominal) > VARIED_HP:
        low = min(hit.damage / (ratio.high if hit.phase == 2 else 1.0) for hit in known)
        high = max(hit.damage / (ratio.low if hit.phase == 2 else 1.0) for hit in known)
        return Estimate(factor * float(np.mean(nominal)), low, factor * high)
    values, counts = np.unique([hit.damage for hit in known if hit.phase != 2], return_counts=True)
    if len(values):
        seen = float(values[np.argmax(counts)])
        return Estimate(seen * factor, seen, (seen + 1) * factor)
    values, counts = np.unique([hit.damage for hit in known], return_counts=True)
    seen = float(values[np.argmax(counts)])
    value = float(np.ceil(factor * seen / ratio.value - 1e-9))  # the rules round the damage down
    return Estimate(value, min(seen / ratio.high, value), max(factor * (seen + 1) / ratio.low, value))
