import numpy as np

from soulslab.learn.environment import FightNames
from soulslab.learn.ppo.episode_tracker import WINDOW, EpisodeTracker


def play(tracker, n_episodes, won):
    """Finish episodes of two steps in environment 0; environment 1 goes on forever."""
    for _ in range(n_episodes):
        for done in (False, True):
            info = {"final_info": {"fight": {"won": np.array([won, False])}}} if done else {}
            tracker.record(np.array([0.5, 9.0]), np.array([3, 1]), np.array([done, False]), info)


def test_averages_are_over_the_last_episodes():
    tracker = EpisodeTracker(2, 4, FightNames())
    assert (tracker.win_rate, tracker.mean_return, tracker.mean_decisions) == (None, None, None)
    play(tracker, 100, won=False)
    assert (tracker.win_rate, tracker.mean_return, tracker.mean_decisions) == (0.0, 1.0, 6.0)
    assert not tracker.is_full
    play(tracker, WINDOW - 250, won=True)
    play(tracker, 250, won=False)
    assert tracker.is_full
    assert tracker.win_rate == (WINDOW - 250) / WINDOW
    assert tracker.steps.tolist() == [0, 2 * (WINDOW + 100)]


def test_without_word_of_wins_there_is_no_win_rate():
    tracker = EpisodeTracker(1, 4, FightNames())
    tracker.record(np.array([2.0]), np.array([1]), np.array([True]), {"final_info": {}})
    assert tracker.win_rate is None
    assert tracker.mean_return == 2.0


def test_an_episode_that_a_failure_ended_is_neither_won_nor_lost():
    tracker = EpisodeTracker(2, 4, FightNames())
    fight = {"won": np.array([True, False]), "_won": np.array([True, False])}
    info = {"final_info": {"fight": fight, "_fight": np.array([True, False]), "_failure": np.array([False, True])}}
    tracker.record(np.array([1.0, 3.0]), np.array([1, 1]), np.array([True, True]), info)
    assert tracker.win_rate == 1.0
    assert tracker.mean_return == 2.0


def test_state_goes_on_exactly():
    first, second = EpisodeTracker(2, 4, FightNames()), EpisodeTracker(2, 4, FightNames())
    play(first, 30, won=True)
    second.load(first.state())
    for tracker in (first, second):
        play(tracker, 5, won=False)
    for name, array in first.state().items():
        np.testing.assert_array_equal(array, second.state()[name])
