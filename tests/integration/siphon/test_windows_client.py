"""A Windows client that uses a game on this machine: Windows Python under Wine, and a server with TLS."""

import json
from pathlib import Path

import pytest

from soulslab.games import profile_path
from soulslab.games.arena import stand_in
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions
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
try:
    gymnasium.make("soulslab/DarkSouls3Iudex-v0").reset()
except soulslab.errors.ProcessError as error:
    found["here"] = str(error)
print(json.dumps(found))
"""


@pytest.fixture
def python(windows, request):
    with windows.occupied():
        yield WindowsPython(request.config.cache.mkdir("windows_python"), windows)


def test_it_plays_a_game_of_a_server(python, certificate):
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
    assert "on Linux only, and this is win32; serve the game on the Linux machine" in found["here"]
