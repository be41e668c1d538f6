"""``python -m benchmarks prediction``: calibrate predicted win rates, and count those that hold.

The results of the benchmark ``fit-training`` contain the wins against the ensemble that a recording allows, and against
the true boss. Trainings with some seeds determine the calibration; those with later seeds show how often its interval
contains the true win rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from benchmarks.fit_training import ENSEMBLE_WON, WON
from benchmarks.result import Result, Row
from soulslab.arena.uncertainty import LEVEL
from soulslab.errors import ConfigError
from soulslab.fights.prediction import Calibration, calibrated, log_odds

CALIBRATION_SEEDS: Final = range(16_000_000, 20_000_001)
"""Seeds of the trainings that determine the calibration; greater ones show how often it holds."""

_MIN_TRAININGS: Final = 20


class PredictionResultSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the calibration.

    Attributes:
        results: Folder with the JSON files of the benchmark ``fit-training``, ``fit-*.json``.
    """

    results: Path = Path("docs/results")


class Training(NamedTuple):
    """A training on a fitted boss.

    Attributes:
        what: Boss, held-out rules, player and length of the recording, and seed.
        seed: Seed.
        recorded: Player of the recording.
        ensemble_rate: Mean win rate against the ensemble, 0..1.
        true_rate: Win rate against the true boss, 0..1.
    """

    what: tuple[Any, ...]
    seed: int
    recorded: str
    ensemble_rate: float
    true_rate: float


def measure_prediction(settings: PredictionResultSettings) -> list[Result]:
    """Return the calibration, and how often its intervals contain the win rate against the true boss.

    Raises:
        ConfigError: A file is not a result of the benchmark, or there are too few trainings.
    """
    trainings = read_trainings(settings.results)
    chosen = [each for each in trainings if each.seed in CALIBRATION_SEEDS]
    later = [each for each in trainings if each.seed > CALIBRATION_SEEDS[-1]]
    if len(chosen) < _MIN_TRAININGS or not later:
        raise ConfigError(
            f"has {len(chosen)} trainings with the seeds of the calibration and {len(later)} with later ones, but "
            f"{_MIN_TRAININGS} and 1 are needed",
            source=settings.results,
        )
    found = calibrate(chosen)
    sets = {"its own": chosen, "later": later}
    sets |= {
        f"later, {player}": [each for each in later if each.recorded == player] for player in ("probe", "reference")
    }
    return [
        Result(title=f"calibration with {len(chosen)} trainings, in log-odds", rows=[dict(found._asdict())]),
        Result(
            title=f"{100 * LEVEL:.0f} % intervals of the win rate against the true boss",
            rows=[_row(name, each, found) for name, each in sets.items() if each],
        ),
    ]


def read_trainings(folder: Path) -> list[Training]:
    """Return the trainings on fitted bosses in the JSON files of a folder, from the first seed of the calibration on.

    Raises:
        ConfigError: A file cannot be read, or is not a result of the benchmark ``fit-training``.
    """
    trainings: dict[tuple[Any, ...], Training] = {}
    for path in sorted(folder.glob("fit-*.json")):
        try:
            rows: list[dict[str, Any]] = msgspec.json.decode(path.read_bytes())
            for row in rows:
                # Earlier fits were worse.
                if row.get(ENSEMBLE_WON) is not None and row["seed"] >= CALIBRATION_SEEDS[0]:
                    what = tuple(row[name] for name in ("boss", "held-out rules", "recorded", "seed", "decisions"))
                    rates = row[ENSEMBLE_WON] / 100, row[f"{WON} (%)"] / 100
                    trainings[what] = Training(what, row["seed"], row["recorded"], *rates)
        except (OSError, msgspec.DecodeError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(f"is not a result of the benchmark fit-training: {error}", source=path) from error
    return list(trainings.values())


def calibrate(trainings: Sequence[Training]) -> Calibration:
    """Return the regression of the log-odds of the true win rates on those against the ensembles."""
    ensemble = np.array([log_odds(each.ensemble_rate) for each in trainings])
    true = np.array([log_odds(each.true_rate) for each in trainings])
    slope, offset = np.polyfit(ensemble, true, 1)
    residuals = true - (offset + slope * ensemble)
    low, high = np.quantile(residuals, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), method="weibull")
    least = min(each.ensemble_rate for each in trainings)
    return Calibration(*(round(float(number), 2) for number in (offset, slope, low, high, least)))


def _row(name: str, trainings: Sequence[Training], calibration: Calibration) -> Row:
    """Return how many of the intervals hold, and how wide they are."""
    found = [calibrated(each.ensemble_rate, calibration) for each in trainings]
    true = [each.true_rate for each in trainings]
    n_held = sum(each.interval.low <= rate <= each.interval.high for each, rate in zip(found, true, strict=True))
    return {
        "trainings": name,
        "number": len(trainings),
        "within the interval": n_held,
        "share (%)": 100 * n_held / len(trainings),
        "width (points, mean)": 100 * float(np.mean([each.interval.high - each.interval.low for each in found])),
        "expected (%, mean)": 100 * float(np.mean([each.win_rate for each in found])),
        "won (%, mean)": 100 * float(np.mean(true)),
    }
