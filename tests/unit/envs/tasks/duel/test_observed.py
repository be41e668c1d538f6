"""Read-only environments: a fight of another player is observed and not changed."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

import gymnasium
import pytest

from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.envs.tasks.souls.souls_env import SoulsDuelEnv
from soulslab.errors import EnvironmentUsageError, ReadOnlyError, WaitTimeoutError
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions, Step
from soulslab.testing.fake_arena import FakeArenaSession
from support.live_env import launch_options

NOTHING = 19
TICK_S = 1 / 60


@pytest.fixture
def player():
    with FakeArenaSession(SessionOptions(options=launch_options())) as session:
        yield session


def play(session, is_over):
    """Walk towards the boss until `is_over` is set."""
    while not is_over.wait(0.001):
        session.step(Step(held=("W",), advance_s=TICK_S, attributes=()))


@pytest.mark.parametrize("how", ["session", "server"])
def test_a_fight_of_another_player_is_observed_to_its_end(player, how, tmp_path):
    with ExitStack() as stack:
        options = {"session": player}
        if how == "server":
            address = f"unix:{tmp_path}/s"
            server = stack.enter_context(serve(player, ServerOptions(address=address, needs_token=False)))
            options = {"server": server.address}
        is_over = threading.Event()
        playing = stack.enter_context(ThreadPoolExecutor(1)).submit(play, player, is_over)
        stack.callback(is_over.set)
        env = ArenaLiveEnv(read_only=True, step_ms=20, **options)
        stack.callback(env.close)
        _, info = env.reset()
        assert info["clock"] == "realtime"
        assert info["action_mask"].nonzero()[0].tolist() == [NOTHING]
        assert env.action_masks().nonzero()[0].tolist() == [NOTHING]
        terminated, n_steps = False, 0
        while not terminated:
            _, _, terminated, truncated, info = env.step(NOTHING)
            n_steps += 1
            assert not truncated
        assert info["fight"]["won"] is False
        assert n_steps > 2
        is_over.set()
        playing.result()
        assert player.info.n_starts == 1
        assert player.arena.input.held == {"W"}


def test_an_observed_game_is_not_changed(player):
    env = ArenaLiveEnv(session=player, read_only=True)
    env.reset()
    with pytest.raises(ReadOnlyError, match="has to be 'nothing'"):
        env.step(0)
    with pytest.raises(ReadOnlyError, match="cannot write"):
        env.write_quantities({"boss.hp": 1.0})
    assert player.clock.game_time_s == 0.0
    assert player.arena.input.held == frozenset()


def test_a_reset_waits_for_a_fight(player):
    player.arena.input.close()
    with ThreadPoolExecutor(1) as pool:
        player.write({"player.hp": 0})
        for _ in range(5):
            player.step(Step(advance_s=TICK_S, attributes=()))
        env = ArenaLiveEnv(session=player, read_only=True, reset_deadline_s=60)
        resetting = pool.submit(env.reset)
        assert not wait([resetting], 0.2).done
        while not resetting.done():
            player.step(Step(advance_s=TICK_S, attributes=()))
        resetting.result()
    player.write({"player.hp": 0})
    player.step(Step(advance_s=TICK_S, attributes=()))
    with pytest.raises(WaitTimeoutError, match="a fight to be played"):
        ArenaLiveEnv(session=player, read_only=True, reset_deadline_s=0.05).reset()


@pytest.mark.parametrize("options", [{"timing": "realtime"}, {"latency_ms": 50}, {"phase": "2"}, {"read_only": "yes"}])
def test_options_that_need_control_are_refused(options):
    with pytest.raises(EnvironmentUsageError, match="read_only"):
        gymnasium.make("soulslab/ArenaLive-v0", **{"read_only": True, **options})


def test_a_real_game_is_not_started_to_be_observed():
    with pytest.raises(EnvironmentUsageError, match="read_only observes a running game"):
        SoulsDuelEnv("dark_souls_3", "iudex", launch=True, read_only=True)
