"""A fleet that Ray starts on this machine."""

import sys

import psutil
import pytest

from benchmarks.fleet_processes import FleetProcesses
from soulslab.errors import ConfigError
from soulslab.fleet.ray_cluster import read_cluster

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server runs on Linux")

CLUSTER = """
run_dir: {run_dir}
games: 1
overrides: ["run.total_steps=3000", "run.evaluate_every=0", "env.n_envs=2", "learner.updates_per_step=0.25"]
workers:
  - {{souls_game: 1, cpus: 0}}
  - {{cpus: 0}}
"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("run_dir: here", "workers"),
        ("run_dir: here\nworkers: [{game: 1}]", "unknown field `game`"),
        ("run_dir: here\nworkers: [{count: 0}]", "count"),
        ("run_dir: [", "expected"),
    ],
)
def test_a_wrong_cluster_file_is_refused(tmp_path, text, problem):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_cluster(path)


@pytest.mark.long
def test_a_run_is_completed_on_a_cluster_although_actors_are_killed(tmp_path):
    fleet = FleetProcesses(tmp_path)
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER.format(run_dir=fleet.run_dir))
    assert [worker.souls_game for worker in read_cluster(path).workers] == [1, 0]
    driver = fleet.start("fleet", "up", path)
    try:
        fleet.wait_for(lambda: len(fleet.games()) == 2, "both games")
        before = {game.incarnation for game in fleet.games()}
        for name in ("ray::_Worker.play", "ray::_Learner.learn"):
            actor(driver, name).kill()
        fleet.wait_for(lambda: {game.incarnation for game in fleet.games()} - before, "a game that is started again")
        fleet.wait_for(lambda: driver.poll() is not None, "the end of the run")
        assert driver.returncode == 0, fleet.text()
        assert "completed: 300" in fleet.text()
    finally:
        driver.terminate()
        driver.wait(60)
        fleet.close()


def actor(driver, name):
    """Return the process of an actor of the cluster that a process has started."""
    return next(
        each
        for each in psutil.Process(driver.pid).children(recursive=True)
        if " ".join(each.cmdline()).startswith(name)
    )
