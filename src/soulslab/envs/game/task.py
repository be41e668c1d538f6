"""The interface between `GameEnv` and its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.envs.game.session_holder import Deadline, SessionHolder
from soulslab.envs.game.timing import StepTiming

ActionT = TypeVar("ActionT")
StateT = TypeVar("StateT")


class EpisodeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The episode that a reset asks for; the deadline is a limit of wall time for the whole reset."""

    seed: int | None
    rng: np.random.Generator
    deadline: Deadline
    options: Mapping[str, Any]


class TaskStep(msgspec.Struct, Generic[StateT], frozen=True, kw_only=True):
    """Result of the start of an episode, or of a step.

    Attributes:
        state: State of the task at the end.
        game_time_s: Game time of the last reading.
        late_s: Wall time by which the last reading was late.
        reward: Reward of the step.
        is_terminated: Whether the episode has ended.
        is_truncated: Whether the episode was cut off.
        info: Entries of ``info`` that replace those of `Task.info`.
    """

    state: StateT
    game_time_s: float
    late_s: float = 0.0
    reward: float = 0.0
    is_terminated: bool = False
    is_truncated: bool = False
    info: dict[str, Any] = {}


class Task(Protocol[ActionT, StateT]):
    """The rules of an environment: the start of an episode, keys, observation, reward, end and ``info``.

    `reset_options` are the names of the options that ``reset`` accepts.
    """

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    reset_options: tuple[str, ...]

    def begin(self, holder: SessionHolder, timing: StepTiming, request: EpisodeRequest) -> TaskStep[StateT]:
        """Bring the game to the start of an episode, and read its first state with no key held.

        Args:
            holder: The session; a lost game (`SessionHolder.is_lost`) is recovered first.
            timing: Begun (`StepTiming.begin`) before the first state is read.
            request: The episode.

        Raises:
            SiphonError: The start failed, also after retries.
            EnvironmentUsageError: The environment expects another game.
        """
        ...

    def parse_action(self, action: Any, state: StateT) -> ActionT:
        """Return an action of `action_space` as the task uses it.

        Raises:
            InvalidActionError: The action is not in the space.
            ReadOnlyError: The action holds keys, and the environment is read-only.
        """
        ...

    def advance(
        self, holder: SessionHolder, timing: StepTiming, state: StateT, action: ActionT, *, is_last_step: bool
    ) -> TaskStep[StateT]:
        """Play one step.

        With `is_last_step`, the environment cuts the episode off after this step, unless it ends with it. Raises
        `SiphonError` if the step failed.
        """
        ...

    def observation(self, state: StateT) -> Any:
        """Return the observation of a state; the arrays are new."""
        ...

    def action_mask(self, state: StateT) -> NDArray[np.bool_] | None:
        """Return which actions are open; None for an action space without a mask."""
        ...

    def info(self, state: StateT) -> dict[str, Any]:
        """Return the entries of ``info`` of a state as a new dict, as after a reset: no reward, tick or decision."""
        ...

    def release(self, holder: SessionHolder) -> None:
        """Undo changes of the game that must not outlast the environment. Raises as `Session.write`."""
        ...
