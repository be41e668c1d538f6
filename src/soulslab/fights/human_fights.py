"""Recording of fights by a person: in the terminal while they are played, or from a key log of the window."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.vocabulary import NOTHING
from soulslab.arena.window.key_log import read_key_log
from soulslab.envs.registration import ARENA_ID
from soulslab.fights.key_log_episodes import episodes_of_key_log
from soulslab.fights.recording import SEEDS, FightRecorder
from soulslab.play.terminal_game import Tally, play_in_terminal

#: Called with the seed of a completed fight and the action of each decision, int64 (decisions,).
OnFight: TypeAlias = Callable[[int, NDArray[np.int64]], None]

_log = logging.getLogger(__name__)


def record_in_terminal(recorder: FightRecorder, seed: int) -> Tally:
    """Run fights in the terminal until the player quits; each fight is written when it has ended.

    Args:
        recorder: Recorder for ``soulslab/Arena-v0``.
        seed: Seed of the first fight; it increases by 1 for each further fight.

    Raises:
        EnvironmentUsageError: The recorder is for another environment.
        TerminalError: Standard input or output is not a terminal, or the terminal is too small.
        DemonstrationError: A fight cannot be written.
    """
    options = recorder.arena_options()
    rules: dict[str, Any] = {"boss": options.boss, "phase": options.phase, "random_pose": options.random_pose}

    def keep(fight_seed: int, actions: NDArray[np.int64]) -> None:
        recorder.record_actions(actions, fight_seed)
        recorder.publish()

    return play_in_terminal(FightLog(gymnasium.make(ARENA_ID, **rules), seed, keep), seed=seed)


def record_key_log(recorder: FightRecorder, path: Path) -> None:
    """Record the completed fights of a key log; fights that are already recorded are left out.

    Args:
        recorder: Recorder for ``soulslab/Arena-v0``.
        path: Key log written by ``soulslab arena --log``.

    Raises:
        EnvironmentUsageError: The recorder is for another environment, or its reward is a Python function.
        KeyLogError: The log cannot be read, or contains fights with other options.
        DemonstrationError: A fight cannot be written.
    """
    n_known = 0
    for episode in episodes_of_key_log(read_key_log(path), recorder.arena_options()):
        if recorder.is_recorded(episode):
            n_known += 1
        else:
            recorder.add(episode)
    if n_known:
        _log.warning("%s: left out %d fights that the data set already contains", path, n_known)
    elif recorder.n_fights == 0:
        _log.warning("%s: contains no completed fight", path)


class FightLog(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wrapper that collects the actions of each fight in ``soulslab/Arena-v0``, and reports completed fights.

    A fight that was not completed is discarded.

    Args:
        env: ``soulslab/Arena-v0`` without ``skip_locked``: a person sees every decision.
        seed: Seed of the first fight; it increases by 1 for each further fight.
        on_fight: Called for each completed fight, see `OnFight`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int, on_fight: OnFight) -> None:
        super().__init__(env)
        self._next_seed = self._seed = seed
        self._on_fight = on_fight
        self._actions: list[int] = []
        self._mask = np.zeros(0, np.bool_)

    def reset(
        self,
        *,
        seed: int | None = None,  # noqa: ARG002  (the wrapper chooses the seeds)
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start the next fight with its own seed; see `gymnasium.Env.reset`."""
        self._seed = self._next_seed % SEEDS
        self._next_seed += 1
        self._actions.clear()
        observation, info = self.env.reset(seed=self._seed, options=options)
        self._mask = info["action_mask"]
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one decision; see `gymnasium.Env.step`."""
        # The environment executes an action that is not allowed as "nothing".
        self._actions.append(int(action) if self._mask[action] else NOTHING)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._mask = info["action_mask"]
        if terminated or truncated:
            self._on_fight(self._seed, np.array(self._actions, np.int64))
        return observation, reward, terminated, truncated, info
