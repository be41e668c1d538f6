"""The interface between a learning algorithm and the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from soulslab.errors import ConfigError
from soulslab.learn.archive import Tensors
from soulslab.learn.checkpoint import Checkpoint
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.policy_header import Player
from soulslab.learn.telemetry import Message


class EpisodeStatistics(Protocol):
    """Moving averages over the last finished episodes."""

    @property
    def n_episodes(self) -> int:
        """Number of finished episodes."""

    @property
    def is_full(self) -> bool:
        """Whether the averages cover a full window."""

    @property
    def win_rate(self) -> float | None:
        """Share of wins, 0..1; None if no result is known."""

    @property
    def mean_return(self) -> float | None:
        """Mean return; None before the first episode ends."""

    @property
    def mean_decisions(self) -> float | None:
        """Mean length (game decisions); None before the first episode ends."""


class AlgorithmState(NamedTuple):
    """The part of a checkpoint that an algorithm writes: arrays, and values that JSON can hold, by name."""

    tensors: Tensors
    header: dict[str, Any]


class Algorithm(Protocol):
    """A learning algorithm together with the environments in which it acts; some methods do nothing by default.

    The training loop calls, for a new run or a resumed one::

        algorithm.start()                    # or load_files(header) and load(checkpoint)
        while ...:
            algorithm.act()
            algorithm.observe()
            algorithm.update()
        algorithm.finish()
        algorithm.observe()
        algorithm.close()
    """

    report_every_s: float = 0.0
    """Minimum time between two calls of :meth:`report` (s); 0 reports after each update."""

    saves_at_start: bool = False
    """Whether a new run writes a checkpoint before its first step."""

    @property
    def env_steps(self) -> int:
        """Game decisions that were observed, all environments together."""

    @property
    def episodes(self) -> EpisodeStatistics:
        """Statistics of the training episodes."""

    def start(self) -> None:
        """Reset the environments for a new run."""

    def show_live(self, live: LiveFeed) -> None:  # noqa: ARG002  (does nothing by default)
        """Open a feed and show the first environment in it; does nothing if the actor is in another process."""
        return

    def act(self) -> None:
        """Step the environments, or wait a short time for the steps of a remote actor.

        Raises NonFiniteError for NaN or infinity, ActorError if the remote actor failed too often.
        """

    def observe(self) -> None:
        """Receive the transitions since the last call."""
        return

    def update(self) -> None:
        """Make the updates that are due; raises DivergedError or NonFinitePriorityError for infinite weights."""

    def state(self, *, with_env: bool) -> AlgorithmState:
        """Return copies of everything that :meth:`load` needs; without the environments after one failed."""

    def load_files(self, header: dict[str, Any]) -> None:  # noqa: ARG002  (does nothing by default)
        """Load what a checkpoint with this header stores in other files; raises CorruptCheckpointError."""
        return

    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint; :meth:`load_files` was called before."""

    def after_save(self, path: Path) -> None:  # noqa: ARG002  (does nothing by default)
        """Free what is no longer needed because the state of the last :meth:`state` was written to ``path``."""
        return

    def adjust(self, changes: Mapping[str, float]) -> None:
        """Use the settings from the start of the run with changes by path, which are all changes since then.

        Raises ConfigError for a setting that cannot change.
        """
        for path in changes:
            raise ConfigError("cannot change while a run trains", path=path)

    def policy_header(self) -> dict[str, Any]:
        """Return the header of the policy, with the present number of game decisions, as JSON-compatible values."""

    def best_estimate(self) -> AbstractContextManager[Player]:
        """Return a context in which the policy has the weights that are evaluated and saved."""

    def report(self, seconds: float) -> list[Message]:
        """Return the telemetry of the algorithm for the ``seconds`` since the last call."""

    def finish(self) -> None:
        """Stop a remote actor; the steps that it took before can still be observed."""
        return

    def close(self) -> None:
        """Close the environments."""
