"""Alignment of steps with the ticks of a simulation."""

import msgspec
import pytest

from soulslab.errors import WaitTimeoutError
from soulslab.siphon.profile import ClockFacts
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.tick_alignment import TickAlignment, advance_to_tick_middle
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession


def test_a_lockstep_game_is_aligned_once_after_each_start():
    """Game with a tick every 1/60 s, and a counter of half ticks."""
    session = FakeSession()
    session.clock.advance(0.0157)
    phase = TickAlignment(TOY_PROFILE)
    for _ in range(2):
        phase.align(session)
        assert 0.4 < (session.clock.game_time_s * 60) % 1 < 0.6
    before = session.clock.game_time_s
    phase.align(session)
    assert session.clock.game_time_s == before
    session.restart()
    phase.align(session)
    assert 0.4 < (session.clock.game_time_s * 60) % 1 < 0.6


def test_a_paused_game_cannot_be_aligned():
    session = FakeSession()
    session.toy.pass_time = lambda _: None
    with pytest.raises(WaitTimeoutError, match=r"attribute ticks to grow.*it stands at 0"):
        TickAlignment(TOY_PROFILE).align(session)


def test_alignment_waits_for_a_game_that_pauses_after_one_tick():
    """Game that counts one tick and then pauses, as some games do during a screen transition."""
    session = FakeSession()
    toy, pass_time, passed_s = session.toy, session.toy.pass_time, [0.0]

    def passed(seconds):
        passed_s[0] += seconds
        if not 0.02 < passed_s[0] < 1.0:
            pass_time(seconds)

    toy.pass_time = passed
    TickAlignment(TOY_PROFILE).align(session)
    assert passed_s[0] > 1.0


def test_ticks_are_not_counted_while_the_game_loads():
    session = FakeSession()
    toy, pass_time, passed_s = session.toy, session.toy.pass_time, [0.0]

    def passed(seconds):
        passed_s[0] += seconds
        toy.is_loading = passed_s[0] < 1.0
        pass_time(seconds)

    toy.pass_time = passed
    TickAlignment(TOY_PROFILE).align(session)
    assert passed_s[0] > 1.0
    assert 0.4 < (session.clock.game_time_s * 60) % 1 < 0.6


def test_ticks_that_a_game_catches_up_with_are_no_edges():
    """Game that makes two ticks every 3 ms after an idle second, until it has caught up."""
    now_s, count = [0.0], [0]

    def ticks(seconds):
        now_s[0] += seconds
        due = int(now_s[0] / 0.03)
        caught_up = int(max(now_s[0] - 1.0, 0.0) / 0.003) * 2
        count[0] = max(count[0], min(due, caught_up))
        return count[0]

    assert advance_to_tick_middle(ticks, 0.03)
    assert 0.4 < (now_s[0] / 0.03) % 1 < 0.6


def test_alignment_is_skipped_without_ticks_or_time_control():
    session = FakeSession()
    TickAlignment(msgspec.structs.replace(TOY_PROFILE, clock=ClockFacts(grade="lockstep"))).align(session)
    assert session.clock.game_time_s == 0.0


def test_a_game_behind_a_server_is_aligned_as_well(tmp_path):
    with FakeSession() as toy:
        toy.clock.advance(0.0157)
        with (
            serve(toy, ServerOptions(address=f"unix:{tmp_path}/s")) as server,
            connect(server.address, token=server.token) as remote,
        ):
            TickAlignment(remote.profile).align(remote)
        assert 0.4 < (toy.clock.game_time_s * 60) % 1 < 0.6
