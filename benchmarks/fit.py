"""``python -m benchmarks fit``: how well boss files are fitted to recorded fights, compared with the true boss files.

Development and report use different seeds and different generated bosses; the shipped bosses are in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

import msgspec
import numpy as np

from benchmarks.fit_truth import KINDS, Agreement, Compared, compare
from benchmarks.result import Result, Row
from benchmarks.timing import with_progress
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import Boss, boss_names
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.simulated import Player, record_simulated, thinned
from soulslab.arena.held_out_rules import HeldOutRules
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.arena.records import TICKS_PER_S
from soulslab.arena.reference_player import ReferencePlayer

#: Seeds of the first fight, and generated bosses, by purpose. Results with `generated:1000` to `1209`, `2000` to `2009`
#: and `2200` to `2209` led to changes; those with `2100` to `2109` did not. Fits are reported with 2210 to 2219, whose
#: trainings led to a change of the refinement, and trainings with 2220 to 2229.
SEEDS = {"development": 100, "report": 25_000_000}
GENERATED = {"development": range(10), "report": range(2210, 2230)}


class FitBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        purpose: Which seeds and generated bosses are used.
        n_generated: Generated bosses, in addition to the shipped ones.
        minutes: Game time of the recordings of each boss.
        rates_hz: Rates of the recordings.
        player: ``probe`` or ``reference``.
        has_held_out_rules: Whether the recorded bosses have the held-out rules of the purpose.
    """

    purpose: Literal["development", "report"] = "report"
    n_generated: int = 10
    minutes: float = 20.0
    rates_hz: tuple[int, ...] = (60, 10)
    player: Literal["probe", "reference"] = "probe"
    has_held_out_rules: bool = False

    @property
    def rules(self) -> HeldOutRules:
        """The rules of the recorded fights."""
        return self.purpose if self.has_held_out_rules else "none"

    @classmethod
    def quick(cls) -> FitBenchSettings:
        """Return settings that take some seconds."""
        return cls(n_generated=1, minutes=5.0, rates_hz=(60,))

    def bosses(self) -> list[str]:
        """Return the names of the bosses."""
        generated = GENERATED[self.purpose][: self.n_generated]
        return [*boss_names(), *(f"generated:{seed}" for seed in generated)]


def measure_fits(settings: FitBenchSettings) -> list[Result]:
    """Record, fit and compare every boss at every rate."""
    rows: list[Row] = []
    numbers: dict[int, list[Compared]] = {rate: [] for rate in settings.rates_hz}
    for name, rate in with_progress(list(product(settings.bosses(), settings.rates_hz)), "fitting"):
        agreement = fit_and_compare(find_boss(name), settings, rate)
        numbers[rate] += agreement.numbers
        rows.append({"boss": name, "rate (Hz)": rate, **_row(agreement)})
    rows += [{"boss": "all", "rate (Hz)": rate, **_totals(rows, found, rate)} for rate, found in numbers.items()]
    kinds = [row for rate, found in numbers.items() for row in _by_kind(found, rate)]
    rules = ", held-out rules" if settings.has_held_out_rules else ""
    title = f"{settings.minutes:g} minutes of the {settings.player} player, {settings.purpose} seeds{rules}"
    return [
        Result(title=f"fits of boss files to {title}", rows=rows),
        Result(title="the same by kind of number: share of the intervals that contain the true number", rows=kinds),
    ]


def fit_and_compare(boss: Boss, settings: FitBenchSettings, rate_hz: int) -> Agreement:
    """Record fights, fit a boss to them without its file, and compare."""
    seed = SEEDS[settings.purpose]
    # One player for all fights: the probe learns from each of them.
    player: Player = ProbePlayer(1, seed) if settings.player == "probe" else ReferencePlayer(boss, 1)
    fights = list(
        record_simulated(boss, lambda _: player, seed=seed, minutes=settings.minutes, held_out_rules=settings.rules)
    )
    fights = [thinned(fight, TICKS_PER_S // rate_hz) for fight in fights]
    return compare(fit_boss([fight for fight in fights if len(fight.moments) > 1], load_knight()), boss)


def _row(a: Agreement) -> Row:
    starts = [number.error for number in a.numbers if number.kind == "start_s"]
    damages = [number.error / max(number.true, 1.0) for number in a.numbers if number.kind == "damage"]
    return {
        "attacks": f"{a.n_moves_found} of {a.n_moves}",
        "windows": f"{a.n_windows_found} of {a.n_windows}",
        "false windows": a.n_windows_extra,
        "numbers": len(a.numbers),
        "contained (%)": 100 * a.coverage,
        "error of start (ms)": 1000 * float(np.median(starts)),
        "error of damage (%)": 100 * float(np.median(damages)),
        "kinds right (%)": 100 * a.n_choices_right / max(a.n_choices, 1),
    }


def _totals(rows: Sequence[Row], numbers: Sequence[Compared], rate: int) -> Row:
    """Return the row of all bosses at one rate."""
    own = [row for row in rows if row["rate (Hz)"] == rate]

    def counts(column: str) -> str:
        pairs = [str(row[column]).split(" of ") for row in own]
        return f"{sum(int(one) for one, _ in pairs)} of {sum(int(other) for _, other in pairs)}"

    def mean(column: str) -> float:
        return float(np.mean([float(str(row[column])) for row in own]))

    return {
        "attacks": counts("attacks"),
        "windows": counts("windows"),
        "false windows": sum(int(str(row["false windows"])) for row in own),
        "numbers": len(numbers),
        "contained (%)": 100 * float(np.mean([number.is_covered for number in numbers])),
        "error of start (ms)": mean("error of start (ms)"),
        "error of damage (%)": mean("error of damage (%)"),
        "kinds right (%)": mean("kinds right (%)"),
    }


def _by_kind(numbers: Sequence[Compared], rate: int) -> list[Row]:
    rows: list[Row] = []
    for kind in (*KINDS, "boss"):
        own = [number for number in numbers if number.kind == kind]
        if own:
            rows.append(
                {
                    "number": kind,
                    "rate (Hz)": rate,
                    "numbers": len(own),
                    "contained (%)": 100 * float(np.mean([number.is_covered for number in own])),
                    "median error": float(np.median([number.error for number in own])),
                    "median width": float(np.median([number.high - number.low for number in own])),
                }
            )
    return rows
