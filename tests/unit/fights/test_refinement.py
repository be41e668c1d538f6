"""Refinement of a policy by its own fights, and the prediction of its wins; with real fits and short trainings."""

import math
import shutil
import signal
from itertools import pairwise

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
from soulslab.config.writing import dump_settings
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import BossFileError, ConfigError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.fights import refinement
from soulslab.fights.fit_recordings import read_recorded_fights, write_fit
from soulslab.fights.prediction import Calibration, Prediction, PredictionSettings, calibrated, predict, trained_facts
from soulslab.fights.recording import FightRecorder
from soulslab.fights.refinement import RefineSettings, record_duel, refine
from soulslab.learn.players import load_player
from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, RunSettings, TrainSettings
from soulslab.learn.telemetry import TrainStarted
from soulslab.learn.train import train
from soulslab.learn.training import load_run_settings
from support.message_sink import SignalSink

#: Not the true number, so that a later fit can only have it from the uncertainty file of the training.
KNOWN = {"poise": (77.0, 77.0)}
FIGHTS = {"random_pose": True, "skip_locked": True, "observation": "relative"}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with the recording of three minutes, the boss that was fitted to it, and two runs of a second."""
    folder = tmp_path_factory.mktemp("fitted")
    boss, probe = find_boss("trickster"), ProbePlayer(1, 1)
    for fight in record_simulated(boss, lambda _: probe, seed=1, minutes=3.0):
        save_fight(folder / "seen", fight)
    fit = fit_boss(read_fights(folder / "seen"), load_knight(), ground=boss.ground, known=KNOWN)
    write_fit(fit, folder / "mine.toml")
    options = {**FIGHTS, "boss": str(folder / "mine.toml"), "boss_intervals": [0.0, 1.0]}
    settings = TrainSettings(
        env=EnvSettings(n_envs=8, options=options),
        learner=PPOSettings(n_steps=8, n_epochs=1, minibatch_size=32),
        network=NetworkSettings(widths=(8,)),
        run=RunSettings(total_steps=1000),
    )
    train(settings, folder / "run")
    strong = {"network": NetworkSettings(shared=True), "run": RunSettings(total_steps=1000, start_from="generated")}
    train(msgspec.structs.replace(settings, **strong), folder / "strong")
    return folder


def settings(**changes):
    given = {"env_options": {**FIGHTS, "boss": "trickster"}, "minutes": 0.3, "max_rounds": 2, "decisions": 1000}
    return RefineSettings(env_id=ARENA_ID, **(given | changes))


def weak_boss(file, hp):
    """Write a file of the same boss with less health; return the options of its fights."""
    file.write_text(dump_settings(msgspec.structs.replace(find_boss("trickster"), hp=hp)))
    return {**FIGHTS, "boss": str(file)}


@pytest.fixture(scope="module")
def whole(fitted):
    """The folder of a refinement that was not interrupted, its settings, its rounds, and their recordings.

    The run that starts from a policy wins some of the fights.
    """
    chosen = settings(env_options=weak_boss(fitted / "weak.toml", 700), minutes=3.0, max_rounds=2)
    out = fitted / "whole"
    rounds = list(refine(fitted / "strong", [fitted / "seen"], out, chosen))
    assert len(rounds) == 2
    return out, chosen, rounds, [read_fights(out / f"round_{n}" / "recording") for n in (1, 2)]


def check_same(fitted, whole, out, rounds):
    """Check that a continued refinement has the fights of the one that was not interrupted."""
    _, _, expected, recordings = whole
    assert [(each.number, each.n_wins, each.game_time_s) for each in rounds] == [
        (each.number, each.n_wins, each.game_time_s) for each in expected
    ]
    for number, fights in enumerate(recordings, start=1):
        found = read_fights(out / f"round_{number}" / "recording")
        for fight, other in zip(found, fights, strict=True):
            np.testing.assert_array_equal(fight.moments, other.moments)


def test_an_interrupted_training_ends_the_refinement_which_can_be_continued(fitted, whole, tmp_path):
    out, (_, chosen, expected, _), sink = tmp_path / "rounds", whole, SignalSink(signal.SIGINT)

    def rounds(*, resume, max_rounds=1):
        wanted = msgspec.structs.replace(chosen, max_rounds=max_rounds)
        return refine(fitted / "strong", [fitted / "seen"], out, wanted, lambda _: [sink], resume=resume)

    def started():
        return [(each.is_resumed, each.env_steps) for each in sink.messages if isinstance(each, TrainStarted)]

    stopped = rounds(resume=False)
    assert next(stopped).number == 1
    with pytest.raises(KeyboardInterrupt):
        next(stopped)
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.suffix in (".npz", ".toml", ".png")}
    del kept[out / "round_1" / "run" / "config.toml"]  # a resumed run writes it again
    (first,) = rounds(resume=True)
    assert load_player(first.refined).header.env_steps >= chosen.decisions
    # A further round is played with the policy of the last one.
    found = list(rounds(resume=True, max_rounds=2))
    check_same(fitted, whole, out, found)
    assert [each.run for each in found] == [fitted / "strong", first.refined]
    assert [each.refined.relative_to(out) for each in found] == [
        each.refined.relative_to(whole[0]) for each in expected
    ]
    (_, n_first), (is_resumed, n_resumed), (_, n_complete), (_, n_second) = started()
    assert (n_first, is_resumed, n_second) == (0, True, 0)
    assert 0 < n_resumed < chosen.decisions <= n_complete
    # Neither the fights nor the fit were repeated, and a complete refinement trains no more.
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in kept.items())
    check_same(fitted, whole, out, list(rounds(resume=True, max_rounds=2)))
    is_resumed, n_resumed = started()[-1]
    assert is_resumed
    assert n_resumed >= chosen.decisions


def test_a_round_of_a_killed_process_is_continued(fitted, whole, tmp_path):
    complete, chosen, _, _ = whole
    out = shutil.copytree(complete, tmp_path / "rounds")
    # The process was killed in the first round, after the outcome of the fourth fight and before its recording.
    recorded = sorted((out / "round_1" / "recording").iterdir())
    assert len(recorded) > 4
    for path in recorded[3:]:
        path.unlink()
    state = msgspec.json.decode((out / "refinement.json").read_bytes())
    state["rounds"] = [state["rounds"][0][:4]]
    (out / "refinement.json").write_bytes(msgspec.json.encode(state))
    for name in ("round_1/boss.toml", "round_1/boss.uncertainty.toml"):
        (out / name).unlink()
    for name in ("round_1/run", "round_2"):
        shutil.rmtree(out / name)
    left = [out / ".refinement.json.4711.tmp", out / "round_1" / "recording" / ".fight_0004.npz.4711.tmp"]
    for path in left:
        path.touch()
    rounds = list(refine(fitted / "strong", [fitted / "seen"], out, chosen, resume=True))
    check_same(fitted, whole, out, rounds)
    assert not any(path.exists() for path in left)


def test_only_the_same_refinement_is_continued(fitted, whole, tmp_path):
    out, chosen, _, _ = whole
    seen, more = [fitted / "seen"], msgspec.structs.replace
    for run, recordings, settings_, words in (
        (fitted / "whole" / "round_1" / "run", seen, chosen, "run = .*, not .*round_1/run"),
        (fitted / "strong", seen * 2, chosen, "recordings = "),
        (fitted / "strong", seen, more(chosen, minutes=7.0), "minutes = 3.0, not 7.0; continue it with"),
        (fitted / "strong", seen, more(chosen, max_rounds=1), "has 2 rounds, more than max_rounds = 1"),
        (fitted / "strong", seen, more(chosen, env_options=FIGHTS), "env_options = "),
    ):
        with pytest.raises(ConfigError, match=words):
            next(refine(run, recordings, out, settings_, resume=True))
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    state = msgspec.json.decode((out / "refinement.json").read_bytes())
    state["settings"] |= {"n_fights": 5}
    (earlier / "refinement.json").write_bytes(msgspec.json.encode(state))
    with pytest.raises(ConfigError, match=r"`n_fights`.*begin a new refinement in another folder"):
        next(refine(fitted / "strong", seen, earlier, chosen, resume=True))
    with pytest.raises(ConfigError, match="holds no refinement to continue; leave out --resume"):
        next(refine(fitted / "strong", seen, tmp_path, chosen, resume=True))


def test_each_round_records_fits_and_trains_on(fitted, tmp_path):
    out = tmp_path / "rounds"
    rounds = list(refine(fitted / "run", [fitted / "seen"], out, settings()))
    assert [(each.number, each.n_wins) for each in rounds] == [(1, 0), (2, 0)]
    runs = [fitted / "run", *(out / f"round_{n}" / "run" for n in (1, 2))]
    assert [(each.run, each.refined) for each in rounds] == list(pairwise(runs))
    assert all(0.0 <= each.interval.low <= each.interval.high <= 1.0 for each in rounds)
    first, second = (read_fights(out / f"round_{n}" / "recording") for n in (1, 2))
    for each, fights in zip(rounds, (first, second), strict=True):
        # A recording ends with the moment before the last decision. The last fight begins within the minutes.
        times_s = [fight.game_time_s + 0.1 for fight in fights]
        assert each.n_fights == len(fights)
        assert each.game_time_s == pytest.approx(sum(times_s))
        assert sum(times_s[:-1]) < 60 * settings().minutes <= sum(times_s)
    assert not np.array_equal(first[0].moments, second[0].moments)
    for fight in first:
        np.testing.assert_array_equal(np.diff(fight.moments["tick"]), 6)
        assert fight.player == "policy"
    n_fights = len(read_fights(fitted / "seen"))
    for number, (start, fights) in enumerate(zip(runs[:-1], (first, second), strict=True), start=1):
        folder = out / f"round_{number}"
        n_fights += len(fights)
        boss = find_boss(folder / "boss.toml")
        assert boss.ground == find_boss("trickster").ground
        uncertainty = load_uncertainty(uncertainty_path(folder / "boss.toml"), boss)
        assert (uncertainty.n_fights, uncertainty.known) == (n_fights, KNOWN)
        used = [fitted / "seen", *(out / f"round_{n}" / "recording" for n in range(1, number + 1))]
        assert uncertainty.recordings == tuple(map(str, used))
        assert boss.poise == 77.0
        trained = load_run_settings(folder / "run" / "config.toml")
        assert trained.env.options["boss"] == str(folder / "boss.toml")
        assert trained.env.options["boss_intervals"] == [1.0, 1.0]
        assert trained.run.start_from == str(start)
        assert trained.learner.lr == pytest.approx(0.2 * PPOSettings().lr)
        assert load_player(folder / "run").header.env_steps >= settings().decisions
    assert not (out / "round_3").exists()


def test_a_policy_that_wins_enough_fights_in_a_row_is_not_trained(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(refinement, "ENOUGH_WON", 4)
    out = tmp_path / "rounds"
    easy = settings(env_options=weak_boss(tmp_path / "weak.toml", 10), max_rounds=9)
    rounds = list(refine(fitted / "strong", [fitted / "seen"], out, easy))
    assert 2 <= len(rounds) < 9
    are_won = [each.n_wins == each.n_fights for each in rounds]
    assert [both for both in pairwise(are_won) if all(both)] == [(True, True)]
    assert are_won[-2:] == [True, True]
    last = out / f"round_{len(rounds)}"
    assert [each.refined == each.run for each in rounds] == [False] * (len(rounds) - 1) + [True]
    assert [path.name for path in last.iterdir()] == ["recording"]


def test_only_a_run_against_a_fitted_boss_is_refined(fitted, tmp_path):
    config = load_run_settings(fitted / "run" / "config.toml")
    plain = msgspec.structs.replace(config, env=EnvSettings(n_envs=8, options={"boss": "judge"}))
    train(plain, tmp_path / "plain")
    with pytest.raises(ConfigError, match=r"not a run of fitted\.toml"):
        next(refine(tmp_path / "plain", [fitted / "seen"], tmp_path / "rounds", settings()))
    elsewhere = msgspec.structs.replace(config, env=EnvSettings(id="CartPole-v1", options=config.env.options))
    (tmp_path / "plain" / "config.toml").write_text(dump_settings(elsewhere))
    with pytest.raises(ConfigError, match=r"not a run of fitted\.toml"):
        next(refine(tmp_path / "plain", [fitted / "seen"], tmp_path / "rounds", settings()))
    with pytest.raises(ConfigError, match="already exists"):
        next(refine(fitted / "run", [fitted / "seen"], tmp_path, settings()))
    for minutes in (0.0, math.nan, 601.0):
        with pytest.raises(ConfigError, match="minutes: must be above 0 and at most 600"):
            next(refine(fitted / "run", [fitted / "seen"], tmp_path / "rounds", settings(minutes=minutes)))


def test_only_duels_with_the_inputs_of_the_policy_are_recorded(fitted):
    player = load_player(fitted / "run")
    with pytest.raises(EnvironmentUsageError, match="only duels"):
        record_duel(gymnasium.make("CartPole-v1"), player, 1, "CartPole-v1")
    with pytest.raises(IncompatibleCheckpointError):
        record_duel(gymnasium.make(ARENA_ID, observation="features"), player, 1, ARENA_ID)


def test_the_data_set_of_a_policy_shows_the_boss_with_any_observation(fitted, tmp_path):
    player, options = load_player(fitted / "run"), {**FIGHTS, "boss": "trickster", "skip_locked": False}
    with FightRecorder(tmp_path / "data", ARENA_ID, options, "policy") as recorder:
        recorder.play(player, 5)
    (found,) = read_recorded_fights([tmp_path / "data"])
    expected, _ = record_duel(gymnasium.make(ARENA_ID, **options), player, 5, ARENA_ID)
    np.testing.assert_array_equal(found.moments, expected.moments)
    assert found.boss_animations == expected.boss_animations


def test_a_prediction_is_calibrated():
    calibration = Calibration(offset=1.0, slope=2.0, low=-1.0, high=1.5, least=0.4)
    half = calibrated(0.5, calibration)
    assert half.win_rate == pytest.approx(1 / (1 + math.exp(-1.0)))
    assert half.interval == (0.5, 0.93)  # 50 and 92.4 %, rounded outwards
    never, seldom = (calibrated(rate, calibration) for rate in (0.0, 0.3))
    assert never.win_rate < seldom.win_rate < half.win_rate
    assert never.interval.low < seldom.interval.low < half.interval.low
    # No training won so little, so the upper end is that of the one that won least.
    assert never.interval.high == seldom.interval.high == calibrated(0.4, calibration).interval.high
    assert calibrated(1.0).interval.high == 1.0
    assert Prediction(win_rates=(0.2, 0.6)).interval == calibrated(0.4).interval


def test_a_prediction_is_made_from_the_recordings_alone(fitted):
    player, fights = load_player(fitted / "run"), read_fights(fitted / "seen")
    settings = PredictionSettings(env_options=FIGHTS, n_bosses=3, n_fights=4, seed=2)
    first, again = (predict(player, fights, settings) for _ in range(2))
    assert first == again
    assert len(first.win_rates) == 3
    assert first.interval.low <= first.win_rate <= first.interval.high
    assert first.ensemble_rate == np.mean(first.win_rates)
    assert (
        len(predict(player, fights[:1], PredictionSettings(env_options=FIGHTS, n_bosses=1, n_fights=4)).win_rates) == 1
    )
    # Without the long fight, there are too few attacks for a fit.
    short = msgspec.structs.replace(fights[1], moments=fights[1].moments[:120])
    assert len(predict(player, [fights[0], short], settings).win_rates) == settings.n_bosses


def test_known_numbers_are_checked_when_they_are_used_again(fitted, tmp_path):
    boss = shutil.copy(fitted / "mine.toml", tmp_path / "mine.toml")
    uncertainty = load_uncertainty(uncertainty_path(fitted / "mine.toml"), find_boss(str(boss)))
    wrong = msgspec.structs.replace(uncertainty, known={"hp": (-5.0, -5.0)})
    uncertainty_path(boss).write_text(dump_settings(wrong), encoding="utf-8")
    with pytest.raises(BossFileError, match=r"known\.hp: must be from"):
        trained_facts({"boss": str(boss)}, fitted / "run")


def test_a_prediction_uses_what_was_known_before_the_fit(fitted):
    options = load_run_settings(fitted / "run" / "config.toml").env.options
    assert trained_facts(options, fitted / "run")[:2] == (find_boss("trickster").ground, KNOWN)
    assert trained_facts({"boss": "judge"}, fitted / "run") == (find_boss("judge").ground, {}, ())
    player, fights = load_player(fitted / "strong"), read_fights(fitted / "seen")
    settings = PredictionSettings(env_options=FIGHTS, n_bosses=1, n_fights=8)
    rates = [
        predict(player, fights, settings, find_boss("trickster").ground, known).ensemble_rate
        for known in ({}, {"hp": (20_000.0, 20_000.0)})
    ]
    assert rates[0] > 0.2
    assert rates[1] == 0.0
