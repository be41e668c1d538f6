"""Evaluation games, a person's game and settings in flight, with a learner, a server and games in real processes."""

import subprocess
import sys
from contextlib import closing

import msgspec
import pytest
from msgspec.structs import replace

from benchmarks.fleet_processes import DEADLINE_S
from soulslab.cli.application import run
from soulslab.fights.fit_recordings import read_recorded_fights
from soulslab.fleet.access import Keys, read_access
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.demonstrations.reading import read_demonstrations, read_outcomes
from soulslab.learn.environment import make_vector
from soulslab.learn.players import load_player
from soulslab.learn.run_folder import BEST_POLICY_NAME
from soulslab.learn.settings import EnvSettings
from support.fleet import FleetOnTrial, connected, fleet_settings
from support.forked import ForkedPopen
from support.waiting import PATIENCE_S

#: The command line, ten times as fast as it is played.
PLAY = """
import sys
import soulslab.play.terminal_game
soulslab.play.terminal_game.DECISION_S = 0.01
from soulslab.cli import run
sys.exit(run(sys.argv[1:]))
"""

SLOW = "support.slow_arena:SlowArena-v0"
REWARD = {"win": 1.0, "time": 0.001}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server runs on Linux")


@pytest.fixture
def trial(tmp_path):
    settings = fleet_settings()
    settings = replace(
        settings,
        env=EnvSettings(
            id="soulslab/Arena-v0",
            n_envs=2,
            options={"phase": "1", "skip_locked": True, "reward": REWARD},
        ),
        run=replace(settings.run, evaluate_fights=2),
    )
    each = FleetOnTrial(tmp_path, settings)
    yield each
    each.close()


def test_games_evaluate_and_settings_change_while_a_run_trains(trial, capfd, caplog):
    learner = trial.learn_here()
    machine = trial.play(env_id=SLOW)
    invited = trial.folder / "invited.toml"
    assert run(["fleet", "invite", str(trial.run_dir), str(invited)]) == 0
    judge = trial.play("--evaluate", "--name", "judge", "--record", trial.folder / "fights", env_id="", join=invited)
    trial.wait_for(lambda: (found := evaluation(trial)) is not None and found.last is not None, "one")
    first = evaluation(trial).last
    assert first.n_fights == 2
    assert 0.0 <= first.low <= first.win_rate <= first.high <= 1.0
    assert first.mean_return < 10.0
    trial.wait_for(lambda: evaluation(trial).last.env_steps > first.env_steps, "the next evaluation")
    assert [game.worker for game in trial.games() if game.role == "evaluating"] == ["judge/0"]
    assert run(["fleet", "status", str(trial.run_dir)]) == 0
    printed = capfd.readouterr().out
    assert "of 2 fights won (95 % interval" in printed
    assert "(evaluating)" in printed

    changes = ["learner.lr=1e-5", "learner.epsilon_end=0.25", "env.options.reward.time=10"]
    assert run(["fleet", "set", str(trial.run_dir), *changes]) == 0
    assert run(["fleet", "set", str(trial.run_dir), "learner.gamma=0.5"]) != 0
    assert "learner.gamma" in capfd.readouterr().err
    store = CheckpointStore(trial.run_dir / "checkpoints", 3)
    trial.wait_for(lambda: store.latest().header["changes"], "the change")
    expected = {"learner.lr": 1e-5, "learner.epsilon_end": 0.25, "env.options.reward.time": 10}
    assert store.latest().header["changes"] == expected
    with connected(trial.fleet.admin()) as client:
        (_, invitation), (_, entry) = client.xrange(Keys(trial.fleet.admin().run).log)
    values = "learner.lr=1e-05 (was 0.0003) learner.epsilon_end=0.25 (was 0.01) env.options.reward.time=10 (was 0.001)"
    assert entry[b"what"].decode() == f"set {values}"
    assert b"@" in entry[b"who"]
    user = read_access(invited).user
    assert invitation[b"what"].decode() == f"invite {user}"
    # A fight takes more than ten decisions.
    trial.wait_for(lambda: evaluation(trial).last.mean_return > 100.0, "an evaluation with the new weight")

    # A revoked credential ends its games.
    assert run(["fleet", "revoke", str(trial.run_dir), user]) == 0
    assert trial.end_of(judge) != 0
    assert "refuses the user" in trial.text()
    check_recording(trial, trial.folder / "fights" / "0")

    assert run(["fleet", "pause", str(trial.run_dir)]) == 0  # of games; a person plays on
    play_yourself(trial)
    assert "sent a malformed" not in caplog.text

    # The best policy is the newest one with the highest win rate. All may have lost all fights; a unit test of the
    # training loop has win rates that decline.
    assert run(["fleet", "stop", str(trial.run_dir)]) == 0
    assert learner.result(DEADLINE_S) == 0
    assert trial.end_of(machine) == 0
    assert [each["lr"] for each in trial.progress() if "lr" in each][-1] == 1e-5
    evaluated = [each for each in trial.progress() if each["type"] == "Evaluated"]
    best = load_player(trial.run_dir / BEST_POLICY_NAME)
    highest = max(each["win_rate"] for each in evaluated)
    assert best.header.env_steps == [each["env_steps"] for each in evaluated if each["win_rate"] == highest][-1]


def check_recording(trial, folder):
    """Check that the run could learn from the fights of the evaluation game, and a boss be fitted to them."""
    settings = trial.settings.env
    description = describe(folder)
    assert description.n_episodes >= 2
    assert description.player == "evaluating game of a fleet"
    with closing(make_vector(settings.id, 1, settings.options)) as env:
        rows = read_demonstrations(folder, env, settings, is_masked=True)
    assert rows["is_first"].sum() == description.n_episodes
    assert len(rows) >= description.n_steps
    # The rewards are those of the config, also after the weight of a term was changed.
    assert rows["reward"].max() < 10.0
    assert len(read_recorded_fights([folder])) == description.n_episodes


def play_yourself(trial):
    """Fight once in a terminal; the fight reaches the learner, and a data set."""
    from support.pty import Pty  # noqa: PLC0415 - pseudo-terminals are POSIX

    terminal, out = Pty(), trial.folder / "mine"
    command = ["fleet", "play", str(trial.join), "--human", str(out)]
    with ForkedPopen(
        [sys.executable, "-c", PLAY, *command],
        stdin=terminal.slave,
        stdout=terminal.slave,
        stderr=subprocess.PIPE,
        env=trial.environment,
    ) as process:
        try:
            terminal.wait_for("The Halberd Judge, phase 1", DEADLINE_S)
            terminal.type("w j")
            terminal.wait_for("R another fight")
            trial.wait_for(lambda: any(game.role == "human" and game.n_steps for game in trial.games()), "the fight")
            incarnation = next(game.incarnation for game in trial.games() if game.role == "human")
            terminal.type("q")
            _, errors = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, errors
        finally:
            process.kill()
            terminal.close()
    assert describe(out).n_episodes == 1
    outcomes = read_outcomes(describe(out))
    assert outcomes[0]["total_reward"] > 100.0  # with the new weight
    n_steps = sum(each["total_steps"] for each in outcomes)
    store = CheckpointStore(trial.run_dir / "checkpoints", 3)
    trial.wait_for(lambda: n_taken(store.latest(), incarnation) == n_steps, "its steps at the learner")


def n_taken(checkpoint, incarnation):
    """Return the rows of a game that a checkpoint holds."""
    state = msgspec.msgpack.decode(checkpoint.tensors["playing/fleet"].tobytes())
    return next((game["n_taken"] for game in state["games"] if game["incarnation"] == incarnation), 0)


def evaluation(trial):
    learner = trial.learner()
    return learner.evaluation if learner is not None else None
