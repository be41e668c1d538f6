"""A learner without training: it stores the received steps and saves them with its position in the channel.

``python -m support.small_learner RUN_FOLDER`` runs until it is killed; its saved file is always complete.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from soulslab.config import dump_settings
from soulslab.learn.actors.transport import Weights
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import QNetworkSettings, RainbowRunSettings, RainbowSettings
from soulslab.learn.rainbow.remote_actor import RemoteActor
from soulslab.learn.settings import EnvSettings
from soulslab.testing.paced_env import EPISODE, LIFE, PACED_ID, STEP

STEP_S = 0.005
LENGTH = 20
NETWORK = QNetworkSettings(widths=(8,), n_quantiles=1)
SAVED = "saved.safetensors"
SAVE_EVERY = 25


def small_settings(env_id: str = f"soulslab.testing.paced_env:{PACED_ID}") -> RainbowSettings:
    """Return the settings of a run on a minimal game."""
    options = {"step_s": STEP_S, "n_steps": LENGTH, "n_features": 4, "n_actions": 3}
    return RainbowSettings(
        env=EnvSettings(id=env_id, n_envs=1, options=options),
        network=NETWORK,
        run=RainbowRunSettings(actor="apart", actor_alone_s=600.0),
    )


def small_header() -> QHeader:
    """Return the header of the acting policy."""
    return QHeader(
        env_id=PACED_ID,
        env_options={},
        n_features=4,
        n_actions=3,
        network=NETWORK,
        soulslab="",
        commit="",
        n_envs=1,
    )


class SmallLearner:
    """The received steps and their origin."""

    def __init__(self, run_dir: Path, settings: RainbowSettings | None = None) -> None:
        run_dir.mkdir(parents=True, exist_ok=True)
        (run_dir / "config.toml").write_text(dump_settings(settings or small_settings()))
        self.playing = RemoteActor(run_dir, small_header())
        self.path = run_dir / SAVED
        self.rows = np.zeros((0, 3), np.float32)
        self.n_results = np.zeros(1, np.int64)
        self.version = 0
        state = None
        if self.path.exists():
            tensors, _ = read_archive(self.path)
            self.rows, self.n_results = tensors.pop("rows"), tensors.pop("n_results")
            self.version = int(tensors.pop("version")[0])
            state = tensors
        self.playing.begin(state, 0)
        self.publish()

    def publish(self) -> None:
        self.version += 1
        tensors = QPolicy(small_header()).weights()
        self.playing.channel.publish(Weights(version=self.version, epsilon=1.0, tensors=tensors))

    def take(self) -> None:
        rows = self.playing.channel.take()
        self.rows = np.concatenate((self.rows, rows["features"][:, [LIFE, EPISODE, STEP]]))
        self.n_results = self.n_results + len(self.playing.channel.take_episodes())

    def save(self) -> None:
        tensors = {"rows": self.rows, "n_results": self.n_results, "version": np.array([self.version])}
        write_archive(self.path, tensors | self.playing.state(with_env=False), {})
        self.playing.saved()

    def run(self, until: Callable[[], bool]) -> None:
        """Receive steps and save them regularly."""
        n_saved = len(self.rows)
        while not until():
            self.playing.advance()
            self.take()
            if len(self.rows) >= n_saved + SAVE_EVERY:
                self.publish()
                self.save()
                n_saved = len(self.rows)


def lives_of(rows: np.ndarray) -> list[int]:
    """Return the environments of the steps, in order."""
    return list(dict.fromkeys(rows[:, 0].astype(int).tolist()))


def assert_gapless(rows: np.ndarray, n_lives: int) -> None:
    """Assert that the steps of each environment are complete and in order, except in its last episode.

    Args:
        rows: Environment, episode and step of each row, (n, 3).
        n_lives: Number of consecutive environments.
    """
    found = rows.astype(int)
    assert len(lives_of(found)) == n_lives
    for life in lives_of(found):
        numbers = [(episode - 1) * LENGTH + step for _, episode, step in found[found[:, 0] == life].tolist()]
        assert numbers == list(range(len(numbers)))


if __name__ == "__main__":
    SmallLearner(Path(sys.argv[1])).run(lambda: False)
