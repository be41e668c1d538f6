"""The built-in fight on Windows, played by learners on Linux; either side may be killed.

The Windows Python under Wine serves the game.
"""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from soulslab.config import Secret
from soulslab.envs.arena import ArenaEnv
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.siphon.process.private_display import PrivateDisplay
from support.same_fight import ALL_TERMS, check_fight
from support.waiting import wait_for
from support.windows_python import WindowsPython

TOKEN = "0123456789abcdef"  # noqa: S105
NOTHING = 19
N_STEPS = 20
#: Serves the window in the memory layout of a game, with the game's own profile.
SERVE_MASKED = """
import sys
from pathlib import Path
from soulslab.games import profile_path
from soulslab.games.arena import stand_in
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions

path = profile_path(Path(sys.argv[1]))
profile = load_profile(path)
with (
    open_session(stand_in(path), SessionOptions(launch="always")) as window,
    open_session(profile, SessionOptions(launch="never", pid=window.info.pid)) as game,
    serve(game, ServerOptions(token=sys.argv[2])) as server,
):
    window.clock.run(1.0)
    print(f"at {server.address};", flush=True)
    server.wait()
"""
LEARNER = """
import sys
from soulslab.config import Secret
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv

env = ArenaLiveEnv(server=sys.argv[1], token=Secret(sys.argv[2]))
env.reset(seed=1)
while True:
    env.step(0)
    print("plays", flush=True)
"""


@pytest.fixture
def python(windows, request):
    with windows.occupied():
        yield WindowsPython(request.config.cache.mkdir("windows_python"), windows)


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN, encoding="ascii")
    path.chmod(0o600)
    return path


@pytest.fixture
def display():
    with PrivateDisplay((800, 600)) as one:
        yield one.name


def test_a_linux_learner_plays_the_masked_window(python, display):
    with python.serving("dark_souls_3", TOKEN, display=display, code=SERVE_MASKED) as (address, _):
        options = {"server": address, "token": Secret(TOKEN), "stand_in": True}
        env = gymnasium.make("soulslab/DarkSouls3IudexDemo-v0", **options)
        seen, info = env.reset(seed=0)
        for _ in range(N_STEPS):
            action = env.np_random.choice(np.flatnonzero(info["action_mask"]))
            seen, _, is_over, is_cut, info = env.step(int(action))
            assert env.observation_space.contains(seen)
            if is_over or is_cut:
                break
        assert info["clock"] == "scaled"
        env.close()


def test_a_fight_on_windows_is_that_of_the_simulator(python, display, token_file):
    with python.serving("arena", "--start", "--token-file", f"Z:{token_file}", display=display) as (address, _):
        live, sim = ArenaLiveEnv(server=address, token=Secret(TOKEN), reward=ALL_TERMS), ArenaEnv(reward=ALL_TERMS)
        check_fight(live, sim, 3)
        live.close()


@pytest.mark.long
def test_a_killed_learner_and_a_killed_server(python, display, token_file, windows):
    arguments = ["arena", "--start", "--token-file", f"Z:{token_file}"]
    with python.serving(*arguments, display=display) as (address, server):
        command = [sys.executable, "-c", LEARNER, address, TOKEN]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as learner:
            assert learner.stdout.readline() == "plays\n"
            learner.kill()
        env = ArenaLiveEnv(server=address, token=Secret(TOKEN), on_failure="truncate", reward=ALL_TERMS)
        # A key that the killed learner held would change the fight.
        check_fight(env, ArenaEnv(reward=ALL_TERMS), 3)
        env.reset(seed=1)
        server.kill()
        server.wait()
        *_, is_cut, info = env.step(NOTHING)
        assert is_cut
        assert info["failure"]["message"]
        wait_for(lambda: not [one for one in windows.processes() if "soulslab" in one or "python" in one], "the game")
    with python.serving(*arguments, "--address", address, display=display):
        env.reset(seed=1)
        assert env.step(NOTHING)[4]["ticks"] == 6
        env.close()
