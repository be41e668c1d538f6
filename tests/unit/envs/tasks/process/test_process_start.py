"""The reset procedure, and recovery of a lost session."""

import msgspec
import pytest

from soulslab.envs.game.session_holder import Deadline, SessionHolder
from soulslab.envs.tasks.process.process_settings import read_settings
from soulslab.envs.tasks.process.reset_procedure import ResetProcedure
from soulslab.errors import ServerUnavailableError, SessionStateError, WaitTimeoutError
from soulslab.testing.fake_session import FakeSession
from support.toy_env import Toys, toy_env, toy_profile, toy_table

TICK_S = 1 / 60


def play(reset, prepare=None, session=None):
    """Run reset steps on a new toy; return its session."""
    # Alignment takes additional ticks, and is not done without a tick attribute.
    profile = toy_profile(reset=reset)
    profile = msgspec.structs.replace(profile, clock=msgspec.structs.replace(profile.clock, tick_attribute=""))
    session = session or FakeSession()
    if prepare is not None:
        prepare(session.toy)
    ResetProcedure(read_settings(profile), profile, is_read_only=False).run(SessionHolder(None, session), Deadline(60))
    return session


def watch(toy, seen):
    """Append the held keys and the number of ticks of each advance to a list."""
    pass_time = toy.pass_time

    def passed(seconds):
        seen.append((tuple(sorted(toy.held)), round(seconds / TICK_S)))
        pass_time(seconds)

    toy.pass_time = passed


def test_keys_are_released_before_the_steps():
    seen = []

    def hold(toy):
        toy.input.set_held({"W"})
        watch(toy, seen)

    play([{"write": {"hp": 5}}], hold)
    assert seen == [((), 1)]


def test_tap_and_hold():
    seen = []
    steps = [
        {"tap": ["up", "left"]},
        {"hold": ["up", "right"], "ticks": 3},
        {"hold": [], "s": 0.1},
        {"tap": ["up"], "ticks": 2},
    ]
    play(steps, lambda toy: watch(toy, seen))
    taps = [(("W",), 1), ((), 1), (("A",), 1), ((), 1)]
    assert seen[1:] == [*taps, (("D", "W"), 3), ((), 6), (("W",), 2), ((), 2)]


def test_write_and_copy():
    session = play([{"write": {"hp": 5, "level": 9}}, {"copy": {"hp": "level", "x": "hp"}}])
    assert (session.read("hp"), session.read("x")) == (9, 5)


def test_wait_reads_each_tick_and_continues_while_the_game_loads():
    def load(toy):
        pass_time = toy.pass_time

        def passed(seconds):
            pass_time(seconds)
            toy.is_loading = toy.values["ticks"] < 5

        toy.pass_time = passed

    session = play([{"wait": {"attribute": "ticks", "at_least": 3}, "ticks": 10}], load)
    assert session.toy.values["ticks"] == 5
    session = play([{"wait": {"attribute": "ticks", "multiple_of": 8}, "ticks": 10}])
    assert session.toy.values["ticks"] == 8


def test_a_wait_that_times_out_reports_the_last_value():
    with pytest.raises(WaitTimeoutError, match=r"0\.5 s for attribute hp to be at most 3; it is 100"):
        play([{"wait": {"attribute": "hp", "at_most": 3}, "s": 0.5}])

    def load(toy):
        toy.is_loading = True

    with pytest.raises(WaitTimeoutError, match="null pointer"):
        play([{"wait": {"attribute": "hp", "at_most": 3}, "ticks": 3}], load)


def test_the_game_is_restarted_if_there_are_no_steps():
    session = play([])
    assert session.info.n_starts == 2


def test_a_new_session_is_not_restarted():
    toys = Toys(toy_table())
    profile = toy_profile(reset=[{"restart": True}])
    holder = SessionHolder(lambda _: toys())
    procedure = ResetProcedure(read_settings(profile), profile, is_read_only=False)
    procedure.run(holder, Deadline(60))
    assert toys.last.info.n_starts == 1
    procedure.run(holder, Deadline(60))
    assert toys.last.info.n_starts == 2
    assert len(toys.sessions) == 1


def test_a_game_without_ticks_cannot_be_aligned():
    session = FakeSession()
    session.toy.pass_time = lambda _: None
    profile = toy_profile(reset=[{"write": {"hp": 1}}])
    procedure = ResetProcedure(read_settings(profile), profile, is_read_only=False)
    with pytest.raises(WaitTimeoutError, match="attribute ticks to grow"):
        procedure.run(SessionHolder(None, session), Deadline(60))


def test_steps_are_repeated_if_the_game_ticks_only_after_them():
    seen = []
    session = FakeSession()
    toy, pass_time = session.toy, session.toy.pass_time

    def passed(seconds):
        seen.append(tuple(toy.held))
        if ("W",) in seen:
            pass_time(seconds)

    toy.pass_time = passed
    profile = toy_profile(reset=[{"tap": ["up"]}])
    ResetProcedure(read_settings(profile), profile, is_read_only=False).run(SessionHolder(None, session), Deadline(60))
    assert seen.count(("W",)) == 2


def test_recover_waits_for_an_unavailable_server(monkeypatch):
    monkeypatch.setattr("soulslab.envs.game.session_holder.time.sleep", lambda _: None)
    answers = [ServerUnavailableError("down"), ServerUnavailableError("still down"), FakeSession()]

    def connect(_):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    broken = FakeSession()
    broken.close()
    holder = SessionHolder(connect, broken)
    holder.is_lost = True
    holder.recover(Deadline(60))
    assert (holder.is_lost, holder.n_restarts, answers) == (False, 1, [])


def test_recover_stops_waiting_at_the_deadline():
    def connect(_):
        raise ServerUnavailableError("down")

    with pytest.raises(WaitTimeoutError, match="down"):
        SessionHolder(connect).recover(Deadline(-1))


def test_a_reset_has_a_deadline_in_wall_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("soulslab.envs.game.session_holder.time.monotonic", lambda: now.append(now[-1] + 30) or now[-1])
    env = toy_env(reset=[{"wait": {"attribute": "level", "equals": 7}, "s": 3600}], max_retries=0, reset_deadline_s=100)
    with pytest.raises(WaitTimeoutError, match="level to be equal to 7"):
        env.reset()
    assert len(now) < 8


def test_seconds_are_rounded_up_to_whole_ticks():
    profile = toy_profile(reset=[{"hold": [], "s": 0.11}])
    session, seen = FakeSession(), []
    pass_time = session.toy.pass_time

    def passed(seconds):
        seen.append(seconds)
        pass_time(seconds)

    session.toy.pass_time = passed
    ResetProcedure(read_settings(profile), profile, is_read_only=False).run(SessionHolder(None, session), Deadline(60))
    assert seen[-1] == pytest.approx(7 * TICK_S)  # 6.6 ticks would end within a tick


def test_a_session_that_is_opened_again_is_checked_again():
    toys, checked = Toys(toy_table()), []
    holder = SessionHolder(lambda _: toys())
    holder.check = checked.append
    for _ in range(2):
        assert holder.session is toys.last
        holder.close()
    assert len(checked) == 2


def test_a_given_session_cannot_be_used_after_it_was_closed():
    holder = SessionHolder(None, FakeSession())
    holder.close()
    with pytest.raises(SessionStateError, match="the environment and its session are closed; make both anew"):
        _ = holder.session
