"""The ``tick`` command of the scan prompt: find a tick counter and its rate, and try the clock settings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import get_args

import msgspec
import numpy as np

from soulslab.errors import ClockStalledError, ScanError
from soulslab.siphon.clock.lockstep_page import PAGE_LINK, library_path
from soulslab.siphon.memory import Region
from soulslab.siphon.profile import ClockFacts, load_profile
from soulslab.siphon.profile.schema import Boundary
from soulslab.siphon.scanner.entry import Found, add_entry, edit_profile, remove_entry, set_values
from soulslab.siphon.scanner.path_commands import check_name_is_free, signature_of
from soulslab.siphon.scanner.pointers import Module, PointerMap, PointerPath, holding
from soulslab.siphon.scanner.reading import writable_regions
from soulslab.siphon.scanner.searches import open_search
from soulslab.siphon.scanner.tick_search import (
    CounterType,
    TickCounter,
    TickFindings,
    TickSearch,
    TickTrial,
    exact_period_s,
)
from soulslab.siphon.scanner.workbench import Command, Paths, Workbench
from soulslab.siphon.tick_alignment import advance_to_tick_middle

#: Steps of one tick in a trial; more than 256, so that counters of 8 bits are seen to start again.
TRIAL_STEPS = 300
#: Keys of a trial if the profile names none: in most games they only move the character.
TRIAL_KEYS = ("LEFT_ARROW", "RIGHT_ARROW", "UP_ARROW", "DOWN_ARROW", "SPACE")
#: A counter that faults in more than this part of a trial does not count ticks.
MAX_FAULTS = 0.5
#: Rates and counters of one rate that are tried, and counters on the heap to which pointer paths are searched.
MAX_RATES, MAX_COUNTERS, MAX_PATH_TARGETS = 4, 64, 8
COUNT_RANGES: dict[CounterType, tuple[int, int]] = {"i32": (0, 2**31 - 1), "u16": (0, 2**16 - 1), "u8": (0, 2**8 - 1)}
SOURCE_END = "grows by one in each tick"
#: Uncertainty of the time between two frames, which is measured over 2.5 s.
FRAME_TOLERANCE_S = 5e-5


class TickSetting(msgspec.Struct, frozen=True):
    """A tick counter, its type, the exact length of a tick, and a trial with a value of ``clock.boundary``."""

    counter: TickCounter
    value_type: CounterType
    period_s: float
    boundary: Boundary
    trial: TickTrial


def _tick(bench: Workbench, words: list[str]) -> None:
    """Find a tick counter, try the clock settings on it, and write both into the profile."""
    name = words[0] if words else "tick"
    if bench.game.clock_grade != "lockstep":
        raise ScanError(
            f"tick needs a game that is held in lockstep, and the clock is {bench.game.clock_grade}; start the game by "
            f"scan (soulslab siphon scan {bench.file.name} -- COMMAND), and see docs/clock.md"
        )
    if not _is_own_entry(bench, name):
        check_name_is_free(bench, name)
    with bench.game.held_still():
        bench.say(
            f"a search lets 4.5 s of game time pass; a trial plays {TRIAL_STEPS} ticks with {', '.join(_keys(bench))}",
            style="dim",
        )
        program: list[Region] = []
        for where, regions, value_type in _searches(bench):
            size = sum(region.end - region.start for region in regions)
            bench.say(f"searching {where} for {value_type}: {size / 2**20:.1f} MiB", style="dim")
            search = _search(bench, value_type)
            findings = search.find(regions, program)
            program = program or regions
            _say_findings(bench, findings)
            setting = _best_setting(bench, search, findings.counters)
            if setting is not None:
                _write_counter(bench, name, setting, findings.counters)
                return
        _write_frame_period(bench, name)


def _is_own_entry(bench: Workbench, name: str) -> bool:
    if not bench.file.exists():
        return False
    attribute = load_profile(bench.file).attributes.get(name)
    return attribute is not None and attribute.source.endswith(SOURCE_END)


def _keys(bench: Workbench) -> tuple[str, ...]:
    return tuple(bench.game.profile.keys) or TRIAL_KEYS if bench.game.has_window else ()


def _search(bench: Workbench, value_type: CounterType) -> TickSearch:
    return TickSearch(bench.game.memory, lambda seconds: bench.game.step((), seconds), value_type)


def _searches(bench: Workbench) -> Iterator[tuple[str, list[Region], CounterType]]:
    """Yield the searches. Short counters come last: many bytes resemble a counter by accident."""
    places = list(_places(bench))
    for where, regions in places:
        yield where, regions, "i32"
    for value_type in ("u16", "u8"):
        for where, regions in places[:2]:
            yield where, regions, value_type


def _places(bench: Workbench) -> Iterator[tuple[str, list[Region]]]:
    """Yield the memory to search, the most stable first, without that of the clock library."""
    program, *libraries = bench.game.modules(with_libraries=True)
    own = [module for module in libraries if module.name == library_path("_preload").name]
    regions = [
        region
        for region in writable_regions(bench.game.memory)
        if not region.path.startswith(PAGE_LINK) and not _lies_in(region, own)
    ]
    yield "the data of the program", [region for region in regions if _lies_in(region, [program])]
    yield "the data of its libraries", [region for region in regions if _lies_in(region, libraries)]
    yield "the rest of its memory", [region for region in regions if not _lies_in(region, [program, *libraries])]


def _lies_in(region: Region, modules: Sequence[Module]) -> bool:
    return any(module.start <= region.start < module.end for module in modules)


def _say_findings(bench: Workbench, findings: TickFindings) -> None:
    for period_s, counters in _by_rate(findings.counters)[:MAX_RATES]:
        n = len(counters)
        bench.say(f"{n} counter{'s' * (n != 1)} at {1 / period_s:.4g} Hz (every {period_s * 1e3:.4g} ms)")
    if findings.n_clocks:
        bench.say(
            f"{findings.n_clocks} other integers grow steadily: clocks, or counts at irregular times", style="dim"
        )
    if findings.n_frame_counters:
        bench.say(
            f"{findings.n_frame_counters} grow by one in each step of the clock, however short: the game draws a frame "
            f"whenever time passes",
            style="dim",
        )


def _by_rate(counters: Sequence[TickCounter]) -> list[tuple[float, list[TickCounter]]]:
    """Return the counters in groups of one exact period, the fastest first."""
    groups: list[tuple[float, list[TickCounter]]] = []
    for counter in counters:
        if groups and abs(counter.period_s - groups[-1][0]) <= 2 * counter.tolerance_s:
            groups[-1][1].append(counter)
        else:
            groups.append((exact_period_s(counter.period_s, counter.tolerance_s), [counter]))
    return groups


# --- trying the settings ------------------------------------------------------------------------------------


def _best_setting(bench: Workbench, search: TickSearch, counters: Sequence[TickCounter]) -> TickSetting | None:
    """Return the counter and boundary with the fewest faults; None if no counter counts ticks while keys change."""
    before = bench.game.profile.clock
    with ExitStack() as undo:
        undo.callback(bench.game.configure_clock, before)
        for period_s, group in _by_rate(counters)[:MAX_RATES]:
            best: TickSetting | None = None
            for boundary in get_args(Boundary):
                setting = _try(bench, search, group[:MAX_COUNTERS], period_s, boundary)
                if setting is None or setting.trial.n_faults > MAX_FAULTS * TRIAL_STEPS:
                    continue
                if best is None or setting.trial.n_faults < best.trial.n_faults:
                    best = setting
                if not best.trial.n_faults:
                    break
            if best is not None and best.boundary != "auto":
                # The game may have ended or waited during the first trial, which no boundary prevents.
                again = _try(bench, search, group[:MAX_COUNTERS], period_s, "auto")
                if again is not None and again.trial.n_faults <= best.trial.n_faults:
                    best = again
            if best is not None:
                bench.game.configure_clock(_facts(before, best.period_s, best.boundary))
                undo.pop_all()
                return best
    return None


def _try(
    bench: Workbench, search: TickSearch, group: Sequence[TickCounter], period_s: float, boundary: Boundary
) -> TickSetting | None:
    """Play a trial with one boundary; None if no counter counts, or the game cannot be held with it."""
    bench.game.configure_clock(_facts(bench.game.profile.clock, period_s, boundary))
    keys = _keys(bench)
    addresses = np.array([counter.address for counter in group], np.uint64)

    def count(seconds: float) -> int:
        bench.game.step((), seconds)
        return int(search.read(addresses[:1])[0][0])

    def step(number: int) -> None:
        bench.game.step((keys[number % len(keys)],) if keys else (), period_s)

    try:
        if not advance_to_tick_middle(count, period_s):
            return None
        trials = search.trial(addresses, step, TRIAL_STEPS)
        bench.game.step((), period_s)
    except ClockStalledError as error:
        bench.say(f"boundary {boundary}: {error}", style="yellow")
        return None
    best = min(range(len(group)), key=lambda i: (trials[i].n_faults, -group[i].value, group[i].address))
    trial = trials[best]
    bench.say(f"boundary {boundary}: {trial.n_lost} lost and {trial.n_doubled} doubled of {trial.n_steps} ticks")
    return TickSetting(group[best], search.value_type, period_s, boundary, trial)


def _facts(facts: ClockFacts, period_s: float, boundary: Boundary) -> ClockFacts:
    return msgspec.structs.replace(facts, tick_hz=1 / period_s, boundary=boundary)


# --- writing ------------------------------------------------------------------------------------------------


def _write_counter(bench: Workbench, name: str, setting: TickSetting, counters: Sequence[TickCounter]) -> None:
    path = _path_to(bench, setting.counter, counters)
    values = _clock_values(setting.period_s, setting.boundary)
    if path is None:
        bench.say(
            f"no pointer path leads to the counter at {bench.where(setting.counter.address)}, so only the length of a "
            f"tick is written",
            style="yellow",
        )
        _write(bench, name, values)
        return
    executable = bench.game.profile.process.executable
    found = Found(
        name=name,
        path=path,
        type=setting.value_type,
        range=COUNT_RANGES[setting.value_type],
        unit="ticks",
        source=f"soulslab siphon scan of {executable}, {time.strftime('%Y-%m-%d')}: {SOURCE_END}",
        signature=signature_of(bench, path, ""),
    )
    _write(bench, name, values | {"tick_attribute": name}, found)
    bench.say(f"{bench.file}: {name}, tick_hz = {values['tick_hz']:.6g}, boundary {setting.boundary}", style="bold")
    if setting.trial.n_faults:
        bench.say(
            f"no boundary kept all ticks; the best one lost {setting.trial.n_lost} and doubled "
            f"{setting.trial.n_doubled} of {setting.trial.n_steps}. If the game ended or waited meanwhile, lead it "
            f"into play and type tick again",
            style="yellow",
        )


def _write(bench: Workbench, name: str, clock: dict[str, object], counter: Found | None = None) -> None:
    """Write ``[clock]`` and a counter; they replace a counter that an earlier `tick` has written under that name."""
    with edit_profile(bench.file, bench.game.profile) as document:
        if _is_own_entry(bench, name):
            remove_entry(document, name)
            if document.get("clock", {}).get("tick_attribute") == name:
                set_values(document, "clock", {"tick_attribute": None})
        set_values(document, "clock", clock)
        if counter is not None:
            add_entry(document, counter)


def _path_to(bench: Workbench, counter: TickCounter, counters: Sequence[TickCounter]) -> PointerPath | None:
    """Return the pointer path to a counter; None if no path leads to it.

    Pointer paths from an earlier run that lead to a tick counter of this run are proven.
    """
    modules = bench.game.modules(with_libraries=True)
    memory, address = bench.game.memory, counter.address
    for module in modules:
        if module.start <= address < module.end:
            return PointerPath(0, (), module.name, address - module.start)
    run, earlier = bench.game.n_starts, bench.paths
    if earlier is not None and earlier.all and earlier.found_in < run:
        addresses = {counter.address for counter in counters}
        kept = holding(earlier.all, memory, modules, lambda end: end in addresses)
        if kept:
            earlier.all, earlier.n_restarts, earlier.seen_in = kept, earlier.n_restarts + 1, run
            return kept[0]
    return _new_path(bench, counter, counters, modules)


def _new_path(
    bench: Workbench, counter: TickCounter, counters: Sequence[TickCounter], modules: Sequence[Module]
) -> PointerPath | None:
    """Search pointer paths to the counters of one rate, which stay in ``bench.paths``; return one to the counter."""
    near = [c for c in counters if abs(c.period_s - counter.period_s) <= 2 * c.tolerance_s and c != counter]
    pointers = PointerMap(bench.game.memory, modules)
    to_counter = pointers.paths_to(counter.address)
    found = sorted(to_counter + [path for c in near[:MAX_PATH_TARGETS] for path in pointers.paths_to(c.address)])
    if not found:
        return None
    run = bench.game.n_starts
    bench.paths = Paths(all=found, search=open_search(bench.game.memory, "i32"), found_in=run, seen_in=run)
    bench.say(
        f"{len(found)} pointer paths lead to tick counters; most are accidents. To prove one, type replay, which "
        f"restarts the game and repeats your keys, and tick again with the same name",
        style="yellow",
    )
    return to_counter[0] if to_counter else found[0]


def _write_frame_period(bench: Workbench, name: str) -> None:
    """Write the time between two frames, of a game without a tick counter. Raises `ScanError` for irregular frames."""
    program = next(regions for _, regions in _places(bench))
    period_s = _search(bench, "i32").frame_period_s(program)
    if period_s is None:
        raise ScanError(
            "no tick counter was found, and the game has no frames at regular intervals: in this state it stands, or "
            "it moves by the time that has passed. Lead it into play and type tick again. If it moves by the time that "
            "has passed, every length of a step is exact: leave clock.tick_hz out and set env.step_s"
        )
    exact_s = exact_period_s(period_s, FRAME_TOLERANCE_S)
    _write(bench, name, _clock_values(exact_s, "auto"))
    bench.say(
        f"no tick counter was found. Memory changes every {exact_s * 1e3:.4g} ms, so tick_hz = {1 / exact_s:.6g} is "
        f"written, without a tick_attribute",
        style="yellow",
    )


def _clock_values(period_s: float, boundary: Boundary) -> dict[str, object]:
    """Return the values of ``[clock]``; None for values to remove."""
    tick_hz = 1 / period_s
    nearest = round(tick_hz)
    return {
        "grade": "lockstep",
        "tick_hz": nearest if abs(tick_hz - nearest) < 1e-9 else tick_hz,
        "boundary": None if boundary == "auto" else boundary,
    }


TICKS = (Command("tick [NAME]", "find the length of a tick and its counter, try and write [clock]", (0, 1), _tick),)
