"""A fleet in real processes for tests: a learner, its server, and machines with games."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

from msgspec.structs import replace

from soulslab.config import dump_settings
from soulslab.fleet.access import connect
from soulslab.fleet.fleet_folder import FleetFolder
from soulslab.fleet.operating import read_status
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, RainbowRunSettings
from soulslab.learn.settings import ReplaySettings
from soulslab.testing.paced_env import PACED_ID
from support.small_learner import small_settings
from support.waiting import wait_for

DEADLINE_S = 120.0
ENV_ID = f"soulslab.testing.paced_env:{PACED_ID}"


def fleet_settings(total_steps=1_000_000):
    settings = small_settings()
    return replace(
        settings,
        env=replace(settings.env, n_envs=2),
        learner=QLearningSettings(learning_starts=50, updates_per_step=0.5, batch_size=8, epsilon_decisions=100),
        replay=ReplaySettings(capacity=50_000),
        run=RainbowRunSettings(total_steps=total_steps, evaluate_every=0, checkpoint_every_s=0.5),
    )


def soulslab(*arguments, log):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "soulslab", *map(str, arguments)], stdout=output, stderr=output, env=environment
        )


class FleetOnTrial:
    """A fleet in a folder: its learner and its machines."""

    def __init__(self, folder, settings=None):
        self.folder = folder
        self._settings = settings or fleet_settings()
        self.run_dir = folder / "run"
        self.join = self.run_dir / "join.toml"
        self.fleet = FleetFolder(self.run_dir)
        self.log = folder / "log"
        self._parts = ExitStack()

    def learn(self, *arguments):
        """Start the learner, and wait until games can join."""
        config = self.folder / "rainbow.toml"
        if not config.exists():
            config.write_text(dump_settings(self._settings))
        is_new = "resume" not in arguments
        where = ("--config", config, "--run-dir", self.run_dir) if is_new else ("--resume", self.run_dir, "--trust")
        child = self._started("fleet", "learn", *where, *[each for each in arguments if each != "resume"])
        wait_for(lambda: child.poll() is not None or self.learner() is not None, "the learner", deadline_s=DEADLINE_S)
        assert child.poll() is None, self.text()
        return child

    def play(self, *arguments, env_id=ENV_ID):
        """Start the games of a machine; ``env_id`` "" leaves the environment to the learner."""
        own = ("--set", f"env.id={env_id}") if env_id else ()
        return self._started("fleet", "play", self.join, *own, *arguments)

    def status(self):
        try:
            return read_status(self.fleet)
        except Exception:  # noqa: BLE001 - the server is not there yet
            return None

    def learner(self):
        found = self.status()
        return found.learner if found is not None else None

    def games(self):
        found = self.status()
        return found.games if found is not None else ()

    def wait_for_steps(self, n):
        wait_for(lambda: (each := self.learner()) is not None and each.env_steps >= n, "steps", deadline_s=DEADLINE_S)

    def text(self):
        return self.log.read_text() if self.log.exists() else ""

    def wait_for_text(self, text):
        wait_for(lambda: text in self.text(), text, deadline_s=DEADLINE_S)

    def close(self):
        self._parts.close()

    def _started(self, *arguments):
        child = soulslab(*arguments, log=self.log)
        self._parts.callback(end, child)
        return child


def end(child):
    """Kill a process; the games and the server end with it."""
    if child.poll() is None:
        child.kill()
    child.wait()


@contextmanager
def connected(access):
    client = connect(access)
    try:
        yield client
    finally:
        client.close()
