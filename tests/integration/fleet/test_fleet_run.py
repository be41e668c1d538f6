"""A learner and games in real processes: they come, go, fail and are refused, and the run goes on."""

import json
import signal
import sys

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.fleet_processes import end, game_processes
from soulslab.cli.application import run
from soulslab.errors import ConfigError
from soulslab.fleet.access import Keys, read_access
from soulslab.fleet.chunk import ChunkHeader, encode_chunk
from soulslab.fleet.run_description import read_policy, wait_for_description
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.settings import TrainSettings
from soulslab.learn.train import train
from support.fleet import FleetOnTrial, connected, fleet_ppo_settings, fleet_settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX; the server runs on Linux")


@pytest.fixture
def trial(tmp_path):
    each = FleetOnTrial(tmp_path)
    yield each
    each.close()


def test_a_run_goes_from_one_process_to_a_fleet_and_back(trial, capfd):
    result = train(fleet_settings(total_steps=200), trial.run_dir)
    learner = trial.learn("resume", "--set", "run.total_steps=1_000_000")
    machine = trial.play("--games", "2")
    trial.wait_for_steps(result.env_steps + 300)
    trial.wait_for(lambda: [game.state for game in trial.games()] == ["playing"] * 2, "both games")
    status = trial.status()
    assert [game.worker.partition("/")[2] for game in status.games] == ["0", "1"]
    assert all(game.n_dropped == 0 for game in status.games)
    # The table and the JSON of the command show the same.
    assert run(["fleet", "status", str(trial.run_dir), "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["games"]) == 2
    assert run(["fleet", "status", str(trial.run_dir)]) == 0
    assert "playing" in capfd.readouterr().out
    # A pause does not interrupt an episode of 20 steps.
    assert run(["fleet", "pause", str(trial.run_dir)]) == 0
    trial.wait_for(lambda: {game.state for game in trial.games()} == {"paused"}, "the pause")
    trial.wait_for(lambda: {game.n_steps % 20 for game in trial.games()} == {0}, "the last steps")
    n_steps = sum(game.n_steps for game in trial.status().games)
    assert run(["fleet", "resume", str(trial.run_dir)]) == 0
    trial.wait_for(lambda: sum(game.n_steps for game in trial.games()) > n_steps + 20, "more steps")
    # A checkpoint on request, and then the end of everything.
    assert run(["fleet", "save", str(trial.run_dir)]) == 0
    with connected(trial.fleet.admin()) as client:
        log = client.xrange(Keys(trial.fleet.admin().run).log)
    assert [entry[b"what"] for _, entry in log] == [b"pause", b"run", b"save"]
    assert all(b"@" in entry[b"who"] for _, entry in log)
    assert run(["fleet", "stop", str(trial.run_dir)]) == 0
    assert learner.wait(60) == 0
    assert machine.wait(60) == 0
    last = CheckpointStore(trial.run_dir / "checkpoints", 3).latest()
    n_steps = int(last.tensors["run/counts"][0])
    assert n_steps >= result.env_steps + 300
    ended = replace(fleet_settings(), run=replace(fleet_settings().run, total_steps=n_steps + 100))
    assert train(ended, trial.run_dir, resume=True).env_steps >= n_steps + 100


@pytest.mark.parametrize("settings", [fleet_ppo_settings(), pytest.param(fleet_settings(), marks=pytest.mark.long)])
def test_frozen_killed_hostile_and_refused(tmp_path, settings):
    trial = FleetOnTrial(tmp_path, settings)
    try:
        check_faults(trial)
    finally:
        trial.close()
    if isinstance(settings, TrainSettings):  # PPO has learned meanwhile
        returns = [found for each in progress(trial) if (found := each.get("mean_return")) is not None]
        assert returns[-1] > 15.0, returns  # of 20; random actions give 10


def progress(trial):
    return [json.loads(line) for line in (trial.run_dir / "progress.jsonl").read_text().splitlines()]


def check_faults(trial):
    learner = trial.learn()
    access = send_malformed_messages(trial)
    machine = trial.play("--name", "pc", "--games", "2", "--frozen-s", "4")
    trial.wait_for_steps(100)
    for incarnation in ("f" * 16, "e" * 16):
        trial.wait_for_text(f"{access.user}/{incarnation}: sent a malformed message")
    # A frozen game is killed and started again, with a new incarnation.
    trial.wait_for(lambda: [game.state for game in trial.games()] == ["playing"] * 2, "both games")
    before = {game.incarnation for game in trial.games()}
    game_processes(machine)[0].suspend()
    trial.wait_for_steps(trial.learner().env_steps + 200)  # the learner does not wait for it
    trial.wait_for(lambda: any(game.n_restarts for game in trial.games()), "the restart")
    found = next(game for game in trial.status().games if game.n_restarts)
    assert found.worker == "pc/0"
    assert found.incarnation not in before
    assert "made no step for 4 s" in found.last_fault
    # The learner is killed, and with it the server; the game plays on, and the run continues.
    n_steps = trial.learner().env_steps
    end(learner)
    trial.learn("resume")
    trial.wait_for_steps(n_steps + 100)
    assert all(game.n_dropped == 0 for game in trial.status().games)
    # SIGTERM drains: all steps of the game are sent, and its lease ends.
    machine.send_signal(signal.SIGTERM)
    assert machine.wait(60) == 0
    trial.wait_for(lambda: found.incarnation not in {game.incarnation for game in trial.status().games}, "the end")
    assert "dropped" not in trial.text()
    # A credential that was revoked, and an environment that this machine may not play.
    second = trial.folder / "second.toml"
    assert run(["fleet", "invite", str(trial.run_dir), str(second)]) == 0
    assert run(["fleet", "revoke", str(trial.run_dir), access.user]) == 0
    assert trial.play().wait(60) != 0
    assert "refuses the user" in trial.text()
    description = wait_for_description(read_access(second), lambda: True)
    with pytest.raises(ConfigError, match="selects code"):
        read_policy(description, "", "soulslab.testing.paced_env:testing/Other-v0")


def send_malformed_messages(trial):
    """Send what a learner must refuse, with a valid credential; return the credential."""
    access = read_access(trial.join)
    keys = Keys(access.run)
    with connected(access) as client:
        client.xadd(keys.steps(access.user, "f" * 16), {"c": b"\x80\x04pickle"}, id="1-0")
        client.xadd(keys.steps(access.user, "not-an-incarnation"), {"x": b""}, id="1-0")
        header = ChunkHeader(
            worker="evil", incarnation="e" * 16, sequence=1, weights_version=0, row="0" * 32, n_envs=1, n_rows=0
        )
        client.xadd(keys.steps(access.user, "e" * 16), {"c": encode_chunk(header, np.empty(0))}, id="1-0")
        client.set(keys.lease(access.user, "d" * 16), b"\xff{not json")
    return access
