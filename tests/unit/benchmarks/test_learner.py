"""The benchmark of learners: targets and measured values."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from benchmarks import learner
from benchmarks.learner import (
    LearnerBenchSettings,
    compare_decisions,
    measure_learner,
    ratio_of,
    record_fights,
    slowest,
)
from benchmarks.learner_recipes import OURS, PUBLISHED, SHOWN
from benchmarks.learner_run import MOST, LearnerRun, Point
from benchmarks.result import MoreThan, as_rows
from soulslab.config import load_settings
from soulslab.errors import ConfigError, MissingDependencyError
from soulslab.learn.configs import config_path
from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import EnvSettings


def make_run(half=None, most=None, n_decisions=600):
    points = [
        Point(decisions=n, win_rate=rate, mean_return=0.0, seconds=1.0) for n, rate in ((half, 0.5), (most, 0.8)) if n
    ]
    return LearnerRun(n_decisions=n_decisions, points=tuple(points))


def targets(runs):
    return [(row["measured"], row["reached"]) for row in compare_decisions(runs)]


def test_targets_are_met():
    runs = {
        OURS: [make_run(20_000), make_run(40_000)],
        SHOWN: [make_run(9000, 30_000)] * 2,
        PUBLISHED: [make_run(150_000)],
    }
    runs["peer"] = [make_run(n_decisions=200_000)] * 2
    rows = compare_decisions(runs)
    assert [row["measured"] for row in rows] == [5.0, 30_000, 40_000, 9000, 30_000]
    assert all(row["reached"] is True for row in rows)
    assert PUBLISHED in rows[0]["what"]


def test_targets_are_missed():
    runs = {OURS: [make_run(30_000), make_run(50_000)], SHOWN: [make_run(11_000)] * 2, "peer": [make_run(100_000)] * 2}
    assert targets(runs)[:4] == [(2.5, False), (40_000, False), (50_000, False), (11_000, False)]


def test_lower_bounds_show_that_a_target_is_missed_but_not_that_it_is_met():
    runs = {OURS: [make_run(n_decisions=20_000)], "peer": [make_run(100)]}
    assert targets(runs) == [(None, None), (MoreThan(20_000), None), (MoreThan(20_000), None)]
    runs = {OURS: [make_run(50)], "peer": [make_run(n_decisions=150)]}
    assert targets(runs)[0] == (MoreThan(3.0), None)
    runs = {OURS: [make_run(50)], "peer": [make_run(n_decisions=300)]}
    assert targets(runs)[0] == (MoreThan(6.0), True)
    assert targets({OURS: [make_run(n_decisions=60_000)]}) == [(MoreThan(60_000), False)] * 2


def test_ratios():
    assert ratio_of(6.0, 3.0) == 2.0
    assert ratio_of(MoreThan(6.0), 3.0) == MoreThan(2.0)
    assert ratio_of(6.0, MoreThan(3.0)) is None
    assert slowest([make_run(1, 30), make_run(1, 20)], MOST) == 30


def test_recorded_fights_are_recorded_once(tmp_path, monkeypatch):
    env = EnvSettings(n_envs=1, options={"skip_locked": True, "random_pose": True})
    folder = record_fights(env, tmp_path)
    description = describe(folder)
    assert description.n_episodes == 20
    description.check_env(env.id, env.options)
    before = folder.stat().st_mtime_ns
    (tmp_path / f"{folder.name}.part").mkdir()  # as an interrupted one leaves behind
    assert record_fights(env, tmp_path) == folder
    assert folder.stat().st_mtime_ns == before
    monkeypatch.chdir(tmp_path)
    assert record_fights(env, Path()) == folder
    other = record_fights(msgspec.structs.replace(env, options={"skip_locked": True}), Path("elsewhere"))
    assert other.parent == tmp_path / "elsewhere"
    assert describe(other).n_episodes == 20


@pytest.mark.long
def test_measures_all_learners(tmp_path, monkeypatch):
    # One of each kind: what each of them does alone is tested beside `play`.
    some = (OURS, PUBLISHED, "SB3 DQN, defaults")
    all_of_them = learner.contestants
    monkeypatch.setattr(
        learner, "contestants", lambda *args, **more: [t for t in all_of_them(*args, **more) if t.name in some]
    )
    config = load_settings(RainbowSettings, config_path("rainbow.toml"))
    network = replace(config.network, widths=(8,), n_quantiles=2)
    settings = replace(LearnerBenchSettings(config=replace(config, network=network)).quick(), folder=tmp_path)
    results = measure_learner(settings)
    learners, last, speeds, reached, runs = results
    assert len(learners.rows) == len(last.rows) == len(runs.rows) == 3
    assert len(speeds.rows) == 5
    assert [set(row) for row in reached.rows] == [{"what", "measured", "to reach", "reached"}] * 6
    assert as_rows(results)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    # The second time all is there already.
    again, _, reached, runs = measure_learner(replace(settings, only=OURS))
    assert again.rows == learners.rows[:1]
    assert (len(reached.rows), len(runs.rows)) == (2, 1)


def test_a_learner_that_does_not_exist_is_reported_before_the_runs(tmp_path):
    config = load_settings(RainbowSettings, config_path("rainbow.toml"))
    with pytest.raises(ConfigError, match=r"no learner is called 'rainbow'; there are .*soulslab, 20 recorded fights"):
        measure_learner(LearnerBenchSettings(config=config, folder=tmp_path, only="rainbow"))


def test_a_missing_peer_is_reported_before_the_runs(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "benchmarks.updates", None)
    settings = LearnerBenchSettings(config=RainbowSettings(), folder=tmp_path)
    with pytest.raises(MissingDependencyError, match=r"soulslab\[peers\]"):
        measure_learner(settings)
    assert list(tmp_path.iterdir()) == []
