"""Where in a tick of the simulation steps begin and end."""

from soulslab.envs.process_phase import Phase
from soulslab.siphon.fake import FakeSession
from support.toy_env import toy_profile


def test_a_lockstep_game_is_aligned_once_after_each_start():
    """The toy counts a tick every 1/60 s; in its middle, there is half of one to either side."""
    session = FakeSession()
    session.clock.advance(0.0157)
    phase = Phase(toy_profile())
    for _ in range(2):
        assert phase.align(session)
        assert 0.4 < (session.clock.game_time_s * 60) % 1 < 0.6
    before = session.clock.game_time_s
    assert phase.align(session)
    assert session.clock.game_time_s == before
    session.restart()
    assert phase.align(session)
    assert 0.4 < (session.clock.game_time_s * 60) % 1 < 0.6


def test_a_game_that_stands_still_cannot_be_aligned():
    session = FakeSession()
    session.toy.pass_time = lambda _: None
    assert not Phase(toy_profile()).align(session)


def test_a_game_that_counts_one_tick_and_stands_still_is_waited_for():
    session = FakeSession()
    toy, pass_time, passed_s = session.toy, session.toy.pass_time, [0.0]

    def passed(seconds):
        passed_s[0] += seconds
        if not 0.02 < passed_s[0] < 1.0:
            pass_time(seconds)

    toy.pass_time = passed
    assert Phase(toy_profile()).align(session)
    assert passed_s[0] > 1.0
