"""A fleet over a Redis server that already runs, with TLS, and with games in windows."""

import shutil
import subprocess
import sys
from contextlib import closing

import psutil
import pytest
from msgspec.structs import replace
from redis.exceptions import RedisError

from benchmarks.fleet_processes import DEADLINE_S, game_processes
from soulslab.fleet.access import Access, connect, new_password, password_hash, read_access, write_access
from soulslab.fleet.certificates import server_certificates
from soulslab.fleet.redis_server import free_port
from soulslab.learn.settings import EnvSettings
from support.fleet import FleetOnTrial, fleet_settings
from support.long_form import IS_LONG
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server runs on Linux")

HOST = "127.0.0.1"
GAMES = [
    ("soulslab/Doom-v0", {"frame_skip": 8, "max_tics": 80}),
    ("soulslab/DarkSouls3Iudex-v0", {"stand_in": True, "phase": "1"}),
][: 2 if IS_LONG else 1]


@pytest.fixture
def admin_file(tmp_path):
    """A redis-server with TLS and one user, and the file that names it."""
    port, password = free_port(HOST), new_password()
    made = server_certificates(tmp_path / "tls", HOST)
    lines = [
        f"bind {HOST}",
        "port 0",
        f"tls-port {port}",
        f"tls-cert-file {made.certificate}",
        f"tls-key-file {made.key}",
        f"tls-ca-cert-file {made.ca}",
        "tls-auth-clients no",
        'save ""',
        "user default off",
        f"user boss on #{password_hash(password)} ~* &* +@all",
    ]
    server = subprocess.Popen(
        [shutil.which("redis-server"), "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=tmp_path, text=True
    )
    server.stdin.write("\n".join(lines))
    server.stdin.close()
    admin = Access(
        address=f"rediss://{HOST}:{port}", run="shared", user="boss", password=password, ca=made.ca.read_text()
    )
    path = tmp_path / "admin.toml"
    write_access(path, admin)
    with closing(connect(admin)) as client:
        wait_for(lambda: answers(client), "the server")
    yield path
    server.terminate()
    server.wait()


def answers(client):
    try:
        return client.ping()
    except RedisError:
        return False


@pytest.mark.parametrize(("env_id", "options"), GAMES)
def test_games_in_windows_play_over_a_server_that_is_given(admin_file, tmp_path, env_id, options):
    settings = replace(fleet_settings(), env=EnvSettings(id=env_id, n_envs=1, options=options))
    trial = FleetOnTrial(tmp_path, settings)
    try:
        learner = trial.learn("--redis", admin_file)
        machine = trial.play(env_id="")
        trial.wait_for_steps(20)
        (game,) = trial.games()
        assert game.state in ("playing", "waiting")
        assert (game.n_dropped, game.n_restarts) == (0, 0)
        # The join file has the address, the authority and a separate user.
        admin, join = read_access(admin_file), read_access(trial.join)
        assert (join.address, join.run, join.ca) == (admin.address, admin.run, admin.ca)
        assert join.user != admin.user
        learner.terminate()
        assert learner.wait(DEADLINE_S) != 0  # interrupted: the run can be resumed
        # Nobody is left to end them.
        left = [each for game in game_processes(machine) for each in (game, *game.children(recursive=True))]
        assert left
        machine.kill()
        _, left = psutil.wait_procs(left, DEADLINE_S)
        assert not left
    finally:
        trial.close()
    with closing(connect(read_access(admin_file))) as client:
        assert client.ping()  # the server is not the learner's, and goes on
