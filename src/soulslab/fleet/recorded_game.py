"""A game that sends whole recorded episodes, such as the fights of a person."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Final

import gymnasium

import soulslab  # noqa: F401 - registers the environments
from soulslab.errors import FleetError
from soulslab.fleet.access import read_access
from soulslab.fleet.defaults import SPOOL_MB
from soulslab.fleet.game_settings import game_name, machine_name
from soulslab.fleet.messages import Lease, wait_for_description
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.run_description import read_policy, with_functions
from soulslab.fleet.spool import Spool
from soulslab.learn.actors.transition_actor import step_shape
from soulslab.learn.demonstrations.reading import rows_of_episode
from soulslab.learn.demonstrations.recorded_episode import Episode
from soulslab.learn.inputs import Layout
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.settings import scale_reward
from soulslab.version import VERSION

DRAIN_S: Final = 10.0
"""Time in which everything is sent at the end (s)."""


class RecordedGame(AbstractContextManager["RecordedGame"]):
    """A connection to a fleet. The learner takes the steps of the episodes; they do not count towards its win rate.

    Attributes:
        header: Header of the learner's policy, with the environment.
        options: Options of the environment, with the weights of the reward of this moment.
        is_sent: Whether the server has acknowledged all episodes; known at the end.
    """

    def __init__(self, join: Path, name: str = "", functions: Mapping[str, str] | None = None) -> None:
        """Connect, and wait for the learner; raises ConfigError or FleetError if this machine may not play its run."""
        access = read_access(join)
        self._name = game_name(name, "human")
        description = wait_for_description(access, lambda: True)
        if description is None:
            raise FleetError(access.address, "has no run")
        policy = read_policy(description, access.address)
        self.header = policy.header
        self.options = with_functions(self.header.env_options, functions or {}, access.address)
        self._shape = step_shape(self.header, has_values=description.has_values)
        env = gymnasium.make(self.header.env_id, **self.options)
        self._layout = Layout(env.observation_space, self.header.env_id)
        env.close()
        self.is_sent = False
        self._n_steps = 0
        spool = Spool(Path(tempfile.gettempdir()), SPOOL_MB << 20)
        self._end = RedisActorEnd(access, self._name, 1, row_type(self._shape), spool, policy.weights())
        self._end.keep_lease(self._lease)
        if self._end.refresh() and (weights := self._end.pull(-1)) is not None:
            self.options = scale_reward(self.options, weights.reward_factors)

    def send(self, episode: Episode) -> None:
        """Send an episode of the environment of the run; raises FleetError if server or learner refuse this game."""
        order = self._end.order
        if refusal := self._end.refusal or (order.refusal if order is not None else ""):
            raise FleetError(self._name, f"nothing more is taken from this game: {refusal}")
        self._end.push(rows_of_episode(episode, self._shape, self._layout, self.header.extras))
        self._n_steps += len(episode.actions)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_sent = self._end.close(DRAIN_S)

    def _lease(self) -> Lease:
        return Lease(
            worker=self._name,
            incarnation=self._end.incarnation,
            host=machine_name(),
            state="playing",
            role="human",
            n_envs=1,
            soulslab=VERSION,
            n_steps=self._n_steps,
            n_dropped=self._end.n_dropped,
            n_unsent_bytes=self._end.n_unsent_bytes,
        )
