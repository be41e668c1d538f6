"""The states of a reset: limits, repeated keys, retries with reasons, and errors."""

import pytest

from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.reset_states import HOLD_S, ResetLog, ResetRunner, ResetState, reach
from soulslab.errors import (
    ClockStalledError,
    InvalidValueError,
    LaunchError,
    PointerError,
    ProcessExitedError,
    ResetFailedError,
    WaitTimeoutError,
)
from support.live_duel import LiveDuel


@pytest.fixture
def duel():
    live = LiveDuel()
    yield live
    live.game.holder.close()


def state(is_reached, **changes):
    facts = {"name": "x", "waits_for": "it", "quantities": ("game.tick",), "limit_s": 1.0}
    return ResetState(is_reached=is_reached, **{**facts, **changes})


def test_a_state_that_is_already_reached_takes_no_time(duel):
    tick = duel.arena.fight.n_ticks
    seen = reach(duel.game, [state(lambda seen: seen["game.tick"] == tick)], Deadline(9))
    assert seen == {"game.tick": tick}
    assert duel.arena.fight.n_ticks == tick


def test_a_state_is_checked_at_every_tick(duel):
    seen = reach(duel.game, [state(lambda seen: seen["game.tick"] == 17)], Deadline(9))
    assert seen["game.tick"] == duel.arena.fight.n_ticks == 17


def test_states_are_reached_in_order(duel):
    order = []

    def passing(name, tick):
        return state(lambda seen: seen["game.tick"] >= tick and not order.append(name), name=name)

    reach(duel.game, [passing("a", 5), passing("b", 3), passing("c", 9)], Deadline(9))
    assert order == ["a", "b", "c"]
    assert duel.arena.fight.n_ticks == 9


def test_the_error_has_the_condition_and_the_last_values(duel):
    waiting = state(lambda _: False, name="lock_on", waits_for="the lock", quantities=("lock_on", "player.position"))
    with pytest.raises(ResetFailedError) as caught:
        reach(duel.game, [waiting], Deadline(9))
    assert caught.value.state == "lock_on"
    assert caught.value.what == "the lock"
    assert "for the lock (state 'lock_on' of the reset)" in str(caught.value)
    assert "player.position [132.18, 575.06, -68.8], lock_on True" in str(caught.value)
    assert 60 <= duel.arena.fight.n_ticks <= 61


def test_a_state_has_a_limit_in_wall_time(duel):
    with pytest.raises(WaitTimeoutError, match="it \\(state 'x' of the reset\\)"):
        reach(duel.game, [state(lambda _: False, limit_s=1e9)], Deadline(0.0))


def test_quantities_that_the_game_does_not_have_are_omitted(duel):
    del duel.game.binding.attributes["phase"]
    seen = reach(duel.game, [state(lambda _: True, quantities=("phase", "lock_on"))], Deadline(9))
    assert seen == {"lock_on": True}


def test_the_error_of_a_loading_game_has_the_reason(duel):
    duel.arena.fight.restart()
    found = []
    waiting = state(found.append, quantities=("player.hp",), limit_s=0.1)
    with pytest.raises(ResetFailedError, match="leads nowhere while the game loads") as caught:
        reach(duel.game, [waiting], Deadline(9))
    assert found and not any(found)
    assert isinstance(caught.value.__cause__, PointerError)


def test_keys_are_pressed_at_the_start_and_repeatedly(duel):
    waiting = state(lambda _: False, press=("roll",), again_s=0.5, limit_s=1.4)
    with pytest.raises(ResetFailedError):
        reach(duel.game, [waiting], Deadline(9))
    presses = [key for key, is_press in duel.arena.input.events if is_press]
    assert presses == ["SPACE"] * 3
    assert not duel.arena.input.held
    assert HOLD_S < 0.5


def test_actions_during_a_wait_may_fail_while_the_game_loads(duel):
    duel.arena.fight.restart()
    names = []

    def act(_):
        names.append("acted")
        duel.game.read("player.hp")

    waiting = state(bool, quantities=("player.hp",), act=act)
    reach(duel.game, [waiting], Deadline(9))
    assert names


class Attempts:
    """Raises the given errors, then succeeds."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = []

    def __call__(self, n, is_fresh):
        self.calls.append((n, is_fresh))
        if self.errors:
            raise self.errors.pop(0)


def failed(name="settle"):
    return ResetFailedError("it", 1.0, state=name)


def run(duel, *errors, retries=3, log=None):
    attempts, log = Attempts(*errors), log or ResetLog()
    ResetRunner(log, retries, None).run(duel.game, Deadline(20), attempts)
    return attempts.calls, log


def test_only_the_first_attempt_of_the_first_reset_is_fresh(duel):
    log, attempts = ResetLog(), Attempts()
    runner = ResetRunner(log, 3, None)
    runner.run(duel.game, Deadline(20), attempts)
    runner.run(duel.game, Deadline(20), attempts)
    assert attempts.calls == [(0, True), (0, False)]
    assert (log.n_resets, log.n_retries, log.n_game_restarts) == (2, 0, 0)


def test_a_state_is_retried_first_with_the_same_and_then_with_a_new_game(duel):
    calls, log = run(duel, failed(), failed("place"))
    assert calls == [(0, True), (1, False), (2, True)]
    assert log.reasons == {"settle": 1, "place": 1}
    assert log.n_game_restarts == 1
    assert log.n_retries == 2
    assert len(log.latest) == 2
    assert log.n_resets == 1


@pytest.mark.parametrize("error", [ProcessExitedError("gone", pid=1), ClockStalledError("frozen", 1.0)])
def test_other_failures_need_a_new_game_at_once(duel, error):
    calls, log = run(duel, error)
    assert calls == [(0, True), (1, True)]
    assert log.reasons == {type(error).__name__: 1}


def test_the_final_error_has_all_reasons(duel):
    with pytest.raises(ResetFailedError) as caught:
        run(duel, ProcessExitedError("gone", pid=1), failed("place"), failed("lock_on"), retries=2)
    assert caught.value.state == "lock_on"
    assert [reason.split(":")[0] for reason in caught.value.reasons] == [
        "ProcessExitedError",
        "ResetFailedError",
        "ResetFailedError",
    ]
    assert str(caught.value).count("(state 'lock_on' of the reset)") == 2
    assert "gone" in str(caught.value)


def test_a_start_that_cannot_be_read_is_retried(duel):
    duel.game.looked_at = ("player.hp", "boss.hp", "lock_on")
    session, problems = duel.game.session, ["is a null pointer"]
    read = session.snapshot

    def snapshot(names=None):
        if problems and "lock_on" in names:
            raise PointerError(problems.pop(), attribute="lock_on", level=0, address=0, pid=1, is_null=True)
        return read(names)

    session.snapshot = snapshot
    calls, log = run(duel)
    assert calls == [(0, True), (1, False)]
    assert log.reasons == {"PointerError": 1}


@pytest.mark.parametrize("who", ["player", "boss"])
def test_an_episode_does_not_begin_with_a_dead_fighter(duel, who):
    duel.game.looked_at = ("player.hp", "boss.hp")
    dead = {f"{who}.hp": 0.0}
    with pytest.raises(ResetFailedError, match="both to be alive") as caught:
        ResetRunner(ResetLog(), 0, None).run(duel.game, Deadline(20), lambda *_: duel.game.write(dead))
    assert caught.value.state == "start"
    assert f"{who}.hp 0" in caught.value.saw


def test_after_the_deadline_the_game_is_not_restarted(duel):
    log = ResetLog()
    with pytest.raises(ResetFailedError, match="gone"):
        ResetRunner(log, 3, None).run(duel.game, Deadline(0.0), Attempts(ProcessExitedError("gone", pid=1)))
    assert log.n_game_restarts == 0
    assert duel.game.holder.is_lost, "the next reset brings a new one"


def test_usage_errors_are_not_retried(duel):
    with pytest.raises(InvalidValueError):
        run(duel, InvalidValueError("hp", -1, "is out of range"))
    assert not duel.game.holder.is_lost


def test_a_game_that_cannot_be_opened_is_not_retried():
    live = LiveDuel()
    live.game.holder.close()

    def fail(_):
        raise LaunchError("it ended at once")

    live.game.holder._factory = fail
    with pytest.raises(LaunchError):
        run(live)


def test_the_game_is_restarted_after_its_time(duel):
    log, attempts = ResetLog(), Attempts()
    runner = ResetRunner(log, 3, 1e-9)
    runner.run(duel.game, Deadline(20), attempts)
    runner.run(duel.game, Deadline(20), attempts)
    assert attempts.calls == [(0, True), (0, True)]
    assert log.n_game_restarts == 1
    assert duel.game.session.info.n_starts == 2
