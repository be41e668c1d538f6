"""The benchmark of training on bosses that are known only roughly."""

from time import perf_counter

import msgspec
import numpy as np
import pytest
from matplotlib.image import imread

from benchmarks.fit_training import (
    SEEDS,
    SOURCES,
    Case,
    FitTrainingSettings,
    cases,
    distorted,
    known_boss,
    measure_fit_training,
    recorded_fights,
)
from soulslab.arena.boss_file import parse_boss
from soulslab.arena.uncertainty import numbers_of
from soulslab.config import dump_settings
from soulslab.errors import ConfigError
from soulslab.learn.rainbow.rainbow_settings import (
    DemonstrationSettings,
    QLearningSettings,
    QNetworkSettings,
    RainbowSettings,
)
from support.stage import KNOCK_BACKS, shipped


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_a_distorted_copy_is_wrong_within_its_intervals(factor):
    truth = shipped("judge")
    known, uncertainty = distorted(truth, factor, np.random.default_rng(0))
    assert parse_boss(dump_settings(known), "known.toml", KNOCK_BACKS) == known
    true, wrong = dict(numbers_of(truth)), dict(numbers_of(known))
    starts = [place for place in true if place.endswith("start_s")]
    errors = np.array([wrong[place] - true[place] for place in starts])
    assert 0.03 * factor < np.abs(errors).max() <= 0.06 * factor + 0.02
    inside = [low - 0.02 <= true[place] <= high + 0.02 for place, (low, high) in uncertainty.intervals.items()]
    assert np.mean(inside) > 0.97
    assert {place.split(".")[-1].split("[")[0] for place in uncertainty.intervals} >= {"reach_m", "damage", "pause_s"}


def test_development_and_report_have_other_seeds():
    known = {purpose: distorted(shipped("judge"), 1.0, np.random.default_rng(seed)) for purpose, seed in SEEDS.items()}
    assert known["development"] != known["report"]


@pytest.mark.parametrize(("boss", "purpose"), [("generated:2210", "development"), ("generated:2100", "report")])
def test_generated_bosses_are_for_one_purpose(small_config, boss, purpose):
    with pytest.raises(ConfigError, match="generated:2210 to 2229 are for reports alone"):
        cases(FitTrainingSettings(train=small_config, bosses=("judge", boss), purpose=purpose))
    other = "report" if purpose == "development" else "development"
    settings = FitTrainingSettings(train=small_config, bosses=(boss,), purpose=other, sources=("fit",), seed=7)
    assert cases(settings) == [Case(boss, "fit", 20.0, 7)]


def test_a_recording_has_the_rate_of_the_settings(small_config):
    case = Case("judge", "fit", 1.0, 7)
    fast, slow = (recorded_fights(FitTrainingSettings(train=small_config, rate_hz=rate), case) for rate in (60, 10))
    assert [fight.ticks_per_moment for fight in (fast[0], slow[0])] == [1, 6]
    assert len(fast) == len(slow)


def test_a_fit_depends_on_the_recording(small_config):
    def fitted(source="fit", minutes=3.0, **changes):
        """The fit of a short recording with the seed 7, and its intervals."""
        case = Case("judge", source, minutes, 7)
        return known_boss(case, recorded_fights(FitTrainingSettings(train=small_config, **changes), case))

    known, uncertainty = fitted()
    assert known.name != shipped("judge").name
    assert known.ground == shipped("judge").ground
    assert len(uncertainty.intervals) > 50
    others = [fitted("fit, held-out rules", purpose=purpose)[0] for purpose in ("development", "report")]
    assert known not in others
    assert others[0] != others[1]
    short = [fitted(minutes=1.0, player=player)[0].moves for player in ("probe", "reference")]
    assert short[0] != short[1]


def test_only_recordings_have_several_lengths(small_config):
    settings = FitTrainingSettings(
        train=small_config, sources=("1x", "fit", "nothing"), minutes=(20.0, 5.0, 5.0), n_trainings=2
    )
    found = [(case.source, case.minutes, case.seed - SEEDS["report"], case.n_decisions) for case in cases(settings)]
    assert [each for each in found if each[0] == "1x"] == [("1x", 5.0, 0, 3000), ("1x", 5.0, 1000, 3000)]
    for source, factor in (("fit", 1), ("nothing", 2)):
        assert [each[1:] for each in found if each[0] == source] == [
            (5.0, 0, 3000 * factor),
            (5.0, 1000, 3000 * factor),
            (20.0, 0, 12000 * factor),
            (20.0, 1000, 12000 * factor),
        ]


def test_every_row_has_a_training_and_two_evaluations(small_config):
    options = {**small_config.env.options, "boss_intervals": (1.0, 1.0), "latency_ms": (0.0, 120.0)}
    train = msgspec.structs.replace(small_config, env=msgspec.structs.replace(small_config.env, options=options))
    settings = FitTrainingSettings(train=train, sources=SOURCES[:1], n_fights=6, purpose="development")
    (result,) = measure_fit_training(settings)
    assert [(row["known"], row["trained on"]) for row in result.rows] == [("1x", "file"), ("1x", "drawn")]
    for row in result.rows:
        assert row["decisions"] >= train.run.total_steps
        assert row["from (%)"] <= row["won against the true boss (%)"] <= row["to (%)"]
        assert row["loop without the play (min)"] is None  # nothing was fitted


def test_rainbow_learns_in_the_true_fights_with_simulated_ones(small_config):
    rainbow = RainbowSettings(
        env=msgspec.structs.replace(small_config.env, n_envs=1),
        learner=QLearningSettings(batch_size=8, learning_starts=20, updates_per_step=0.1),
        network=QNetworkSettings(widths=(8,)),
        demonstrations=DemonstrationSettings(cloning_updates=2),
    )
    settings = FitTrainingSettings(
        train=small_config, sources=("1x",), uses=("file",), n_fights=2, online_decisions=120, rainbow=rainbow
    )
    (row,) = next(measure_fit_training(settings)).rows
    assert [row[f"online {n} (decisions)"] // 40 for n in (1, 2, 3)] == [1, 2, 3]
    for n in (1, 2, 3):
        assert row[f"online {n} from (%)"] <= row[f"online {n} won (%)"] <= row[f"online {n} to (%)"]


def test_a_policy_learns_from_its_fights_against_the_true_boss(small_config):
    options = {**small_config.env.options, "boss_intervals": (1.0, 1.0)}
    train = msgspec.structs.replace(small_config, env=msgspec.structs.replace(small_config.env, options=options))
    settings = FitTrainingSettings(
        train=train,
        sources=("fit",),
        uses=("drawn",),
        minutes=(1.0,),
        n_fights=4,
        refine_minutes=0.2,
        refine_decisions=200,
    )
    started = perf_counter()
    (row,) = next(measure_fit_training(settings)).rows
    assert row["training (s)"] / 60 < row["loop without the play (min)"] < (perf_counter() - started) / 60
    assert row["played (min)"] > 0.0
    assert row["then from (%)"] <= row["won then (%)"] <= row["then to (%)"]


def test_rainbow_learns_in_the_true_fights_alone_for_comparison(small_config, tmp_path):
    rainbow = RainbowSettings(
        learner=QLearningSettings(batch_size=8, learning_starts=20), network=QNetworkSettings(widths=(8,))
    )
    settings = FitTrainingSettings(
        train=small_config,
        sources=("nothing, held-out rules",),
        minutes=(0.1, 0.2),
        n_fights=2,
        rainbow=rainbow,
        picture=tmp_path / "wins.png",
    )
    (result,) = measure_fit_training(settings)
    for row, n_decisions in zip(result.rows, (120, 240), strict=True):  # in twice as much play
        assert (row["known"], row["held-out rules"]) == ("nothing, held-out rules", "report")
        assert n_decisions <= row["decisions"] < n_decisions + 80
        assert row["from (%)"] <= row["won against the true boss (%)"] <= row["to (%)"]
    assert imread(settings.picture).shape[:2] == (504, 1080)
