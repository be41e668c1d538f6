"""Prediction of the win rate of a policy against the true boss, from recordings alone.

An ensemble of bosses stands for what the recordings leave open: each is fitted to all fights but one, and its numbers
are drawn from the intervals of that fit. The policy fights each of them. (Samples with replacement show a third less of
the boss: the fits to them were worse than the fit to all fights, and the predictions too low.)

Numbers drawn from their intervals are farther from the fit than the true ones, so the policy wins fewer of these fights
than of the true ones. A linear regression of log-odds, over earlier trainings whose true bosses were known, corrects
this; its residuals give the interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import Boss, Ground
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.known_numbers import known_interval
from soulslab.arena.fitting.recorded_fight import RecordedFight
from soulslab.arena.knight_file import load_knight
from soulslab.arena.uncertainty import Interval as KnownInterval
from soulslab.arena.uncertainty import Uncertainty, draw_boss, load_uncertainty, uncertainty_path
from soulslab.config.writing import dump_settings
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import BossFileError, ConfigError, FitError
from soulslab.learn.evaluate import EvaluationSettings, Interval, evaluate
from soulslab.learn.policy_header import Player


class PredictionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a prediction.

    Attributes:
        env_options: Options of the fights in the simulator, without a boss.
        n_bosses: Bosses of the ensemble.
        n_fights: Fights with each of them.
        seed: Seed of the drawn numbers and the fights.
    """

    env_options: dict[str, Any] = {}
    n_bosses: int = 20
    n_fights: int = 100
    seed: int = 0


class Calibration(NamedTuple):
    """Relation between the wins against ensembles and against the true bosses.

    The log-odds of the expected win rate are ``offset + slope * x``, where x are the log-odds of the mean win rate
    against the ensemble.

    Attributes:
        offset: Log-odds of the expected win rate if half of the fights against the ensemble are won.
        slope: Change of the log-odds with those of the mean win rate against the ensemble.
        low: Lower end of the 90 % interval of the residuals, in log-odds.
        high: Upper end.
        least: Least mean win rate against an ensemble in the trainings, 0..1. With fewer wins the upper end of the
            prediction does not decrease further.
    """

    offset: float
    slope: float
    low: float
    high: float
    least: float


CALIBRATION: Final = Calibration(offset=1.39, slope=1.01, low=-1.96, high=2.11, least=0.19)
"""The calibration that ``python -m benchmarks prediction`` prints, from 46 trainings against built-in and generated
bosses, some of them with held-out rules."""

_LEAST_RATE: Final = 0.005
"""Win rates in log-odds are at least this far from 0 and 1: half a fight in a hundred."""


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Win rates against the bosses of the ensemble, 0..1.

    Attributes:
        win_rates: One for each boss.
    """

    win_rates: tuple[float, ...]

    @property
    def ensemble_rate(self) -> float:
        """Mean win rate against the bosses of the ensemble, 0..1."""
        return float(np.mean(self.win_rates))

    @property
    def win_rate(self) -> float:
        """Expected win rate against the true boss, 0..1."""
        return calibrated(self.ensemble_rate).win_rate

    @property
    def interval(self) -> Interval:
        """90 % interval of the win rate against the true boss, rounded outwards to whole percents."""
        return calibrated(self.ensemble_rate).interval


class Calibrated(NamedTuple):
    """Expected win rate against the true boss, and its 90 % interval, 0..1."""

    win_rate: float
    interval: Interval


def calibrated(ensemble_rate: float, calibration: Calibration = CALIBRATION) -> Calibrated:
    """Return the expected win rate against the true boss from the mean win rate against an ensemble."""
    expected = calibration.offset + calibration.slope * log_odds(ensemble_rate)
    greatest = calibration.offset + calibration.slope * log_odds(max(ensemble_rate, calibration.least))
    low = math.floor(100 * _rate(expected + calibration.low)) / 100
    high = math.ceil(100 * _rate(greatest + calibration.high)) / 100
    return Calibrated(_rate(expected), Interval(low, high))


def log_odds(win_rate: float) -> float:
    """Return the log-odds of a win rate, 0..1; of at least 0.5 and at most 99.5 %."""
    rate = min(max(win_rate, _LEAST_RATE), 1.0 - _LEAST_RATE)
    return math.log(rate / (1.0 - rate))


def _rate(log_odds: float) -> float:
    """Return the win rate of log-odds."""
    return 1.0 / (1.0 + math.exp(-log_odds))


class TrainedFacts(NamedTuple):
    """Facts of the boss of a training in the simulator.

    Attributes:
        ground: Its ground.
        known: Its numbers that were known before the fit.
        recordings: The recordings to which it was fitted; empty if its uncertainty file does not name them.
    """

    ground: Ground
    known: dict[str, KnownInterval]
    recordings: tuple[Path, ...]


def trained_facts(trained: Mapping[str, Any], run: Path) -> TrainedFacts:
    """Return the facts of the boss of a training in the simulator.

    Args:
        trained: The options of the environment of the training.
        run: The run, for messages.

    Raises:
        ConfigError: The boss was a file that cannot be read.
        BossFileError: Its uncertainty file is invalid.
    """
    name = trained.get("boss", "judge")
    try:
        boss = find_boss(name)
    except BossFileError as error:
        raise ConfigError(
            f"was trained against the boss file {name}, whose ground is needed: {error}; put the file there",
            source=run,
        ) from error
    path = uncertainty_path(Path(name))
    is_fitted = Path(name).suffix == ".toml" and path.exists()
    uncertainty = load_uncertainty(path, boss) if is_fitted else Uncertainty(intervals={})
    for place, interval in uncertainty.known.items():
        try:
            known_interval(place, list(interval))
        except ValueError as problem:
            raise BossFileError(str(problem), path=f"known.{place}", source=path) from problem
    return TrainedFacts(boss.ground, uncertainty.known, tuple(map(Path, uncertainty.recordings)))


def predict(
    player: Player,
    fights: Sequence[RecordedFight],
    settings: PredictionSettings,
    ground: Ground | None = None,
    known: Mapping[str, KnownInterval] = MappingProxyType({}),
) -> Prediction:
    """Predict the win rate of a policy against the boss of some recordings.

    Args:
        player: The policy.
        fights: The recordings.
        settings: Settings.
        ground: The ground, if it is known from elsewhere.
        known: Numbers of the boss that are known from elsewhere.

    Raises `FitError` if the recordings show too few attacks.
    """
    rng = np.random.default_rng(settings.seed)
    knight = load_knight()
    rates = []
    for number in range(settings.n_bosses):
        kept = [fight for i, fight in enumerate(fights) if i != number % len(fights)]
        try:
            fit = fit_boss(kept, knight, ground=ground, known=known)
        except FitError:  # the others are too short
            fit = fit_boss(fights, knight, ground=ground, known=known)
        rates.append(_win_rate(player, draw_boss(fit.boss, fit.uncertainty, rng), settings))
    return Prediction(win_rates=tuple(rates))


def _win_rate(player: Player, boss: Boss, settings: PredictionSettings) -> float:
    """Return the win rate of a policy against a boss, 0..1."""
    with TemporaryDirectory(prefix="soulslab-predict-") as folder:
        path = Path(folder) / "boss.toml"
        path.write_text(dump_settings(boss), encoding="utf-8")
        fights = EvaluationSettings(
            env_id=ARENA_ID,
            env_options={**settings.env_options, "boss": str(path)},
            n_fights=settings.n_fights,
            seed=settings.seed,
        )
        return evaluate(player, fights).win_rate or 0.0
