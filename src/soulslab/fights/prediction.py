"""Prediction of the win rate of a policy against the true boss, from recordings alone.

An ensemble of bosses stands for what the recordings leave open: each is fitted to all fights but one, and its numbers
are drawn from the intervals of that fit. The policy fights each of them. (Samples with replacement show a third less of
the boss: the fits to them were worse than the fit to all fights, and the predictions too low.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import Boss, Ground
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.known_numbers import known_interval
from soulslab.arena.fitting.recorded_fight import RecordedFight
from soulslab.arena.knight_file import load_knight
from soulslab.arena.uncertainty import LEVEL, draw_boss, load_uncertainty, uncertainty_path
from soulslab.arena.uncertainty import Interval as KnownInterval
from soulslab.config.writing import dump_settings
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import BossFileError, ConfigError, FitError
from soulslab.learn.evaluate import Evaluation, EvaluationSettings, Interval, evaluate
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


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Win rates against the bosses of the ensemble, 0..1.

    Attributes:
        win_rates: One for each boss.
        against_fit: 95 % interval of the win rate against the boss fitted to all recordings.
    """

    win_rates: tuple[float, ...]
    against_fit: Interval

    @property
    def win_rate(self) -> float:
        """Mean of the win rates."""
        return float(np.mean(self.win_rates))

    @property
    def interval(self) -> Interval:
        """90 % interval of the win rate against the true boss.

        The true boss is treated as one more draw of the ensemble. With 20 win rates the ends are close to the least and
        the greatest of them. With fewer than 19 they are these two, and the interval contains less than 90 %.

        The upper end is at least that of `against_fit`, so it is often close to 1. The policy was trained with numbers
        near those of the fit. Numbers that are drawn from all of their intervals are farther from the fit, on average,
        than the true ones, so that the win rates of the ensemble were too low.
        """
        low, high = np.quantile(self.win_rates, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), method="weibull")
        return Interval(float(low), max(float(high), self.against_fit.high))


def trained_facts(trained: Mapping[str, Any], run: Path) -> tuple[Ground, dict[str, KnownInterval]]:
    """Return the ground of the boss of a training in the simulator, and its numbers that were known before the fit.

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
            f"was trained against the boss file {name}, whose ground is needed: {error}; give the command in the "
            "folder in which the run was trained, or put the file there",
            source=run,
        ) from error
    path = uncertainty_path(Path(name))
    is_fitted = Path(name).suffix == ".toml" and path.exists()
    known = load_uncertainty(path, boss).known if is_fitted else {}
    for place, interval in known.items():
        try:
            known_interval(place, list(interval))
        except ValueError as problem:
            raise BossFileError(str(problem), path=f"known.{place}", source=path) from problem
    return boss.ground, known


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
    against_fit = _fought(player, fit_boss(fights, knight, ground=ground, known=known).boss, settings)
    rates = []
    for number in range(settings.n_bosses):
        kept = [fight for i, fight in enumerate(fights) if i != number % len(fights)]
        try:
            fit = fit_boss(kept, knight, ground=ground, known=known)
        except FitError:  # the others are too short
            fit = fit_boss(fights, knight, ground=ground, known=known)
        rates.append(_fought(player, draw_boss(fit.boss, fit.uncertainty, rng), settings).win_rate or 0.0)
    return Prediction(win_rates=tuple(rates), against_fit=against_fit.interval or Interval(0.0, 1.0))


def _fought(player: Player, boss: Boss, settings: PredictionSettings) -> Evaluation:
    """Evaluate a policy against a boss."""
    with TemporaryDirectory(prefix="soulslab-predict-") as folder:
        path = Path(folder) / "boss.toml"
        path.write_text(dump_settings(boss), encoding="utf-8")
        fights = EvaluationSettings(
            env_id=ARENA_ID,
            env_options={**settings.env_options, "boss": str(path)},
            n_fights=settings.n_fights,
            seed=settings.seed,
        )
        return evaluate(player, fights)
