"""Report of a fitted boss: tables, what is not known yet, and what to record next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.table import Table

from soulslab.arena.boss_file import Move, Window
from soulslab.arena.fitting.fit import Fit, FittedMove
from soulslab.arena.fitting.hit_windows import HitWindow
from soulslab.arena.uncertainty import Interval, numbers_of

#: Attacks that were seen less often than this should be seen again.
N_ENOUGH = 5
#: Width of an interval of a start or an end (s), from which on it is worth another recording.
WIDE_S = 0.1
#: What can be missing, the most harmful first: an attack that is unknown cannot be avoided, and policies that relied on
#: short reaches and narrow arcs lost (docs/fitting.md).
_ORDER: Final = ("phase", "hit", "seen", "reach", "arc", "end")


def fit_tables(fit: Fit) -> list[Table]:
    """Return the tables of a fit: the attacks with their windows, their choice, and the numbers of the whole boss."""
    return [_windows(fit), _choices(fit), _whole(fit)]


def _windows(fit: Fit) -> Table:
    columns = ("attack", "seen", "window (s)", "end (s)", "damage", "reach (m)", "arc (rad)", "kind", "hits", "misses")
    table = _table("attacks: windows, with 90 % intervals", *columns)
    for i, (move, fitted) in enumerate(zip(fit.boss.moves, fit.moves, strict=True)):
        for j, window in enumerate(move.windows):
            found = fitted.windows[j]
            n_misses = len(found.area.misses) if isinstance(found, HitWindow) else 0
            place = f"moves[{i}].windows[{j}]"
            table.add_row(
                fitted.animation if j == 0 else "",
                str(fitted.n_seen) if j == 0 else "",
                _number(fit, f"{place}.start_s", window.start_s),
                _number(fit, f"{place}.end_s", window.end_s),
                _number(fit, f"{place}.damage", window.damage, 0),
                _number(fit, f"{place}.reach_m", window.reach_m) if window.projectile is None else "",
                _number(fit, f"{place}.arc_rad", window.arc_rad) if window.projectile is None else "",
                _kind(window, is_seen=bool(found.hits)),
                str(len(found.hits)),
                str(n_misses),
            )
    return table


def _kind(window: Window, *, is_seen: bool) -> str:
    if not is_seen:
        return "never hit"
    if window.projectile is None:
        return "melee, parry" if window.parry else "melee"
    return f"{window.projectile.count} projectiles" if window.projectile.count > 1 else "projectile"


def _choices(fit: Fit) -> Table:
    columns = ("attack", "weight", "from (m)", "to (m)", "bearing to (rad)", "cooldown (s)", "phases", "follow-ups")
    table = _table("attacks: when they are chosen, with 90 % intervals", *columns)
    names = {move.id: fitted.animation for move, fitted in zip(fit.boss.moves, fit.moves, strict=True)}
    for i, (move, fitted) in enumerate(zip(fit.boss.moves, fit.moves, strict=True)):
        follow = [f"{names[each.move]} {100 * each.probability:.0f} %" for each in move.follow_ups]
        cells = ["", "", "", ""]
        if move.weight > 0:
            cells = [
                _number(fit, f"moves[{i}].range_m[0]", move.range_m[0], 1),
                _number(fit, f"moves[{i}].range_m[1]", move.range_m[1], 1),
                _number(fit, f"moves[{i}].bearing_rad[1]", move.bearing_rad[1], 1),
                _number(fit, f"moves[{i}].cooldown_s", move.cooldown_s, 1),
            ]
        table.add_row(
            fitted.animation,
            _number(fit, f"moves[{i}].weight", move.weight),
            *cells,
            " and ".join(map(str, move.phases)),
            ", ".join(follow),
        )
    return table


def _whole(fit: Fit) -> Table:
    table = _table("the whole boss, with 90 % intervals", "number", "fitted")
    numbers = dict(numbers_of(fit.boss))
    for place, interval in fit.uncertainty.intervals.items():
        if not place.startswith("moves"):
            table.add_row(place, _with_interval(numbers[place], interval, 3))
    for place in fit.uncertainty.unknown:
        if not place.startswith("moves") and place not in fit.uncertainty.intervals:
            table.add_row(place, "not seen")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for n, column in enumerate(columns):
        table.add_column(column, justify="left" if n == 0 or column in ("kind", "follow-ups") else "right")
    return table


def _number(fit: Fit, place: str, value: float, digits: int = 2) -> str:
    interval = fit.uncertainty.intervals.get(place)
    text = _with_interval(value, interval, digits) if interval else f"{value:.{digits}f} (not seen)"
    return f"{text}?" if interval and place in fit.uncertainty.unknown else text


def _with_interval(value: float, interval: Interval, digits: int) -> str:
    low, high = (f"{end:.{digits}f}" for end in interval)
    text = f"{value:.{digits}f}"
    return text if low == text == high else f"{text} ({low} to {high})"


# --- what to record next ------------------------------------------------------------------------------------------


def unexplained(fit: Fit) -> list[str]:
    """Return the attacks in which no hit was seen, so that nothing shows what they do."""
    return [move.animation for move in fit.moves if not move.is_explained]


def advice(fit: Fit) -> list[str]:
    """Return what to record next, where to stand, and what to do, the most useful first.

    A change of phase that was not seen is first, then attacks that never hit, attacks that were rarely seen, and
    windows whose reach, arc or end is not bounded. In each of these groups the most frequent attack is first.
    """
    lines = sorted(_advice(fit), key=lambda line: (_ORDER.index(line.gap), -line.n_seen))
    return [line.text for line in lines]


class _Advice(NamedTuple):
    """A missing part of the recordings (one of `_ORDER`), how often its attack was seen, and what to do."""

    gap: str
    n_seen: int
    text: str


def _advice(fit: Fit) -> Iterator[_Advice]:
    if "phase_two.move" in fit.uncertainty.unknown:
        yield _Advice(
            "phase", 0, "no change of phase was seen: record longer fights, in which the boss loses more health"
        )
    for i, (move, fitted) in enumerate(zip(fit.boss.moves, fit.moves, strict=True)):
        n_seen = fitted.n_seen
        if not fitted.is_explained:
            yield _Advice("hit", n_seen, f"{fitted.animation} never hit: let it hit ({_where(move)})")
        elif n_seen < N_ENOUGH:
            times = "once" if n_seen == 1 else f"{n_seen} times"
            yield _Advice("seen", n_seen, f"{fitted.animation} was seen {times}: {_where(move)}")
        for gap, text in _window_advice(fit, i, move, fitted):
            yield _Advice(gap, n_seen, text)


def _window_advice(fit: Fit, i: int, move: Move, fitted: FittedMove) -> Iterator[tuple[str, str]]:
    for j, (window, found) in enumerate(zip(move.windows, fitted.windows, strict=False)):
        if not isinstance(found, HitWindow):
            continue
        what = f"{fitted.animation}, window {j + 1} at {window.start_s:.2f} s"
        if not found.hits:
            if fitted.is_explained:
                yield "hit", f"{what}: it never hit, let it hit"
            continue
        place = f"moves[{i}].windows[{j}]"
        low, high = fit.uncertainty.intervals[f"{place}.end_s"]
        if f"{place}.end_s" not in fit.known and (not found.is_end_bounded or high - low > WIDE_S):
            late = f"roll into it late, so that the roll ends {low:.2f} to {high:.2f} s after the attack began"
            yield "end", f"{what}: {late}"
        if f"{place}.reach_m" not in fit.known and not found.area.is_reach_bounded:
            reach = found.area.reach_m
            yield (
                "reach",
                f"{what}: step back, so that it passes {reach.low:.1f} to {reach.high:.1f} m beyond the bodies",
            )
        if f"{place}.arc_rad" not in fit.known and not found.area.is_arc_bounded:
            yield "arc", f"{what}: be {found.area.arc_rad.low / 2:.1f} rad or more off its facing when it begins"


def _where(move: Move) -> str:
    if move.weight <= 0:
        return "it only follows other attacks"
    low, high = move.range_m
    phase = " in phase 2" if move.phases == (2,) else ""
    return f"stay {low:.1f} to {high:.1f} m from the boss{phase}"
