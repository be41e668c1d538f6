"""All games of a fleet, as the learner sees them (`soulslab.learn.actors.transition_actor.ActorHandle`)."""

from __future__ import annotations

import os
import socket
import time
from typing import Final

import msgspec
import numpy as np
import psutil
from redis import Redis

from soulslab.config import without_secrets
from soulslab.fleet.access import Access, Keys, write
from soulslab.fleet.evaluation_games import EvaluationGames
from soulslab.fleet.game_roster import GameRoster
from soulslab.fleet.messages import (
    LEASE_EVERY_S,
    LEASE_S,
    Control,
    LearnerStatus,
    RunDescription,
)
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.learn.actors.transition_actor import step_shape
from soulslab.learn.algorithm import Algorithm
from soulslab.learn.archive import Tensors
from soulslab.learn.policy_header import Header
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.run_folder import RunFolder
from soulslab.learn.telemetry import ActorStats
from soulslab.learn.training import AnySettings
from soulslab.learn.training_loop import FinishedEvaluation
from soulslab.version import VERSION

WAIT_S: Final = 0.02
"""Longest time that the learner waits without new steps (s); it notices signals after it."""

MAX_UPDATES_DUE: Final = 64.0
"""Number of updates by which the learner may be behind before games that can wait have to."""

_N_REFUSALS: Final = 10
"""Number of refused games in the status."""


class FleetActor:
    """The transport from all games, with their admission, their orders and the status of the learner.

    A thread of the transport admits games and renews the status of the learner, so no method waits for the server.

    Attributes:
        control: The newest order of the operators.
        has_values: Whether the games send the values of their actions, for the first priorities in the replay buffer.
        evaluations: Evaluations by games.
    """

    is_remote = True
    channel: RedisLearnerEnd

    def __init__(self, access: Access, folder: RunFolder[AnySettings], header: Header, alpha: float) -> None:
        """Prepare for the games of a run."""
        self.control = Control()
        self.evaluations = EvaluationGames(folder.settings.run.evaluate_fights)
        self._access = access
        self._keys = Keys(access.run)
        settings = folder.settings
        self.has_values = isinstance(settings, RainbowSettings) and settings.replay.alpha > 0.0
        self._shape = step_shape(header, has_values=self.has_values)
        self._n_lanes = folder.settings.env.n_envs
        self._alpha = alpha
        plain = msgspec.structs.replace(header, env_options=without_secrets(header.env_options))
        self._description = RunDescription(
            soulslab=VERSION,
            header=msgspec.to_builtins(plain),
            seed=folder.settings.run.seed,
            alone_s=folder.settings.run.actor_alone_s,
            has_values=self.has_values,
        )
        self._counts = (0, 0)
        self._status_at = 0.0
        self._saved: Tensors = {}
        self._n_published = 0
        self._is_behind = False
        self.n_restarts_of_redis = 0
        self._process = psutil.Process()

    def begin(self, state: Tensors | None, env_steps: int) -> None:
        """Receive all steps since a state; None, or the state of a run in one process, receives all that is there."""
        del env_steps
        known = state if state is not None and "fleet" in state else None
        self.channel = RedisLearnerEnd(self._access, self._shape, self._n_lanes, known)
        self._roster = GameRoster(self._access, self.channel, self._alpha)
        self.channel.set_duty(self._attend)

    def advance(self, n_updates_due: float) -> None:
        """Wait a short time for steps if there is nothing to do."""
        self._is_behind = n_updates_due > MAX_UPDATES_DUE
        is_busy, self._n_published = self.channel.n_published > self._n_published, self.channel.n_published
        if not is_busy:
            self.channel.wait(WAIT_S)

    def evaluate(self, algorithm: Algorithm) -> FinishedEvaluation | None:
        """Return an evaluation that the games have completed since the last call; see `EvaluationGames.advance`."""
        games = {game.incarnation for game in self._roster.leases() if game.role == "evaluating"}
        return self.evaluations.advance(self.channel, games, algorithm)

    def stats(self, env_steps: int, version: int) -> ActorStats:
        """Return statistics of all games: the staleness of the newest weights of the slowest one, and sums."""
        self._counts = env_steps, version
        games = self._roster.leases()
        versions = [game.weights_version for game in games if game.role == "exploring" and game.weights_version >= 0]
        late = [game.lateness_p99_ms for game in games if game.lateness_p99_ms is not None]
        return ActorStats(
            env_steps=env_steps,
            staleness_updates=max(0, version - min(versions)) if versions else 0,
            n_dropped=self.channel.n_dropped + self._roster.n_dropped,
            n_late=sum(game.n_late for game in games),
            lateness_p99_ms=max(late) if late else None,
            n_restarts=sum(game.n_restarts for game in games),
        )

    def state(self, *, with_env: bool) -> Tensors:
        """Return what :meth:`begin` needs; the environments stay with the games."""
        del with_env
        self._saved = self.channel.state()
        return {name: np.asarray(array) for name, array in self._saved.items()}

    def saved(self) -> None:
        """Remove the steps that the last :meth:`state` holds from the server."""
        if self._saved:
            self.channel.commit(self._saved)

    def finish(self) -> None:
        """Do nothing: whether the games end depends on the reason why the run ends (`soulslab.fleet.learning`)."""

    def close(self) -> None:
        """Stop the thread."""
        if hasattr(self, "channel"):
            self.channel.close()

    # --- the thread of the transport ---------------------------------------------------------------------------------

    def _attend(self, client: Redis) -> None:
        """Read the operators' order, look after the games, and renew the status of the learner."""
        control = client.get(self._keys.control)
        self.control = msgspec.json.decode(control, type=Control) if control is not None else Control()
        self._roster.attend(client, is_behind=self._is_behind)
        if time.monotonic() >= self._status_at:
            self._status_at = time.monotonic() + LEASE_EVERY_S
            write(client, "SET", self._keys.description, msgspec.json.encode(self._description))
            write(client, "SET", self._keys.learner, msgspec.json.encode(self._status()), "PX", int(1000 * LEASE_S))

    def _status(self) -> LearnerStatus:
        delay_s = self.channel.delay_p95_s
        return LearnerStatus(
            pid=os.getpid(),
            host=socket.gethostname(),
            env_steps=self._counts[0],
            n_updates=self._counts[1],
            n_games=len(self._roster.leases()),
            n_dropped=self.channel.n_dropped,
            n_waiting_rows=self.channel.n_waiting_rows,
            n_restarts_of_redis=self.n_restarts_of_redis,
            delay_p95_ms=1000.0 * delay_s if delay_s is not None else None,
            memory_mb=self._process.memory_info().rss / 1e6,
            evaluation=self.evaluations.status,
            refusals=tuple(f"{name}: {why}" for name, why in list(self.channel.refusals().items())[-_N_REFUSALS:]),
        )
