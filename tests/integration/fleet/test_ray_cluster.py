"""A fleet that Ray starts on this machine."""

import os
import re
import shutil
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from benchmarks.fleet_processes import FleetProcesses
from soulslab.errors import ConfigError, FleetError
from soulslab.fleet.access import read_access
from soulslab.learn.configs import config_path
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server runs on Linux")

#: Ray takes a minute to start on a busy machine.
DEADLINE_S = 300.0

CLUSTER = """
run_dir: {run_dir}
games: 1
overrides: ["run.total_steps={n_steps}", "run.evaluate_every=0", "env.n_envs=2", "learner.updates_per_step=0.25"]
workers:
  - {{souls_game: 1, cpus: 0}}
"""
#: Variable of Ray: the nice value of actors.
NICENESS = "RAY_worker_niceness"
#: A second actor that plays.
SIMULATOR = "  - {cpus: 0}\n"


@pytest.fixture(scope="module")
def read_cluster():
    """The function; Ray takes half a second to import, and each process of the suite collects this file."""
    from soulslab.fleet.ray_cluster import read_cluster  # noqa: PLC0415

    return read_cluster


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("run_dir: here", "workers"),
        ("run_dir: here\nworkers: [{game: 1}]", "unknown field `game`"),
        ("run_dir: here\nworkers: [{count: 0}]", "count"),
        ("run_dir: here\nworkers: [{evaluate: true, envs: 4}]", "envs must be 1 with evaluate"),
        ("run_dir: [", "expected"),
        (b"run_dir: \xff", "is not UTF-8"),
        ("[" * 10_000, "recursion"),
        ("[" * 20_000, "is too large"),
        ("run_dir: !!bool x", "'x'"),
        ("a: &a [x]\nworkers: [*a, *a]", "has an alias"),
    ],
)
def test_a_wrong_cluster_file_is_refused(read_cluster, tmp_path, text, problem):
    path = tmp_path / "cluster.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=problem):
        read_cluster(path)


@pytest.mark.parametrize(
    ("address", "given", "expected"),
    [("", {}, "0"), ("", {NICENESS: "5"}, "5"), ("192.168.1.5:6379", {}, None)],
)
def test_only_the_actors_of_the_own_cluster_get_the_priority_of_the_command(
    monkeypatch, tmp_path, address, given, expected
):
    from soulslab.fleet import ray_cluster  # noqa: PLC0415

    found = []

    def refuse(**options):
        found.append(os.environ.get(NICENESS))
        raise RuntimeError("refused")

    others = {name: value for name, value in os.environ.items() if name != NICENESS}
    monkeypatch.setattr(os, "environ", others | given)
    monkeypatch.setattr(ray_cluster.ray, "init", refuse)
    workers = (ray_cluster.WorkerSettings(),)
    settings = ray_cluster.ClusterSettings(run_dir=str(tmp_path / "run"), address=address, workers=workers)
    with pytest.raises(FleetError, match="refused"):
        ray_cluster.up(settings)
    assert found == [expected]


@pytest.fixture
def fleet(tmp_path):
    """A fleet whose temporary files and those of Ray are in folders with short names, because they include sockets."""
    made = FleetProcesses(tmp_path)
    # Without a process for each core that waits for work.
    made.environment["RAY_prestart_worker_first_driver"] = "0"
    made.environment.pop(NICENESS, None)
    with TemporaryDirectory(prefix="ray") as folder, TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        made.environment |= {"RAY_TMPDIR": folder, "TMPDIR": temporary}
        yield made
        made.close()


def write_cluster(fleet, path, n_steps):
    path.write_text(CLUSTER.format(run_dir=fleet.run_dir, n_steps=n_steps))


def test_a_relative_config_is_that_of_the_command(read_cluster, tmp_path, monkeypatch):
    """The learner runs where the cluster was started, perhaps in another folder with a file of this name."""
    from soulslab.fleet import ray_cluster  # noqa: PLC0415

    started = []
    monkeypatch.setattr(ray_cluster, "_connect", lambda _: None)
    monkeypatch.setattr(ray_cluster, "_run", lambda settings, _: started.append(settings))
    monkeypatch.chdir(tmp_path)
    shutil.copy(config_path("rainbow.toml"), "mine.toml")
    Path("cluster.yaml").write_text("run_dir: run\nconfig: mine.toml\nworkers: [{}]\n")
    ray_cluster.up(read_cluster(Path("cluster.yaml")))
    assert (started[0].config, started[0].run_dir) == (str(tmp_path / "mine.toml"), str(tmp_path / "run"))


def test_actors_of_ray_complete_a_run(fleet, tmp_path):
    path = tmp_path / "cluster.yaml"
    write_cluster(fleet, path, n_steps=100)
    driver = fleet.start("fleet", "up", path)
    fleet.wait_for(lambda: driver.poll() is not None, "the end of the run", DEADLINE_S)
    assert driver.returncode == 0, fleet.text()
    completed = re.search(r"completed: (\d+) steps", fleet.text())
    assert int(completed[1]) >= 100  # the last message of a game may have more steps than were missing
    # Ray reports the nice value of the learner and of the worker; this process and the command have the same.
    niceness = re.findall(rb"Adjusted worker niceness to (-?\d+)", b"".join(file.read_bytes() for file in logs(fleet)))
    assert len(niceness) >= 2
    assert {int(value) for value in niceness} == {psutil.Process().nice()}
    # The temporary files of the actor and its game were removed.
    assert not list(Path(fleet.environment["TMPDIR"]).glob("soulslab-*"))
    # Ray's logs are readable for others.
    secret = read_access(fleet.join).password.encode()
    assert logs(fleet)
    assert not any(secret in file.read_bytes() for file in logs(fleet))


@pytest.mark.long
def test_a_run_survives_kills_and_ctrl_c_and_is_completed(read_cluster, fleet, tmp_path):
    path = tmp_path / "cluster.yaml"
    write_cluster(fleet, path, n_steps=20_000)
    path.write_text(path.read_text() + SIMULATOR)
    assert [worker.souls_game for worker in read_cluster(path).workers] == [1, 0]
    driver = fleet.start("fleet", "up", path)
    fleet.wait_for(lambda: len(fleet.games()) == 2, "both games", DEADLINE_S)
    before = {game.incarnation for game in fleet.games()}
    for name in ("ray::_Worker.play", "ray::_Learner.learn"):
        actor(driver, name).kill()
    fleet.wait_for(lambda: {game.incarnation for game in fleet.games()} - before, "a restarted game", DEADLINE_S)
    fleet.wait_for(lambda: fleet.learner() is not None, "the learner", DEADLINE_S)
    # Ray's logs are readable for others.
    processes = psutil.Process(driver.pid).children(recursive=True)
    secret = read_access(fleet.join).password
    assert not any(secret in command(process) for process in processes)
    driver.send_signal(signal.SIGINT)
    fleet.wait_for(lambda: driver.poll() is not None, "the end", DEADLINE_S)
    assert driver.returncode == 0, fleet.text()
    assert "requested" in fleet.text()
    _, left = psutil.wait_procs(processes, timeout=PATIENCE_S)
    assert not left
    assert not any(secret.encode() in file.read_bytes() for file in logs(fleet))
    driver = fleet.start("fleet", "up", path)
    fleet.wait_for(lambda: driver.poll() is not None, "the end of the run", DEADLINE_S)
    assert driver.returncode == 0, fleet.text()
    assert "completed: 20" in fleet.text()


@pytest.mark.long
def test_the_reason_is_reported_if_all_games_give_up(fleet, tmp_path):
    path = tmp_path / "cluster.yaml"
    write_cluster(fleet, path, n_steps=20_000)
    path.write_text((path.read_text() + SIMULATOR).replace("cpus: 0}", "cpus: 0, options: {boss: nobody}}"))
    driver = fleet.start("fleet", "up", path)
    fleet.wait_for(lambda: driver.poll() is not None, "the end", DEADLINE_S)
    assert driver.returncode == 1
    assert "all games gave up, and the run is saved" in fleet.text()
    assert "nobody" in fleet.text()


def logs(fleet):
    return [path for path in Path(fleet.environment["RAY_TMPDIR"]).rglob("*") if path.is_file()]


def actor(driver, name):
    """Return the process of an actor of the cluster that a process has started."""
    return next(each for each in psutil.Process(driver.pid).children(recursive=True) if command(each).startswith(name))


def command(process):
    """Return the command line of a process; "" if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
