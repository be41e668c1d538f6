import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.learn.actors import episode_window as episodes
from soulslab.learn.ppo.episode_tracker import WINDOW
from soulslab.learn.rainbow.rainbow_settings import RainbowRunSettings, RainbowSettings
from soulslab.learn.settings import RunSettings, TrainSettings
from soulslab.learn.telemetry import Evaluated, TrainFinished, TrainProgress
from soulslab.learn.tuning.settings import StudySettings
from soulslab.learn.tuning.trial import RunValue, is_maximised, run_settings

TOTAL = 1000
PPO = TrainSettings(run=RunSettings(total_steps=TOTAL, max_seconds=10.0))
RAINBOW = RainbowSettings(run=RainbowRunSettings(total_steps=TOTAL, evaluate_every=100))
SILENT = RainbowSettings(run=RainbowRunSettings(total_steps=TOTAL, evaluate_every=0))


def progress(env_steps, win_rate, *, n_fights=WINDOW, seconds=0.0, mean_return=0.5):
    return TrainProgress(
        env_steps=env_steps,
        total_steps=TOTAL,
        seconds=seconds,
        steps_per_second=1.0,
        n_fights=n_fights,
        win_rate=win_rate,
        mean_return=mean_return,
        mean_decisions=10.0 if mean_return is not None else None,
    )


def evaluated(env_steps, win_rate):
    return Evaluated(env_steps=env_steps, n_fights=200, mean_return=-0.5, win_rate=win_rate, low=None, high=None)


def judged(objective, messages, settings=PPO, **study):
    measure = RunValue(settings, StudySettings(objective=objective, **study))
    for message in messages:
        measure.take(message)
    return measure


def test_win_rate_is_the_mean_of_the_last_measurements():
    messages = [progress(100 * i, rate) for i, rate in enumerate([0.9, 0.2, 0.4])]
    assert judged("win_rate", messages, window=2).value == pytest.approx(0.3)
    assert judged("return", messages, window=2).value == pytest.approx(0.5)


def test_a_run_that_evaluates_is_judged_by_that_alone():
    messages = [progress(100, 0.9), evaluated(200, 0.1), progress(300, 0.8), evaluated(400, 0.3)]
    assert judged("win_rate", messages, RAINBOW).value == pytest.approx(0.2)
    assert judged("return", messages, RAINBOW).value == pytest.approx(-0.5)
    assert judged("win_rate", messages, SILENT).value == pytest.approx(0.85)


def test_nothing_is_judged_by_nothing():
    ended = TrainFinished(env_steps=10, seconds=1.0, reason="completed")
    for objective in ("win_rate", "return", "decisions_to_50"):
        assert judged(objective, [progress(10, None, mean_return=None), ended]).value is None
    assert judged("win_rate", [progress(10, None)]).value is None
    assert judged("return", [progress(10, None)]).value == 0.5


def test_decisions_count_until_the_level_is_first_reached():
    messages = [progress(300, 0.4), progress(400, 0.6), progress(500, 0.3), progress(600, 0.9)]
    assert judged("decisions_to_50", messages).value == 400.0
    assert judged("decisions_to_80", messages).value == 600.0
    assert judged("decisions_to_50", [progress(1234, 0.5)]).value == TOTAL  # the last update went beyond the end


def test_a_level_reached_over_a_few_fights_is_luck():
    messages = [progress(300, 1.0, n_fights=WINDOW - 1), progress(400, 0.4)]
    assert judged("decisions_to_50", messages).value == pytest.approx(TOTAL * (2.0 - 0.8))


def test_a_level_counts_after_the_window_of_the_learner_is_full():
    """A run ends when its own window is full, so a second window would never be filled."""
    reached = [progress(300, 0.6, n_fights=episodes.WINDOW)]
    assert judged("decisions_to_50", reached, SILENT).value == 300.0
    early = [progress(300, 0.6, n_fights=episodes.WINDOW - 1)]
    assert judged("decisions_to_50", early, SILENT).value > TOTAL
    assert judged("decisions_to_50", reached, PPO).value > TOTAL


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9),
    st.sampled_from(["decisions_to_50", "decisions_to_80"]),
)
def test_whoever_reached_the_level_beats_whoever_did_not_and_these_are_ordered_by_their_best(first, second, objective):
    level = {"decisions_to_50": 0.5, "decisions_to_80": 0.8}[objective]
    runs = []
    for rates in (first, second):
        value = judged(objective, [progress(100 * (i + 1), rate) for i, rate in enumerate(rates)]).value
        assert 0 < value <= 2 * TOTAL
        assert (value <= TOTAL) == (max(rates) >= level)
        runs.append((max(rates), value))
    (low, value_of_low), (high, value_of_high) = sorted(runs)
    if low < level:
        assert value_of_high <= value_of_low
    if high >= level > low:
        assert value_of_high < value_of_low


def test_the_share_of_a_run_is_that_of_its_decisions_or_of_its_time():
    assert judged("win_rate", []).share == 0.0
    assert judged("win_rate", [progress(250, 0.1, seconds=1.0)]).share == 0.25
    assert judged("win_rate", [progress(250, 0.1, seconds=4.0)]).share == 0.4
    assert judged("win_rate", [progress(5000, 0.1)]).share == 1.0


def test_a_run_ends_where_its_goal_is_reached():
    assert run_settings(PPO, "win_rate") == PPO
    assert run_settings(RAINBOW, "decisions_to_80").run.stop_win_rate == 0.8
    assert is_maximised("return")
    assert not is_maximised("decisions_to_50")
