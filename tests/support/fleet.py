"""A fleet in real processes for tests."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from benchmarks.fleet_processes import FleetProcesses
from soulslab.cli.application import run
from soulslab.config import dump_settings
from soulslab.fleet.access import connect
from soulslab.fleet.operating import give_order
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, RainbowRunSettings
from soulslab.learn.settings import NetworkSettings, PPOSettings, ReplaySettings, RunSettings, TrainSettings
from soulslab.learn.sinks import PROGRESS_NAME
from soulslab.testing.paced_env import PACED_ID
from support.forked import ForkedPopen
from support.small_learner import small_settings

TESTS = Path(__file__).parents[1]
ENV_ID = f"soulslab.testing.paced_env:{PACED_ID}"
#: Time of a step (s); at a higher rate the processes of a test need much of the processor while it waits.
STEP_S = 0.01


def fleet_settings(total_steps=1_000_000):
    settings = small_settings()
    return replace(
        settings,
        env=replace(settings.env, n_envs=2, options={**settings.env.options, "step_s": STEP_S, "reward": {"first": 1}}),
        learner=QLearningSettings(learning_starts=50, updates_per_step=0.1, batch_size=8, epsilon_decisions=100),
        replay=ReplaySettings(capacity=10_000),
        run=RainbowRunSettings(total_steps=total_steps, evaluate_every=0, checkpoint_every_s=1.0),
    )


def fleet_ppo_settings():
    """Return the settings of PPO for the same game, in which the first action is the best one."""
    settings = fleet_settings()
    return TrainSettings(
        env=settings.env,
        learner=PPOSettings(n_steps=16, minibatch_size=32, lr=1e-2, lr_end=1e-2, gamma=0.5),
        network=NetworkSettings(widths=(8,), shared=True),
        run=RunSettings(total_steps=1_000_000, checkpoint_every_s=1.0),
    )


class FleetOnTrial(FleetProcesses):
    """A fleet with given settings, whose machines can import the modules of the tests."""

    popen = ForkedPopen

    def __init__(self, folder, settings=None):
        super().__init__(folder)
        self.environment["PYTHONPATH"] += f":{TESTS}"
        self.folder = folder
        self.settings = settings or fleet_settings()

    def learn(self, *arguments):
        """Start the learner, and wait until games can join."""
        return self.start_learner(*self._words(arguments))

    def learn_here(self, *arguments) -> Future[int]:
        """Run the command of the learner in a thread of this process, which has already imported everything.

        Wait until games can join. It is asked to stop when the fleet is closed, unless it has ended.
        """
        pool = self._parts.enter_context(ThreadPoolExecutor(1))
        learner = pool.submit(run, ["fleet", "learn", *map(str, self._words(arguments))])
        self._parts.callback(lambda: learner.done() or give_order(self.fleet, "stop"))
        self.wait_for(lambda: learner.done() or self.learner() is not None, "the learner")
        assert not learner.done(), learner.result()
        return learner

    def _words(self, arguments):
        config = self.folder / "config.toml"
        if not config.exists():
            config.write_text(dump_settings(self.settings))
        is_new = "resume" not in arguments
        where = ("--config", config, "--run-dir", self.run_dir) if is_new else ("--resume", self.run_dir, "--trust")
        return [*where, *[each for each in arguments if each != "resume"]]

    def play(self, *arguments, env_id=ENV_ID, join=None):
        """Start the games of a machine; ``env_id`` "" leaves the environment to the learner."""
        own = ("--set", f"env.id={env_id}") if env_id else ()
        return self.start("fleet", "play", join or self.join, *own, *arguments)

    def end_of(self, child):
        """Wait until a process has ended, and return its exit code."""
        self.wait_for(lambda: child.poll() is not None, "the end of a process")
        return child.returncode

    def wait_for_steps(self, n, *, is_further=False):
        """Wait until the learner has taken n steps, or n more than now; return the number of its steps."""
        found = []

        def is_over():
            if (learner := self.learner()) is not None:
                found.append(learner.env_steps)
            return found and found[-1] >= n + (found[0] if is_further else 0)

        self.wait_for(is_over, "steps")
        return found[-1]

    def wait_for_text(self, text):
        self.wait_for(lambda: text in self.text(), text)

    def progress(self):
        """Return the messages in ``progress.jsonl``, without a line that is not complete yet."""
        path = self.run_dir / PROGRESS_NAME
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


@contextmanager
def connected(access):
    client = connect(access)
    try:
        yield client
    finally:
        client.close()
