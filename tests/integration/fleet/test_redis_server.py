"""The Redis server of a fleet: private, durable, and ended with its parent."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import psutil
import pytest
import redis
from msgspec.structs import replace

from soulslab.errors import ConfigError, FleetError
from soulslab.fleet import learning, redis_actor_end
from soulslab.fleet.access import (
    Keys,
    connect,
    new_password,
    read_access,
    refuse_open_server,
    server_errors,
    write,
    write_access,
)
from soulslab.fleet.fleet_folder import FleetFolder
from soulslab.fleet.messages import Control, RunDescription, wait_for_description
from soulslab.fleet.operating import give_order, read_status
from soulslab.fleet.playing import PlaySettings, play
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.redis_server import RedisServer, free_port, remove_user, set_user
from soulslab.fleet.spool import Spool
from soulslab.version import VERSION
from support.redis import redis_server
from support.steps import ROW, some_weights, steps
from support.waiting import wait_for

PARENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, "tests")
from support.redis import redis_server
with redis_server(Path(sys.argv[1])) as served:
    print(served.server.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """A server for tests that change nothing, and its folder."""
    folder = tmp_path_factory.mktemp("lasting") / "redis"
    with redis_server(folder) as server:
        yield server, folder


@pytest.fixture
def served(tmp_path):
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture
def admin(served):
    client = connect(served.learner)
    yield client
    client.close()


@pytest.fixture(scope="module")
def game(lasting):
    """A client with the rights of a game."""
    client = connect(lasting[0].game)
    yield client
    client.close()


def test_it_ends_with_its_parent_also_after_sigkill(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "its end")


def test_a_client_without_a_password_is_refused(lasting):
    served, _ = lasting
    refuse_open_server(served.learner)
    with pytest.raises(redis.AuthenticationError):
        connect(replace(served.game, password=new_password())).ping()


def test_a_server_without_a_password_is_refused(served, admin):
    admin.execute_command("ACL", "SETUSER", "default", "on", "nopass", "+@all", "~*")
    with pytest.raises(ConfigError, match="answers without a password"):
        refuse_open_server(served.learner)


def test_a_server_that_refuses_commands_has_an_incomplete_status_and_no_users(served, admin, tmp_path, caplog):
    folder = FleetFolder(tmp_path / "run")
    folder.make(served.learner)
    assert read_status(folder).redis_mb > 0
    admin.execute_command("ACL", "SETUSER", served.learner.user, "-info", "-config", "-acl|setuser")
    assert read_status(folder).redis_mb is None
    learning._check_settings(admin, served.learner.address)
    assert "cannot be checked" in caplog.text
    with pytest.raises(FleetError, match=r"refuses a command of the user admin: .*acl"), server_errors(served.learner):
        set_user(admin, "test", served.users[0])


def test_a_given_server_must_not_remove_steps(served, admin, caplog):
    learning._check_settings(admin, served.learner.address)
    assert not caplog.text
    admin.config_set("appendfsync", "everysec")
    learning._check_settings(admin, served.learner.address)
    assert "can lose acknowledged steps in a crash: it has appendonly yes and appendfsync everysec" in caplog.text
    admin.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(ConfigError, match="has maxmemory-policy allkeys-lru"):
        learning._check_settings(admin, served.learner.address)


def test_orders_need_a_learner_and_do_not_replace_each_other(served, admin, tmp_path):
    folder, keys = FleetFolder(tmp_path / "run"), Keys(served.learner.run)
    folder.make(served.learner)
    with pytest.raises(FleetError, match="no learner runs that could follow an order"):
        give_order(folder, "stop")
    admin.set(keys.learner, "{}")
    n_saves, n_threads = 10, 3

    def save():
        for _ in range(n_saves):
            give_order(folder, "save")

    with ThreadPoolExecutor() as pool:
        saving = [pool.submit(save) for _ in range(n_threads)]
        give_order(folder, "stop")
        for each in saving:
            each.result()
    assert msgspec.json.decode(admin.get(keys.control), type=Control) == Control(
        state="stop", n_saves=n_saves * n_threads
    )
    assert len(admin.xrange(keys.log)) == n_saves * n_threads + 1


def test_no_secret_is_in_a_file_or_a_command_line(lasting):
    served, folder = lasting
    secrets = [served.learner.password.encode(), served.game.password.encode()]
    texts = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    texts.append(" ".join(psutil.Process(served.server.pid).cmdline()).encode())
    assert not any(secret in text for secret in secrets for text in texts)
    assert folder.stat().st_mode & 0o077 == 0


def test_each_write_reaches_the_disk_and_nothing_is_removed(lasting):
    with closing(connect(lasting[0].learner)) as client:
        settings = client.config_get("append*", "maxmemory-policy")
    assert (settings["appendonly"], settings["appendfsync"]) == ("yes", "always")
    assert settings["maxmemory-policy"] == "noeviction"


def test_what_is_acknowledged_survives_sigkill(served, admin):
    key = Keys("test").steps("play-1", "0" * 16)
    admin.xadd(key, {"c": b"x"}, id="1-0")
    os.kill(served.server.pid, signal.SIGKILL)
    wait_for(lambda: served.server._child.poll() is not None, "its end")
    served.server.watch(served.users)
    assert served.server.n_restarts == 1

    def length():
        try:
            return admin.xlen(key)
        except redis.RedisError:
            return 0

    wait_for(lambda: length() == 1, "the restarted server")


def test_it_has_loaded_its_data_when_it_has_started(served, admin):
    """It answers before, and refuses all commands but a few."""
    admin.config_set("appendfsync", "no")  # only to fill it faster
    with admin.pipeline(transaction=False) as pipe:
        for number in range(30_000):
            pipe.xadd("soulslab:test:steps:play-1:0123456789abcdef", {b"c": bytes(600)}, id=f"{number + 1}-0")
        pipe.execute()
    served.server.close()
    served.server.start(served.users)
    assert admin.xlen("soulslab:test:steps:play-1:0123456789abcdef") == 30_000


def test_a_full_memory_refuses_writes_and_removes_nothing(tmp_path):
    with redis_server(tmp_path, max_memory_mb=16) as served:
        client = connect(served.learner)
        n = 0
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            while True:
                client.xadd("key", {"c": bytes(1 << 20)}, id=f"{n + 1}-0")
                n += 1
        assert client.xlen("key") == n > 4
        write(client, "SET", "order", "x")  # what the learner and operators write is taken
        assert client.get("order") == b"x"
        client.close()


@pytest.mark.parametrize(
    "command",
    [
        ("SET", "soulslab:test:public:weights", "evil"),
        ("DEL", "soulslab:test:public:control"),
        ("XADD", "soulslab:test:steps:play-2:0000000000000000", "1-0", "c", "x"),
        ("GET", "soulslab:test:lease:play-2:0000000000000000"),
        ("XADD", "soulslab:other:steps:play-1:0000000000000000", "1-0", "c", "x"),
        ("XREAD", "STREAMS", "soulslab:test:steps:play-1:0000000000000000", "0"),
        ("SET", "soulslab:test:steps:play-1:0000000000000000", "not a stream"),
        ("DEL", "soulslab:test:steps:play-1:0000000000000000"),
        ("CONFIG", "GET", "dir"),
        ("ACL", "LIST"),
        ("FLUSHALL",),
        ("SHUTDOWN",),
        ("EVAL", "return 1", "0"),
        ("KEYS", "*"),
        ("CLIENT", "LIST"),
        ("MONITOR",),
    ],
)
def test_a_game_may_only_write_its_own_keys(game, command):
    with pytest.raises(redis.exceptions.NoPermissionError):
        game.execute_command(*command)


def test_a_revoked_credential_is_refused_at_once(served, admin):
    with closing(connect(served.game)) as game:
        assert game.ping()
        remove_user(admin, served.game.user)
        with pytest.raises(redis.RedisError):
            game.ping()
        set_user(admin, "test", served.users[0])
        assert game.ping()


def test_users_that_a_given_server_has_lost_are_made_again_but_no_revoked_one(served, admin, tmp_path, caplog):
    folder = FleetFolder(tmp_path / "run")
    folder.make(served.learner)
    kept, revoked = folder.invite(tmp_path / "kept.toml"), folder.invite(tmp_path / "revoked.toml")
    folder.revoke(revoked.name)
    learning._restore_users(admin, folder, served.learner.run)
    with closing(connect(read_access(tmp_path / "kept.toml"))) as client:
        assert client.ping()
    assert revoked.name not in admin.acl_users()
    assert f"had lost the user {kept.name}" in caplog.text
    caplog.clear()
    learning._restore_users(admin, folder, served.learner.run)
    assert not caplog.text


def test_a_game_waits_a_moment_for_its_user_before_it_gives_up(served, admin, tmp_path, monkeypatch):
    monkeypatch.setattr(redis_actor_end, "REFUSAL_S", 1.0)
    remove_user(admin, served.game.user)
    with closing(actor_end(served, tmp_path)) as end:
        wait_for(lambda: end._refused_since is not None, "the refusal")
        assert end.refusal == ""
        set_user(admin, "test", served.users[0])
        wait_for(lambda: end._refused_since is None, "the connection")
        remove_user(admin, served.game.user)
        wait_for(lambda: end.refusal, "the refusal")
        assert "refuses the user play-1" in end.refusal


def test_a_game_that_ends_knows_whether_everything_was_sent(served, tmp_path):
    for is_sent in (True, False):
        end = actor_end(served, tmp_path)
        if not is_sent:
            served.server.close()
        end.push(steps(0, 5))
        assert end.close(5.0 if is_sent else 0.5) is is_sent


def actor_end(served, folder):
    return RedisActorEnd(served.game, "game", 1, ROW, Spool(folder, 1 << 20), some_weights(0).tensors)


def test_a_game_waits_for_the_learner_if_the_last_one_had_another_version(served, admin):
    keys = Keys(served.learner.run)
    old = RunDescription(soulslab="0.0.1", header={}, seed=0, alone_s=1.0)
    new = replace(old, soulslab=VERSION)
    admin.set(keys.description, msgspec.json.encode(old))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(wait_for_description, served.game, lambda: True)
        with pytest.raises(TimeoutError):
            waiting.result(1.0)
        admin.set(keys.description, msgspec.json.encode(new))
        assert waiting.result() == new
    # A learner that runs has the version in the description.
    admin.set(keys.description, msgspec.json.encode(old))
    admin.set(keys.learner, "{}")
    assert wait_for_description(served.game, lambda: True) == old
    for malformed in (b"{", b"\xff", b'{"x": ' + b"[" * 100_000):
        admin.set(keys.description, malformed)
        with pytest.raises(FleetError, match="the description of its run: is not valid JSON"):
            wait_for_description(served.game, lambda: True)


def test_the_reason_is_reported_if_a_server_cannot_start(lasting, tmp_path):
    second = RedisServer(tmp_path / "second", lasting[0].learner, max_memory_mb=16)
    with pytest.raises(FleetError, match="Address already in use"):
        second.start([])


def test_games_of_other_machines_use_tls_with_the_authority_of_the_fleet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = FleetFolder(Path())  # a relative path, as in commands
    admin = folder.make(listen=f"127.0.0.1:{free_port('127.0.0.1')}")
    user = folder.invite(tmp_path / "join.toml")
    game = read_access(tmp_path / "join.toml")
    server = RedisServer(folder.redis_path, admin, max_memory_mb=16, certificates=folder.certificates(admin))
    server.start([user])
    try:
        assert game.address.startswith("rediss://")
        client = connect(game)
        assert client.ping()
        client.close()
        refuse_open_server(admin)
        # A game that trusts another authority, and one that does not encrypt.
        other = FleetFolder(tmp_path / "other").make(listen="127.0.0.1:1")
        write_access(tmp_path / "wrong.toml", replace(game, ca=other.ca))
        with pytest.raises(FleetError, match="has a certificate that this join file does not trust: self"):
            play(tmp_path / "wrong.toml", PlaySettings())
        for wrong in (replace(game, ca=other.ca), replace(game, address=game.address.replace("rediss", "redis"))):
            client = connect(wrong)
            with pytest.raises(redis.exceptions.ConnectionError):
                client.ping()
            client.close()
        assert not list(tmp_path.rglob("ca.key"))
    finally:
        server.close()
    assert folder.make() == admin
    with pytest.raises(ConfigError, match="is not the server in the join files"):
        folder.make(listen="127.0.0.1:1")


def test_the_server_of_a_run_is_that_of_its_join_files(tmp_path, lasting):
    given = lasting[0].learner
    own, other = FleetFolder(tmp_path / "own"), FleetFolder(tmp_path / "other")
    own.make()
    own.invite(tmp_path / "join.toml")
    with pytest.raises(
        ConfigError, match=rf"--redis {given.address} \(run test\): is not the server in the join files"
    ):
        own.make(given)
    assert own.admin().address == read_access(tmp_path / "join.toml").address
    other.make(replace(given, address="redis://127.0.0.1:1"))  # a mistake, before there is a join file
    other.make(given)
    other.invite(tmp_path / "join.toml")
    assert other.make() == other.given() == other.admin() == given  # as in the command that resumes the run
    with pytest.raises(ConfigError, match="is not the server in the join files"):
        other.make(replace(given, run="another"))
    changed = replace(given, password=new_password())
    assert other.make(changed) == other.admin() == changed
