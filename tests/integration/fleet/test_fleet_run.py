"""A learner and games in real processes: they come, go, fail and are refused, and the run goes on."""

import json
import signal
import subprocess
import sys

import numpy as np
import psutil
import pytest
from msgspec.structs import replace

from benchmarks.fleet_processes import DEADLINE_S, end, game_processes
from soulslab.cli.application import run
from soulslab.errors import ConfigError, FleetError
from soulslab.fleet.access import Keys, read_access
from soulslab.fleet.chunk import ChunkHeader, encode_chunk
from soulslab.fleet.messages import wait_for_description
from soulslab.fleet.run_description import read_policy
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.settings import TrainSettings
from soulslab.learn.train import train
from support.fleet import FleetOnTrial, connected, fleet_ppo_settings, fleet_settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX; the server runs on Linux")

#: Other checks take about as long, and on a busy machine a game that plays makes many steps in this time.
FROZEN_S = 8


@pytest.fixture
def trial(tmp_path):
    each = FleetOnTrial(tmp_path)
    yield each
    each.close()


def test_a_run_goes_from_one_process_to_a_fleet_and_back(trial, capfd):
    result = train(fleet_settings(total_steps=200), trial.run_dir)
    learner = trial.learn_here("resume", "--set", "run.total_steps=1_000_000")
    machine = trial.play("--games", "2")
    trial.wait_for_steps(result.env_steps + 300)
    trial.wait_for(lambda: [game.state for game in trial.games()] == ["playing"] * 2, "both games")
    games = trial.games()
    assert [game.worker.partition("/")[2] for game in games] == ["0", "1"]
    assert all(game.n_dropped == 0 for game in games)
    # The table and the JSON of the command show the same.
    assert run(["fleet", "status", str(trial.run_dir), "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["games"]) == 2
    assert run(["fleet", "status", str(trial.run_dir)]) == 0
    assert "playing" in capfd.readouterr().out
    # A weight of the reward: an episode of 20 steps gives at most 20 with the old one.
    assert run(["fleet", "set", str(trial.run_dir), "env.options.reward.first=1000"]) == 0
    assert "earlier steps keep their rewards in the replay buffer" in capfd.readouterr().out
    trial.wait_for(lambda: mean_returns(trial)[-1] > 25.0, "a return with the new weight")
    # A pause does not interrupt an episode of 20 steps.
    assert run(["fleet", "pause", str(trial.run_dir)]) == 0
    trial.wait_for(lambda: {game.state for game in trial.games()} == {"paused"}, "the pause")
    trial.wait_for(lambda: {game.n_steps % 20 for game in trial.games()} == {0}, "the last steps")
    n_steps = sum(game.n_steps for game in trial.games())
    assert run(["fleet", "resume", str(trial.run_dir)]) == 0
    trial.wait_for(lambda: sum(game.n_steps for game in trial.games()) > n_steps + 20, "more steps")
    # A checkpoint on request, and then the end of everything.
    assert run(["fleet", "save", str(trial.run_dir)]) == 0
    log = trial.status().log
    assert [entry.what for entry in log] == ["set env.options.reward.first=1000 (was 1)", "pause", "run", "save"]
    assert all("@" in entry.who for entry in log)
    assert run(["fleet", "stop", str(trial.run_dir)]) == 0
    assert learner.result(DEADLINE_S) == 0
    assert trial.end_of(machine) == 0
    check_files(trial)
    last = CheckpointStore(trial.run_dir / "checkpoints", 3).latest()
    n_steps = int(last.tensors["run/counts"][0])
    assert n_steps >= result.env_steps + 300
    ended = replace(fleet_settings(), run=replace(fleet_settings().run, total_steps=n_steps + 100))
    resumed = train(ended, trial.run_dir, resume=True)
    assert resumed.env_steps >= n_steps + 100
    assert resumed.mean_return > 25.0


@pytest.mark.parametrize("settings", [fleet_ppo_settings(), pytest.param(fleet_settings(), marks=pytest.mark.long)])
def test_frozen_killed_hostile_and_refused(tmp_path, settings):
    trial = FleetOnTrial(tmp_path, settings)
    trial.popen = subprocess.Popen  # the programs as people start them
    try:
        check_faults(trial)
    finally:
        trial.close()


def check_faults(trial):
    learner = trial.learn()
    access = send_malformed_messages(trial)
    machine = trial.play("--name", "pc", "--games", "2", "--frozen-s", FROZEN_S)
    for incarnation in ("f" * 16, "e" * 16):
        trial.wait_for_text(f"{access.user}/{incarnation}: sent a malformed message")
    trial.wait_for(lambda: [game.state for game in trial.games()] == ["playing"] * 2, "both games")
    check_command_lines(trial, learner, machine)
    before = {game.incarnation for game in trial.games()}
    game_processes(machine)[0].suspend()
    trial.wait_for_steps(200, is_further=True)  # the learner does not wait for a frozen game
    assert run(["fleet", "set", str(trial.run_dir), "env.options.reward.first=50"]) == 0
    trial.wait_for(lambda: mean_returns(trial)[-1] > 25.0, "a return with the new weight")
    # The learner is killed, and with it the server; the other game plays on, and the run continues.
    n_steps = trial.wait_for_steps(0)
    end(learner)
    trial.wait_for(lambda: trial.status() is None, "the end of the server")
    trial.learn_here("resume")
    trial.wait_for_steps(n_steps + 100)
    description = wait_for_description(access, lambda: True)
    with pytest.raises(ConfigError, match="selects code"):
        read_policy(description, "", "soulslab.testing.paced_env:testing/Other-v0")
    with pytest.raises(FleetError, match="the learner has soulslab 0, but this machine has"):
        read_policy(replace(description, soulslab="0"), "")
    # Meanwhile, the frozen game was killed and started again, with a new incarnation.
    trial.wait_for(lambda: restarted(trial, before), "the restart")
    game = restarted(trial, before)
    assert game.worker.startswith("pc/")
    assert game.n_restarts > 0
    assert all(game.n_dropped == 0 for game in trial.games())
    if isinstance(
        trial.settings, TrainSettings
    ):  # PPO has learned meanwhile: 1000 is possible, random actions give 500
        trial.wait_for(lambda: mean_returns(trial)[-1] > 750.0, "a return of 750, also with the new weight")
    # A game that the learner refuses ends with the reason, and the other plays on.
    with connected(access) as client:
        stream = Keys(access.run).steps(access.user, game.incarnation)
        client.xadd(stream, {"c": b"damaged"}, id=f"{2**40}-0")
    trial.wait_for_text(f"game {game.worker} is given up: ended with 3")
    trial.wait_for_text("the learner refuses this game: it sent a malformed message")
    refusal = f"{access.user}/{game.incarnation}: sent a malformed message"
    trial.wait_for(lambda: trial.learner().refusals[-1].startswith(refusal), "the refusal in the status")
    # SIGTERM drains: all steps of the games are sent, and their leases end.
    machine.send_signal(signal.SIGTERM)
    assert trial.end_of(machine) == 1
    trial.wait_for(lambda: (status := trial.status()) is not None and not status.games, "the end of the leases")
    assert "dropped" not in trial.text()


def passwords_of(trial):
    return [trial.fleet.admin().password, read_access(trial.join).password]


def check_command_lines(trial, *started):
    """Check that no password is in a command line."""
    processes = [psutil.Process(each.pid) for each in started]
    lines = [" ".join(each.cmdline()) for one in processes for each in (one, *one.children(recursive=True))]
    assert len(lines) > 4
    assert not any(password in line for password in passwords_of(trial) for line in lines)


def check_files(trial):
    """Check that no password is in a file of the run that people share, or in the output."""
    paths = [path for path in trial.run_dir.rglob("*") if path.is_file() and trial.fleet.path not in path.parents]
    texts = [path.read_bytes() for path in paths if path != trial.join]
    assert {"config.toml", "progress.jsonl", "policy.safetensors"} <= {path.name for path in paths}
    texts.append(trial.text().encode())
    assert not any(password.encode() in text for password in passwords_of(trial) for text in texts)


def restarted(trial, before):
    """Return a game that runs again after it was frozen; None if there is none."""
    new = (game for game in trial.games() if game.incarnation not in before)
    return next((game for game in new if f"made no step for {FROZEN_S} s" in game.last_fault), None)


def mean_returns(trial):
    return [0.0, *(found for each in trial.progress() if (found := each.get("mean_return")) is not None)]


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
