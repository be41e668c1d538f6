"""Steps with a scaled clock: the game stands still between steps, and steps run at the requested speed."""

import numpy as np
import pytest

from soulslab.arena.vocabulary import NOTHING
from soulslab.games.dark_souls_3 import PROFILE_PATH
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions
from support.scaled_game import FRAME_S, ScaledSession
from support.soulsgym_moments import iudex_env


@pytest.fixture
def session():
    with ScaledSession(PROFILE_PATH, SessionOptions(options={"boss": "judge"})) as one:
        yield one


@pytest.mark.parametrize(("game_speed", "cap"), [(1.0, None), (3.0, 180.0)])
def test_steps_run_at_the_game_speed(session, game_speed, cap):
    before = session.pace()
    env = iudex_env(session, episodes="in_place", game_speed=game_speed)
    speeds = []
    session.arena.on_advance = lambda: speeds.append(session.arena.fight.speed)
    _, info = env.reset(seed=1)
    assert info["clock"] == "scaled"
    speeds.clear()
    times_s, late_s = [info["game_time_s"]], []
    for _ in range(20):
        info = env.step(NOTHING)[4]
        times_s.append(info["game_time_s"])
        late_s.append(info["late_s"])
        assert info["clock"] == "scaled"
        assert session.pace() == (0.0, cap or before[1], bool(cap) or before[2])
    assert {speed for speed in speeds if speed} == {game_speed}
    # A step differs by at most a frame, and the next step is shorter by the difference.
    frame_s = FRAME_S * game_speed
    assert np.allclose(np.diff(times_s), 0.1, atol=frame_s + 1e-6)
    assert times_s[-1] - times_s[0] == pytest.approx(2.0, abs=frame_s + 1e-6)
    assert all(0.0 <= late <= FRAME_S + 1e-6 for late in late_s)
    env.close()
    assert session.left == (1.0, *before[1:])


def test_latency_passes_at_the_game_speed(session):
    env = iudex_env(session, episodes="in_place", game_speed=2.0, latency_ms=50)
    env.reset(seed=1)
    speeds = []
    session.arena.on_advance = lambda: speeds.append(session.arena.fight.speed)
    env.step(NOTHING)
    assert {speed for speed in speeds if speed} == {2.0}
    env.close()


def test_a_remote_session_steps_at_the_game_speed(session, tmp_path):
    options = ServerOptions(address=f"unix:{tmp_path / 'socket'}", token="t" * 16)
    with serve(session, options) as server, connect(server.address, token=options.token) as remote:
        env = iudex_env(remote, episodes="in_place", game_speed=2.0)
        env.reset(seed=1)
        info = env.step(NOTHING)[4]
        assert info["clock"] == "scaled"
        assert session.pace() == (0.0, 120.0, True)
        speeds = []
        session.arena.on_advance = lambda: speeds.append(session.arena.fight.speed)
        assert remote.clock.advance(0.1, speed=4.0).elapsed_s > 0.0
        assert max(speeds) == 4.0
        env.close()
