"""The fit: puts the estimates together as a boss file, with the interval of each number and what is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from soulslab.arena.boss_file import (
    MAX_FOLLOW_UPS_OF_ALL,
    MAX_WINDOWS,
    MAX_WINDOWS_OF_ALL,
    MOVE_ANIMATIONS,
    Boss,
    FollowUp,
    Ground,
    Move,
    PhaseTwo,
    Projectile,
    Window,
)
from soulslab.arena.fitting.attacks import PARRIED, STAGGER, Hit, Observations
from soulslab.arena.fitting.choices import Follower, MoveChoice, choices, fit_choices, followers, pauses
from soulslab.arena.fitting.estimate import Estimate, between, exact, seconds
from soulslab.arena.fitting.ground import fit_ground
from soulslab.arena.fitting.hit_windows import (
    NO_OTHERS,
    HitWindow,
    OtherAreas,
    find_windows,
    other_areas,
)
from soulslab.arena.fitting.known_numbers import narrow_fit, narrowed
from soulslab.arena.fitting.motion import advance, roaming, steps_of, tracking
from soulslab.arena.fitting.projectiles import RADIUS_M, Throw, find_throws
from soulslab.arena.fitting.recorded_fight import RecordedFight
from soulslab.arena.fitting.unseen_windows import Assumptions, assume, cut_overlaps, overlooked_windows, unseen_windows
from soulslab.arena.fitting.validity import bounded, check_boss, in_both_phases
from soulslab.arena.fitting.vitals import (
    PHASE_MOVE,
    USUAL_POISE,
    USUAL_REGEN,
    Health,
    damage_ratio,
    damages,
    durations,
    observe_boss,
    poise,
    stun,
)
from soulslab.arena.knight_file import Knight
from soulslab.arena.uncertainty import Interval, Uncertainty, in_order, numbers_of
from soulslab.errors import FitError

#: Duration of an attack in ticks that never ran to its end.
USUAL_DURATION = 120
#: Ticks of a window of a projectile, which only has a start.
THROW_TICKS = 3

Found: TypeAlias = HitWindow | Throw


class FittedMove(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One fitted attack with what it was fitted from.

    Attributes:
        animation: Its animation in the recordings; the boss file may have to use another name.
        n_seen: How often it was seen.
        duration: Its duration in ticks.
        windows: Its windows in order; each is a melee window or a throw.
        is_explained: Whether hits showed at least one window.
    """

    animation: str
    n_seen: int
    duration: Estimate
    windows: tuple[Found, ...]
    is_explained: bool


class Fit(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A fitted boss.

    Attributes:
        boss: The boss file.
        uncertainty: The interval of each number.
        moves: The attacks, in the order of the boss file.
        n_unexplained_hits: Hits on the player that no window explains.
        n_hits: All hits on the player.
        known: Places of the numbers that were known from elsewhere.
        contradictions: Known numbers that contradict the recordings, with both values; the known ones are used.
        unused: Known numbers that the fit does not have, and why.
    """

    boss: Boss
    uncertainty: Uncertainty
    moves: tuple[FittedMove, ...]
    n_unexplained_hits: int
    n_hits: int
    known: frozenset[str] = frozenset()
    contradictions: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


class _Notes:
    """Collects the intervals and the unknown places."""

    def __init__(self) -> None:
        self.intervals: dict[str, tuple[float, float]] = {}
        self.unknown: list[str] = []

    def take(self, place: str, estimate: Estimate | None, default: float, *, is_known: bool = True) -> float:
        """Return the number to write at a place, and note its interval, or that it is unknown."""
        if estimate is None:
            self.unknown.append(place)
            return default
        if not is_known:
            self.unknown.append(place)
        # No number of a fit is negative.
        self.intervals[place] = (round(max(float(estimate.low), 0.0), 6), round(max(float(estimate.high), 0.0), 6))
        return round(float(estimate.value), 5)

    def uncertainty(self, boss: Boss, fights: Sequence[RecordedFight]) -> Uncertainty:
        """Return the intervals of the numbers that the boss file has."""
        numbers = dict(numbers_of(boss))
        return Uncertainty(
            intervals={
                place: _around(each, numbers[place]) for place, each in self.intervals.items() if place in numbers
            },
            unknown=tuple(self.unknown),
            n_fights=len(fights),
            game_time_s=round(sum(fight.game_time_s for fight in fights), 2),
        )


def fit_boss(
    fights: Sequence[RecordedFight],
    knight: Knight,
    *,
    name: str = "Fitted boss",
    ground: Ground | None = None,
    known: Mapping[str, Interval] = MappingProxyType({}),
) -> Fit:
    """Fit a boss to recorded fights.

    Args:
        fights: The recordings.
        knight: The player.
        name: Name of the boss in the boss file.
        ground: The ground, if it is known from elsewhere.
        known: Numbers that are known from elsewhere (`soulslab.arena.fitting.known_numbers`).

    Raises:
        FitError: The recordings show fewer than two attacks, or a boss that no boss file can describe, or known numbers
            contradict each other.
    """
    o, vitals = observe_boss(fights, knight)
    counts = Counter(attack.animation for attack in o.attacks if attack.is_attack)
    animations = sorted(counts, key=lambda each: (each == PHASE_MOVE, each))
    if len(animations) < 2:
        raise FitError(
            f"the recordings show {len(animations)} kinds of attacks, and a boss file needs two; record more fights"
        )
    notes = _Notes()
    ratio = damage_ratio(o)
    factor = _narrowed_factor(ratio or Estimate(1.0, 0.8, 1.5), known.get("damage_scale[1]"))
    seen = choices(o, animations, vitals.phase_two_move)
    found = _windows_of_all(o, animations, factor.value, assume(seen, animations, vitals.phase_two_move))
    chosen = dict(zip(animations, fit_choices(seen, len(animations), o.step), strict=True))
    names = _file_names(animations, vitals.phase_two_move)
    ids = {animation: name.lower() for animation, name in names.items()}
    moves, fitted = [], []
    for i, animation in enumerate(animations):
        windows, duration, is_explained = found[animation]
        follow = followers(o, o.of(animation), vitals.phase_two_move)
        builder = _MoveBuilder(o, notes, f"moves[{i}]", animation, factor)
        moves.append(builder.build(names[animation], windows, duration, chosen[animation], follow, ids))
        fitted.append(
            FittedMove(
                animation=animation,
                n_seen=counts[animation],
                duration=duration,
                windows=windows,
                is_explained=is_explained,
            )
        )
    moves = _within_capacity(moves if vitals.has_first_phase else [in_both_phases(move) for move in moves])
    vitals_fit = _Whole(o, notes, vitals, ratio)
    lengths = {move.animation: move.duration for move in fitted}
    built = vitals_fit.build(name, tuple(moves), ground or fit_ground(fights), ids, vitals_fit.pauses(lengths))
    boss = in_order(bounded(built))
    explained = {id(hit) for move in fitted for window in move.windows for hit in window.hits}
    result = narrow_fit(boss, notes.uncertainty(boss, fights), animations, known)
    check_boss(result.boss, knight)
    return Fit(
        boss=result.boss,
        uncertainty=result.uncertainty,
        moves=tuple(fitted),
        n_unexplained_hits=sum(id(hit) not in explained for hit in o.hits),
        n_hits=len(o.hits),
        known=result.places,
        contradictions=result.contradictions,
        unused=result.unused,
    )


def _narrowed_factor(measured: Estimate, known: Interval | None) -> Estimate:
    """Return the factor of the damage in phase 2; damage that was seen only there is divided by it."""
    if known is None:
        return measured
    (low, high), _ = narrowed((measured.low, measured.high), known)
    return Estimate(measured.value if low <= measured.value <= high else (low + high) / 2, low, high)


def _around(interval: tuple[float, float], number: float) -> tuple[float, float]:
    """Return an interval that contains the number of the file, which may have been rounded or put in order."""
    return min(interval[0], number), max(interval[1], number)


def _within_capacity(moves: list[Move]) -> list[Move]:
    """Return the attacks without the last windows and follow-ups that exceed the tables of the rules."""
    n_windows = n_follow_ups = 0
    kept = []
    for n, move in enumerate(moves):
        left = len(moves) - n - 1  # every further attack needs one window
        windows = move.windows[: max(min(MAX_WINDOWS, MAX_WINDOWS_OF_ALL - n_windows - left), 1)]
        follow_ups = move.follow_ups[: max(MAX_FOLLOW_UPS_OF_ALL - n_follow_ups, 0)]
        n_windows, n_follow_ups = n_windows + len(windows), n_follow_ups + len(follow_ups)
        kept.append(msgspec.structs.replace(move, windows=windows, follow_ups=follow_ups))
    return kept


def _file_names(animations: Sequence[str], phase_two_move: str | None) -> dict[str, str]:
    """Return the animation of each attack in the boss file: its own, or a free one if a boss file does not know it."""
    free = [name for name in MOVE_ANIMATIONS if name not in animations and name != PHASE_MOVE]
    names = {}
    for animation in animations:
        if animation in MOVE_ANIMATIONS:
            names[animation] = animation
        elif animation == phase_two_move and PHASE_MOVE not in animations:
            names[animation] = PHASE_MOVE
        else:
            names[animation] = free.pop(0)
    return names


def _windows_of_all(
    o: Observations, animations: Sequence[str], factor: float, assumed: Assumptions
) -> dict[str, tuple[tuple[Found, ...], Estimate, bool]]:
    """Return the result of `_windows` for each attack; areas of windows that hit are the prior of the others."""
    alone = [_windows(o, animation, factor, NO_OTHERS, assumed) for animation in animations]
    blades = [window for windows, _, _ in alone for window in windows if isinstance(window, HitWindow)]
    others = other_areas([window for window in blades if window.hits], factor)
    return {animation: _windows(o, animation, factor, others, assumed) for animation in animations}


def _windows(
    o: Observations,
    animation: str,
    factor: float,
    others: OtherAreas,
    assumed: Assumptions,
) -> tuple[tuple[Found, ...], Estimate, bool]:
    """Return the windows of an attack in order, its duration in ticks, and whether hits showed them."""
    indices = o.of(animation)
    duration = durations(o, indices)
    seen = (o.courses[o.attacks[i].course].boss_ticks[o.attacks[i].last] for i in indices)
    limit = int(duration.value) if duration else max(USUAL_DURATION, *map(int, seen))
    mine = set(indices)
    hits = [hit for hit in o.hits if hit.attack in mine]
    windows: list[Found] = list(find_throws(o, indices, hits, are_irregular=others.are_irregular))
    if not windows:
        blades = find_windows(o, indices, [hit for hit in hits if hit.is_during], factor, others)
        further = overlooked_windows(o, indices, blades, limit) if blades else []
        windows = [*blades, *further[: max(MAX_WINDOWS - len(blades), 0)]]
    is_explained = bool(windows)
    if not windows:
        windows = list(unseen_windows(o, indices, limit))
    windows = [assumed.apply(animation, each) if isinstance(each, HitWindow) else each for each in windows]
    windows = cut_overlaps(sorted(windows, key=lambda window: window.start.value))
    if duration is None:
        last = windows[-1].start.value + USUAL_DURATION / 2
        duration = between(last, max(last * 2, USUAL_DURATION))
    return tuple(windows), duration, is_explained


class _MoveBuilder:
    """Builds one attack of the boss file."""

    def __init__(self, o: Observations, notes: _Notes, place: str, animation: str, factor: Estimate) -> None:
        self._o, self._notes, self._place, self._factor = o, notes, place, factor
        self._steps = steps_of(o, o.of(animation))

    def build(
        self,
        name: str,
        found: Sequence[Found],
        duration: Estimate,
        choice: MoveChoice,
        follow: Sequence[Follower],
        ids: Mapping[str, str],
    ) -> Move:
        take, place = self._notes.take, self._place
        windows, previous_end = [], 0
        for j, each in enumerate(found):
            window = self._window(f"{place}.windows[{j}]", each, previous_end)
            windows.append(window)
            previous_end = round(_end(each).value)
        end = _end(found[-1])
        recovery = Estimate(
            max(duration.value - end.value, 0),
            max(duration.low - end.high - 1, 0),
            max(duration.high - end.low + 1, 0),
        )
        ranges = [
            tuple(take(f"{place}.{field}[{i}]", _positive(estimate), 0.0) for i, estimate in enumerate(pair))
            for field, pair in (("range_m", choice.range_m), ("bearing_rad", choice.bearing_rad))
            if choice.is_chosen
        ] or [(0.0, 40.0), (0.0, 3.1416)]
        return Move(
            id=name.lower(),
            animation=name,
            windows=tuple(windows),
            recovery_s=take(f"{place}.recovery_s", _in_seconds(recovery), 1.0),
            weight=take(f"{place}.weight", choice.weight, 0.0),
            range_m=(ranges[0][0], max(ranges[0][1], 0.1)),
            bearing_rad=(ranges[1][0], min(max(ranges[1][1], 0.05), 3.1416)),
            cooldown_s=self._cooldown(choice),
            phases=choice.phases,
            follow_ups=tuple(
                FollowUp(
                    move=ids[each.animation],
                    probability=take(f"{place}.follow_ups[{j}].probability", each.probability, 0.0),
                    within_m=take(f"{place}.follow_ups[{j}].within_m", each.within_m, 40.0),
                    phases=each.phases,
                )
                for j, each in enumerate(follow)
            ),
        )

    def _cooldown(self, choice: MoveChoice) -> float:
        if not choice.is_chosen:
            return 0.0
        ticks = choice.cooldown_ticks
        return self._notes.take(f"{self._place}.cooldown_s", seconds(ticks) if ticks else None, 0.0)

    def _window(self, place: str, found: Found, previous_end: int) -> Window:
        take = self._notes.take
        start = round(found.start.value)
        turn = tracking(self._steps, previous_end, start)
        step = advance(self._steps, previous_end, found.start)
        aim = _before(found.start, turn.end) if turn.end else None
        step_ticks = _before(found.start, step.first) if step.first else None
        common: dict[str, Any] = {
            "start_s": take(f"{place}.start_s", seconds(found.start), 1.0, is_known=bool(found.hits)),
            "end_s": take(f"{place}.end_s", seconds(_end(found)), 1.2, is_known=_is_end_known(found)),
            "damage": round(take(f"{place}.damage", damages(found.hits, self._factor), 100.0)),
            "knock_back": self._knock_back(place, found.hits),
            "tracking_rad_s": take(
                f"{place}.tracking_rad_s", _positive(turn.rate_rad_s), 3.0, is_known=turn.is_rate_known
            ),
            "aim_s": take(f"{place}.aim_s", seconds(aim), 0.15) if aim else 0.15,
            "advance_m": take(f"{place}.advance_m", step.distance_m, 0.0, is_known=step.is_known),
            "advance_s": max(take(f"{place}.advance_s", seconds(step_ticks), 0.3), 0.01) if step_ticks else 0.3,
        }
        if isinstance(found, Throw):
            speed = take(f"{place}.projectile.speed_m_s", found.speed_m_s, 15.0)
            self._notes.unknown += [f"{place}.projectile.radius_m", f"{place}.projectile.lifetime_s"]
            count = take(f"{place}.projectile.count", found.count, 1)
            spread = take(f"{place}.projectile.spread_rad", found.spread_rad, 0.0)
            projectile = Projectile(speed_m_s=speed, count=round(count), spread_rad=spread, radius_m=RADIUS_M)
            return Window(**common, projectile=projectile)
        area = found.area
        if found.is_parried is None:
            self._notes.unknown.append(f"{place}.parry")
        reach = take(f"{place}.reach_m", area.reach_m, 2.0, is_known=area.is_reach_bounded)
        arc = take(f"{place}.arc_rad", area.arc_rad, 1.5, is_known=area.is_arc_bounded)
        return Window(
            **common,
            reach_m=reach,
            arc_rad=min(max(arc, 0.05), 6.2832),
            facing_rad=area.facing_rad,
            parry=bool(found.is_parried),
        )

    def _knock_back(self, place: str, hits: Sequence[Hit]) -> str:
        """Return the knock-back whose animation the player has after a hit."""
        seen = Counter(hit.animation for hit in hits)
        names = {each.animation: name for name, each in self._o.knight.knock_backs.items()}
        known = [animation for animation, _ in seen.most_common() if animation in names]
        if not known:
            self._notes.unknown.append(f"{place}.knock_back")
            return "middle"
        return names[known[0]]


def _end(found: Found) -> Estimate:
    if isinstance(found, Throw):
        start = found.start
        return Estimate(start.value + THROW_TICKS, start.low + 1, start.high + 3 * THROW_TICKS)
    return found.end


def _is_end_known(found: Found) -> bool:
    return isinstance(found, HitWindow) and found.is_end_bounded


def _before(start: Estimate, moment: Estimate) -> Estimate:
    """Return the time from a moment to the start of a window, in ticks."""
    value = max(start.value - moment.value, 0)
    low, high = max(start.low - moment.high, 0), max(start.high - moment.low, 0)
    return Estimate(value, min(low, value), max(high, value))


def _positive(estimate: Estimate) -> Estimate:
    return Estimate(max(estimate.value, 0.0), max(estimate.low, 0.0), max(estimate.high, 0.0))


def _in_seconds(ticks: Estimate) -> Estimate:
    """Return a difference of two times of the boss file, given in ticks."""
    return Estimate(ticks.value / 60, ticks.low / 60, ticks.high / 60)


class _Whole:
    """Builds the numbers of the whole boss."""

    def __init__(self, o: Observations, notes: _Notes, vitals: Health, ratio: Estimate | None) -> None:
        self._o, self._notes, self._vitals, self._ratio = o, notes, vitals, ratio

    def pauses(self, durations: Mapping[str, Estimate]) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the least and the greatest pause in each phase, in s."""
        found = []
        for phase in (1, 2):
            both = pauses(self._o, durations, phase, self._vitals.phase_two_move) or (None, None)
            low, high = (
                self._notes.take(f"pause_s[{phase - 1}][{i}]", seconds(each) if each else None, default)
                for i, (each, default) in enumerate(zip(both, (0.4, 1.2), strict=True))
            )
            found.append((low, max(low, high)))
        return found[0], found[1]

    def build(
        self,
        name: str,
        moves: tuple[Move, ...],
        ground: Ground,
        ids: Mapping[str, str],
        pause_s: tuple[tuple[float, float], tuple[float, float]],
    ) -> Boss:
        """Return the boss."""
        o, take, vitals = self._o, self._notes.take, self._vitals
        walk, broken = roaming(o), poise(o, vitals.phase_two_move)
        contact = o.contact_m - o.knight.vitals.radius_m
        radius = exact(contact, 1e-4) if o.has_contact else Estimate(contact / 2, 0.1, max(contact, 0.2))
        below = vitals.phase_two_hp
        hp = vitals.hp.value
        share = Estimate(below.value / hp, below.low / hp, below.high / hp) if below else None
        if vitals.phase_two_move is None:
            self._notes.unknown.append("phase_two.move")
        near = take("keep_m[0]", walk.near_m, 2.5)
        is_broken = broken is not None and broken.is_known
        return Boss(
            name=name,
            hp=round(take("hp", vitals.hp, hp, is_known=vitals.has_first_phase)),
            poise=take("poise", broken.poise if broken else None, USUAL_POISE, is_known=is_broken),
            poise_regen_per_s=take(
                "poise_regen_per_s", broken.regen_per_s if broken else None, USUAL_REGEN, is_known=is_broken
            ),
            radius_m=take("radius_m", radius, 0.8, is_known=o.has_contact),
            walk_m_s=take("walk_m_s", walk.walk_m_s, 2.5),
            run_m_s=take("run_m_s", walk.run_m_s, 5.0),
            run_beyond_m=take("run_beyond_m", walk.run_beyond_m, 8.0),
            turn_rad_s=take("turn_rad_s", walk.turn_rad_s, 3.0),
            keep_m=(near, max(take("keep_m[1]", walk.far_m, 5.0), near)),
            pause_s=pause_s,
            damage_scale=(1.0, take("damage_scale[1]", self._ratio, 1.0)),
            stagger_s=self._stun("stagger_s", STAGGER, 2.3),
            parried_s=self._stun("parried_s", PARRIED, 1.9),
            phase_two=PhaseTwo(
                below=take("phase_two.below", share, 0.5),
                move=ids.get(vitals.phase_two_move or PHASE_MOVE, moves[-1].id),
            ),
            ground=ground,
            moves=moves,
        )

    def _stun(self, place: str, animation: str, default: float) -> float:
        found = stun(self._o, animation)
        return self._notes.take(place, seconds(found) if found else None, default)
