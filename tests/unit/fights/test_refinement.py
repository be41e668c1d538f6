"""Refinement of a policy by its own fights, and the prediction of its wins; with real fits and short trainings."""

import signal

import gymnasium
import msgspec
import numpy as np
import pytest

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.recorded_fight import read_fights, save_fight
from soulslab.arena.fitting.simulated import record_simulated
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.arena.uncertainty import load_uncertainty, uncertainty_path
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import ConfigError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.fights.fit_recordings import write_fit
from soulslab.fights.prediction import PredictionSettings, predict
from soulslab.fights.refinement import RefineSettings, best_round, record_duel, refine
from soulslab.learn.players import load_player
from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, RunSettings, TrainSettings
from soulslab.learn.train import train
from soulslab.learn.training import load_run_settings
from support.message_sink import SignalSink

FIGHTS = {"random_pose": True, "skip_locked": True, "observation": "relative"}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with the recording of three minutes, the boss that was fitted to it, and a run of a second."""
    folder = tmp_path_factory.mktemp("fitted")
    boss, probe = find_boss("trickster"), ProbePlayer(1, 1)
    for fight in record_simulated(boss, lambda _: probe, seed=1, minutes=3.0):
        save_fight(folder / "seen", fight)
    write_fit(fit_boss(read_fights(folder / "seen"), load_knight(), ground=boss.ground), folder / "mine.toml")
    options = {**FIGHTS, "boss": str(folder / "mine.toml"), "boss_intervals": [0.0, 1.0]}
    settings = TrainSettings(
        env=EnvSettings(n_envs=8, options=options),
        learner=PPOSettings(n_steps=8, n_epochs=1, minibatch_size=32),
        network=NetworkSettings(widths=(8,)),
        run=RunSettings(total_steps=1000),
    )
    train(settings, folder / "run")
    return folder


def settings(**changes):
    options = {**FIGHTS, "boss": "trickster", **changes.pop("options", {})}
    return RefineSettings(env_id=ARENA_ID, env_options=options, n_fights=2, decisions=1000, **changes)


def test_each_round_records_fits_and_trains_on(fitted, tmp_path):
    out = tmp_path / "rounds"
    rounds = list(refine(fitted / "run", [fitted / "seen"], out, settings()))
    # An untrained policy wins no fight, so the wins do not rise.
    assert [(each.number, each.n_wins, each.n_fights) for each in rounds] == [(1, 0, 2), (2, 0, 2)]
    assert [each.run for each in rounds] == [fitted / "run", out / "round_1" / "run"]
    assert best_round(rounds).run == fitted / "run"
    assert all(0.0 <= each.interval.low <= each.interval.high <= 1.0 for each in rounds)
    first, second = (read_fights(out / f"round_{n}" / "recording") for n in (1, 2))
    assert rounds[0].game_time_s == pytest.approx(sum(fight.game_time_s for fight in first))
    assert not np.array_equal(first[0].moments, second[0].moments)
    for fight in first:
        np.testing.assert_array_equal(np.diff(fight.moments["tick"]), 6)
        assert fight.player == "policy"
    boss = find_boss(out / "round_1" / "boss.toml")
    assert boss.ground == find_boss("trickster").ground
    n_fights = len(read_fights(fitted / "seen")) + len(first)
    assert load_uncertainty(uncertainty_path(out / "round_1" / "boss.toml"), boss).n_fights == n_fights
    trained = load_run_settings(out / "round_1" / "run" / "config.toml")
    assert trained.env.options["boss_intervals"] == [1.0, 1.0]
    assert trained.run.start_from == str(fitted / "run")
    assert trained.learner.lr == pytest.approx(0.2 * PPOSettings().lr)
    assert not (out / "round_2" / "run").exists()


def test_a_signal_during_a_training_ends_the_refinement(fitted, tmp_path):
    sinks = [SignalSink(signal.SIGTERM)]
    rounds = refine(fitted / "run", [fitted / "seen"], tmp_path / "rounds", settings(), lambda _: sinks)
    assert next(rounds).number == 1
    with pytest.raises(KeyboardInterrupt):
        next(rounds)


def test_a_last_round_does_not_train(fitted, tmp_path):
    assert len(list(refine(fitted / "run", [fitted / "seen"], tmp_path / "rounds", settings(max_rounds=1)))) == 1
    assert [path.name for path in (tmp_path / "rounds" / "round_1").iterdir()] == ["recording"]


def test_only_a_run_against_a_fitted_boss_is_refined(fitted, tmp_path):
    config = load_run_settings(fitted / "run" / "config.toml")
    plain = msgspec.structs.replace(config, env=EnvSettings(n_envs=8, options={"boss": "judge"}))
    train(plain, tmp_path / "plain")
    with pytest.raises(ConfigError, match=r"not a run of fitted\.toml"):
        next(refine(tmp_path / "plain", [fitted / "seen"], tmp_path / "rounds", settings()))
    with pytest.raises(ConfigError, match="already exists"):
        next(refine(fitted / "run", [fitted / "seen"], tmp_path, settings()))


def test_only_duels_with_the_inputs_of_the_policy_are_recorded(fitted):
    player = load_player(fitted / "run")
    with pytest.raises(EnvironmentUsageError, match="only duels"):
        record_duel(gymnasium.make("CartPole-v1"), player, 1, "CartPole-v1")
    with pytest.raises(IncompatibleCheckpointError):
        record_duel(gymnasium.make(ARENA_ID, observation="features"), player, 1, ARENA_ID)


def test_a_prediction_is_made_from_the_recordings_alone(fitted):
    player, fights = load_player(fitted / "run"), read_fights(fitted / "seen")
    settings = PredictionSettings(env_options=FIGHTS, n_bosses=3, n_fights=4, seed=2)
    first, again = (predict(player, fights, settings) for _ in range(2))
    assert first == again
    assert len(first.win_rates) == 3
    assert first.interval.low <= first.win_rate <= first.interval.high
    one = predict(player, fights[:1], PredictionSettings(env_options=FIGHTS, n_bosses=1, n_fights=4))
    assert one.interval == (one.win_rate, one.win_rate)
