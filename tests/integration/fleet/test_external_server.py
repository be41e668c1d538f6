"""A fleet over a Redis server that already runs, with TLS, and with games in windows."""

import shutil
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace
from redis.exceptions import RedisError

from benchmarks.fleet_processes import DEADLINE_S
from soulslab.cli.application import run
from soulslab.fleet.access import Access, connect, new_password, password_hash, read_access, write_access
from soulslab.fleet.certificates import server_certificates
from soulslab.fleet.redis_server import free_port
from soulslab.learn.actors.transition_actor import step_shape
from soulslab.learn.archive import read_archive
from soulslab.learn.players import load_player
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.run_folder import POLICY_NAME, REPLAY_NAME
from soulslab.learn.settings import EnvSettings
from support.fleet import FleetOnTrial, fleet_settings
from support.rewards import THOUSAND
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server runs on Linux")

HOST = "127.0.0.1"
FUNCTION = "support.rewards:thousand"
GAMES = {
    "doom": EnvSettings(id="soulslab/Doom-v0", n_envs=1, options={"frame_skip": 8, "max_tics": 80}),
    "stand-in": EnvSettings(id="soulslab/DarkSouls3Iudex-v0", n_envs=1, options={"stand_in": True, "phase": "1"}),
}
#: Options of learner and games for a reward function, which the learner names and the machine has.
BY_NAME = {"doom": ((), ()), "stand-in": (("--reward", "thousand"), ("--allow-reward", f"thousand={FUNCTION}"))}


@pytest.fixture(scope="module")
def admin(tmp_path_factory):
    """The administrator's access to a redis-server with TLS and one user."""
    folder = tmp_path_factory.mktemp("server")
    port, password = free_port(HOST), new_password()
    made = server_certificates(folder / "tls", HOST)
    lines = [
        f"bind {HOST}",
        "port 0",
        f"tls-port {port}",
        f"tls-cert-file {made.certificate}",
        f"tls-key-file {made.key}",
        f"tls-ca-cert-file {made.ca}",
        "tls-auth-clients no",
        'save ""',
        "appendonly yes",
        "appendfsync always",
        "maxmemory-policy noeviction",
        "user default off",
        f"user boss on #{password_hash(password)} ~* &* +@all",
    ]
    server = subprocess.Popen(
        [shutil.which("redis-server"), "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=folder, text=True
    )
    server.stdin.write("\n".join(lines))
    server.stdin.close()
    found = Access(
        address=f"rediss://{HOST}:{port}", run="shared", user="boss", password=password, ca=made.ca.read_text()
    )
    with closing(connect(found)) as client:
        wait_for(lambda: answers(client), "the server")
    yield found
    server.terminate()
    server.wait()


def saved_rewards(trial):
    """Return the rewards in the files of the replay buffer."""
    kind = row_type(step_shape(load_player(trial.run_dir / POLICY_NAME).header))
    files = [read_archive(path)[0]["rows"] for path in (trial.run_dir / REPLAY_NAME).glob("rows_*.safetensors")]
    return [reward for rows in files for reward in rows.reshape(-1).view(kind)["reward"].tolist()]


def answers(client):
    try:
        return client.ping()
    except RedisError:
        return False


def game_folders(processes):
    """Return the temporary folders of the games of a fleet, in which they have open files."""
    folders = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            folders |= {Path(file.path).parent for file in process.open_files()}
    return {folder for folder in folders if folder.name.startswith("soulslab-game-")}


@pytest.mark.parametrize("name", GAMES)
def test_games_in_windows_play_over_a_server_that_is_given(admin, tmp_path, name, capfd):
    trial = FleetOnTrial(tmp_path, replace(fleet_settings(), env=GAMES[name]))
    write_access(tmp_path / "admin.toml", replace(admin, run=name))  # the fleets share the server
    try:
        named, allowed = BY_NAME[name]
        learner = trial.learn_here("--redis", tmp_path / "admin.toml", *named)
        machine = trial.play(*allowed, env_id="")
        trial.wait_for_steps(20)
        (game,) = trial.games()
        assert game.state in ("playing", "waiting")
        assert (game.n_dropped, game.n_restarts) == (0, 0)
        # The join file has the address, the authority and a separate user.
        join = read_access(trial.join)
        assert (join.address, join.run, join.ca) == (admin.address, name, admin.ca)
        assert join.user != admin.user
        # No process is left that ends the game and its window, and removes the folder of the game.
        left = psutil.Process(machine.pid).children(recursive=True)
        assert len(left) > 1
        (folder,) = game_folders(left)
        machine.kill()
        _, left = psutil.wait_procs(left, DEADLINE_S)
        assert not left
        assert not folder.exists()
        if named:
            assert run(["fleet", "set", str(trial.run_dir), "env.options.reward.win=2"]) != 0
            assert "the reward of this run is '<function thousand>'" in capfd.readouterr().err
        assert run(["fleet", "stop", str(trial.run_dir)]) == 0
        assert learner.result(DEADLINE_S) == 0
        assert run(["fleet", "status", str(trial.run_dir)]) == 1  # the server runs, but not the learner
        assert "the learner does not run" in capfd.readouterr().out
        assert (THOUSAND in saved_rewards(trial)) == (name == "stand-in")
    finally:
        trial.close()
    with closing(connect(admin)) as client:
        assert client.ping()  # the server is not the learner's, and goes on
