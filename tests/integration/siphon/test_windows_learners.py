"""The built-in fight on Windows, played by learners on Linux; either side may be killed.

The Windows Python under Wine serves the game.
"""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from soulslab.arena.vocabulary import N_ACTIONS
from soulslab.config import Secret, dump_settings
from soulslab.envs.arena import ArenaEnv
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.errors import ServerUnavailableError
from soulslab.learn.policies import shipped_policy
from soulslab.learn.policy import Policy
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.session import Step
from support.long_form import IS_LONG
from support.same_fight import ALL_TERMS, check_fight
from support.seeded_stand_in import seeded_profile
from support.waiting import wait_for
from support.windows_python import WindowsPython, address_of

TOKEN = "0123456789abcdef"  # noqa: S105
NOTHING = 19
N_STEPS = 20
#: In the fight of the first one each action is played, and the policy wins.
SEEDS = (21, *range(19)) if IS_LONG else (21,)
#: Serves the window in the memory layout of a game, held in lockstep and played by a gamepad, and after that with the
#: profile itself, whose clock is the speed of the game, played by keys. It prints the address of each server, which
#: needs TLS. Each client finds a fight in progress.
SERVE_MASKED = """
import sys
from pathlib import Path
from soulslab.games.arena import stand_in
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions

path, token, certificate, key = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
# The window may have to compile the rules of the fight.
options = SessionOptions(launch="always", input_backend="pad", deadline_s=600.0)

def serve_until_line(session):
    with serve(session, ServerOptions(token=token, tls_certificate=certificate, tls_key=key)) as server:
        print(f"at {server.address};", flush=True)
        sys.stdin.readline()

with open_session(stand_in(path), options) as window:
    window.clock.pause()
    serve_until_line(window)
    window.clock.advance(4.0)
    window.write({"player.no_death": True})
    window.clock.run()
    with open_session(load_profile(path), SessionOptions(launch="never", pid=window.info.pid)) as game:
        serve_until_line(game)
"""
LEARNER = """
import sys
from soulslab.config import Secret
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.siphon.rpc.client import connect

address, token, *tls = sys.argv[1:]
env = ArenaLiveEnv(session=connect(address, token=Secret(token), tls=tls[0] if tls else None))
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


def test_linux_learners_play_the_masked_window_until_one_and_then_the_server_is_killed(
    python, display, tmp_path, windows, certificate
):
    """A learner is killed; fights by pad are those of the simulator; then the game's environment plays it by keys."""
    path = tmp_path / "seeded.toml"
    path.write_text(dump_settings(seeded_profile("dark_souls_3")), encoding="utf-8")
    arguments = (f"Z:{path}", TOKEN, *(f"Z:{file}" for file in certificate))
    with python.serving(*arguments, display=display, code=SERVE_MASKED) as (address, server):
        kill_learner(address, certificate[0])  # a button that it left down would change the fights
        check_fights_of_a_policy(address, certificate[0])
        server.stdin.write(b"\n")
        server.stdin.flush()
        env = play_scaled(address_of(server), certificate[0])
        server.kill()
        server.wait()
        with pytest.raises(ServerUnavailableError, match=r"no server answers|connection"):
            env.step(NOTHING)
        env.close()
        wait_for(lambda: not games(windows), "the end of the game")


def kill_learner(address, *certificate):
    """Let a learner play, and kill it."""
    command = [sys.executable, "-c", LEARNER, address, TOKEN, *map(str, certificate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as learner:
        assert learner.stdout.readline() == "plays\n"
        learner.kill()


def check_fights_of_a_policy(address, certificate):
    policy, unused = Policy.load(shipped_policy("judge")), list(range(N_ACTIONS))

    def choose(seen, mask):
        """Return each action once as soon as it is allowed, then those of the policy."""
        for action in unused:
            if mask[action]:
                unused.remove(action)
                return action
        return int(policy.act(seen[None], mask[None], deterministic=True)[0])

    options = {"reward": ALL_TERMS, "skip_locked": True}
    session = connect(address, token=Secret(TOKEN), tls=certificate)
    live, sim = ArenaLiveEnv(session=session, **options), ArenaEnv(observation="features", **options)
    assert (session.info.clock_grade, session.info.input_backend) == ("lockstep", "pad")
    check_lock_on(session)
    for seed in SEEDS:
        check_fight(live, sim, seed, choose)
    assert unused == []
    live.close()


def check_lock_on(session):
    locked, keys = session.read("lock_on"), (session.profile.keys["lock_on"],)
    for is_locked in (not locked, locked):
        session.step(Step(held=keys, advance_s=0.1))
        assert session.read("lock_on") == is_locked
        session.step(Step(held=(), advance_s=0.1))


def play_scaled(address, certificate):
    session = connect(address, token=Secret(TOKEN), tls=certificate)
    env = gymnasium.make("soulslab/DarkSouls3IudexDemo-v0", session=session, stand_in=True)
    seen, info = env.reset(seed=0)
    for _ in range(N_STEPS):
        seen, _, is_over, is_cut, info = env.step(int(env.np_random.choice(np.flatnonzero(info["action_mask"]))))
        assert env.observation_space.contains(seen)
        if is_over or is_cut:
            break
    assert info["clock"] == "scaled"
    return env


def games(windows):
    return [one for one in windows.processes() if "soulslab" in one or "python" in one]


@pytest.mark.long
def test_a_killed_learner_and_a_killed_server(python, display, token_file, windows):
    arguments = ["arena", "--start", "--token-file", f"Z:{token_file}"]
    with python.serving(*arguments, display=display) as (address, server):
        kill_learner(address)
        env = ArenaLiveEnv(server=address, token=Secret(TOKEN), on_failure="truncate", reward=ALL_TERMS)
        # A key that the killed learner held would change the fight.
        check_fight(env, ArenaEnv(reward=ALL_TERMS), 3)
        env.reset(seed=1)
        server.kill()
        server.wait()
        *_, is_cut, info = env.step(NOTHING)
        assert is_cut
        assert info["failure"]["message"]
        wait_for(lambda: not games(windows), "the game")
    with python.serving(*arguments, "--address", address, display=display):
        env.reset(seed=1)
        assert env.step(NOTHING)[4]["ticks"] == 6
        env.close()
