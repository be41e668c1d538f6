"""Prediction of the win rate of a policy against the true boss, from recordings alone.

An ensemble of bosses stands for what the recordings leave open: each is fitted to a sample of the recorded fights,
drawn with replacement, and its numbers are drawn from the intervals of that fit. The policy fights each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import numpy as np

from soulslab.arena.boss_file import Ground
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.recorded_fight import RecordedFight
from soulslab.arena.knight_file import load_knight
from soulslab.arena.uncertainty import LEVEL, draw_boss
from soulslab.config.writing import dump_settings
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import FitError
from soulslab.learn.evaluate import EvaluationSettings, Interval, evaluate
from soulslab.learn.policy_header import Player

#: Samples of the fights that are drawn again because they show too few attacks, for each boss.
MAX_RETRIES: Final = 20


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Win rates against the bosses of the ensemble, 0..1.

    Attributes:
        win_rates: One for each boss.
    """

    win_rates: tuple[float, ...]

    @property
    def win_rate(self) -> float:
        """Mean of the win rates."""
        return float(np.mean(self.win_rates))

    @property
    def interval(self) -> Interval:
        """90 % interval of the win rate against the true boss."""
        low, high = np.quantile(self.win_rates, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        return Interval(float(low), float(high))


def predict(
    player: Player,
    fights: Sequence[RecordedFight],
    options: Mapping[str, Any],
    *,
    ground: Ground | None = None,
    n_bosses: int = 12,
    n_fights: int = 100,
    seed: int = 0,
) -> Prediction:
    """Predict the win rate of a policy against the boss of some recordings.

    Args:
        player: The policy.
        fights: The recordings.
        options: Options of the fights in the simulator, without a boss.
        ground: The ground, if it is known from elsewhere.
        n_bosses: Bosses of the ensemble.
        n_fights: Fights with each of them.
        seed: Seed of the samples, the drawn numbers and the fights.

    Raises `FitError` if the recordings show too few attacks.
    """
    with TemporaryDirectory(prefix="soulslab-predict-") as folder:
        path = Path(folder) / "boss.toml"
        rates = []
        for text in _ensemble(fights, ground, n_bosses, np.random.default_rng(seed)):
            path.write_text(text, encoding="utf-8")
            settings = EvaluationSettings(
                env_id=ARENA_ID, env_options={**options, "boss": str(path)}, n_fights=n_fights, seed=seed
            )
            rates.append(evaluate(player, settings).win_rate or 0.0)
    return Prediction(win_rates=tuple(rates))


def _ensemble(
    fights: Sequence[RecordedFight], ground: Ground | None, n_bosses: int, rng: np.random.Generator
) -> Iterator[str]:
    """Yield the boss files of the ensemble."""
    knight = load_knight()
    n_left, n_retries = n_bosses, n_bosses * MAX_RETRIES
    while n_left:
        sample = [fights[i] for i in rng.integers(len(fights), size=len(fights))]
        try:
            fit = fit_boss(sample, knight, ground=ground)
        except FitError:
            n_retries -= 1
            if not n_retries:
                raise
            continue
        n_left -= 1
        yield dump_settings(draw_boss(fit.boss, fit.uncertainty, rng))
