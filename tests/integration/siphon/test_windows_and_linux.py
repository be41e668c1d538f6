"""Games that are served by one system and played by the other one: the Windows Python under Wine, and Linux."""

import json
from pathlib import Path

import pytest

from soulslab.envs.arena import ArenaEnv
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.games import profile_path
from soulslab.games.arena import stand_in
from soulslab.siphon.local import open_session
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.access import read_token
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions
from support.same_fight import ALL_TERMS, check_fight
from support.windows_python import WindowsPython

N_STEPS = 10
PLAY = """
import json, sys
import gymnasium, soulslab
from soulslab.config import Secret

address, token, certificate, n_steps = sys.argv[1:]
found = {"platform": sys.platform}
for name in ("DarkSouls3Iudex", "DarkSouls3IudexPixels"):
    env = gymnasium.make(f"soulslab/{name}-v0", server=address, token=Secret(token), tls=certificate, stand_in=True)
    seen, info = env.reset(seed=0)
    for n in range(1, int(n_steps) + 1):
        seen, _, is_over, is_cut, info = env.step(env.np_random.choice(info["action_mask"].nonzero()[0]))
        assert env.observation_space.contains(seen)
        if is_over or is_cut:
            break
    found[name] = {"clock": info["clock"], "step_s": info["game_time_s"] / n, "std": float(seen.std())}
    env.close()
print(json.dumps(found))
"""


PLAY_ARENA = """
import sys
import gymnasium, soulslab
from soulslab.config import Secret

env = gymnasium.make("soulslab/ArenaLive-v0", server=sys.argv[1], token=Secret(sys.argv[2]))
_, info = env.reset(seed=3)
for _ in range(int(sys.argv[3])):
    seen, _, is_over, _, info = env.step(int(info["action_mask"].nonzero()[0][-1]))
    assert not is_over
print(sys.platform, info["clock"], info["game_time_s"])
env.close()
"""


@pytest.fixture
def python(windows, request):
    with windows.occupied():
        yield WindowsPython(request.config.cache.mkdir("windows_python"), windows)


def test_a_windows_learner_plays_a_game_on_linux(python, certificate):
    path = profile_path(Path("dark_souls_3"))
    options = ServerOptions(tls_certificate=certificate[0], tls_key=certificate[1])
    with (
        open_session(stand_in(path), SessionOptions(launch="always")) as window,
        open_session(load_profile(path), SessionOptions(launch="never", pid=window.info.pid)) as game,
        serve(game, options) as server,
    ):
        window.clock.run(1.0)
        found = json.loads(python.run(PLAY, server.address, server.token.reveal(), f"Z:{certificate[0]}", str(N_STEPS)))
    assert found["platform"] == "win32"
    for name in ("DarkSouls3Iudex", "DarkSouls3IudexPixels"):
        assert found[name]["clock"] == "scaled"
        assert found[name]["step_s"] == pytest.approx(0.1, abs=0.02)
        assert found[name]["std"] > 0


@pytest.mark.long
def test_both_play_a_game_on_windows(python, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef", encoding="ascii")
    token.chmod(0o600)
    with (
        PrivateDisplay((800, 600)) as display,
        python.serving("arena", "--start", "--token-file", f"Z:{token}", display=display.name) as (address, _),
    ):
        live = ArenaLiveEnv(server=address, token=read_token(token), reward=ALL_TERMS)
        check_fight(live, ArenaEnv(reward=ALL_TERMS), 3)
        live.close()
        printed = python.run(PLAY_ARENA, address, read_token(token).reveal(), str(N_STEPS)).split()
    assert printed[:2] == ["win32", "lockstep"]
    assert float(printed[2]) == pytest.approx(N_STEPS / 10)
