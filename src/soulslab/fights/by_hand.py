"""A person's fights: in the terminal as they are fought, or in the window from its key log."""

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
from soulslab.fights.keylog import episodes_of_key_log
from soulslab.fights.recording import SEEDS, FightRecorder
from soulslab.play.game import Tally, play

#: Takes the seed of a fight that was fought to its end, and what was done in each decision, int64 (decisions,).
OnFight: TypeAlias = Callable[[int, NDArray[np.int64]], None]

_log = logging.getLogger(__name__)


def record_in_terminal(recorder: FightRecorder, seed: int) -> Tally:
    """Fight in this process's terminal until the player quits; each fight is written when it is over.

    Args:
        recorder: Of ``soulslab/Arena-v0``.
        seed: Of the first fight; the n-th after it has this plus n.

    Raises:
        EnvironmentUsageError: It is another environment.
        TerminalError: Standard input or output is no terminal, or it is too small.
        DemonstrationError: A fight cannot be written.
    """
    options = recorder.arena_options()
    rules: dict[str, Any] = {"boss": options.boss, "phase": options.phase, "random_pose": options.random_pose}

    def keep(fight_seed: int, actions: NDArray[np.int64]) -> None:
        recorder.fight_again(actions, fight_seed)
        recorder.publish()

    return play(FightLog(gymnasium.make(ARENA_ID, **rules), seed, keep), seed=seed)


def record_key_log(recorder: FightRecorder, path: Path) -> None:
    """Record the fights of a key log that were fought to their end; fights that are recorded already are left out.

    Args:
        recorder: Of ``soulslab/Arena-v0``.
        path: The log, of ``soulslab arena --log``.

    Raises:
        EnvironmentUsageError: It is another environment, or its reward is a Python function.
        KeyLogError: The log cannot be read, or is of other fights.
        DemonstrationError: A fight cannot be written.
    """
    n_known = 0
    for episode in episodes_of_key_log(read_key_log(path), recorder.arena_options()):
        if recorder.is_recorded(episode):
            n_known += 1
        else:
            recorder.add(episode)
    if n_known:
        _log.warning("%s: left out %d fights that the data set holds already", path, n_known)
    elif recorder.n_fights == 0:
        _log.warning("%s: no fight in it was fought to its end", path)


class FightLog(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Notes what is done in the fights of ``soulslab/Arena-v0``, and tells of each when it is over.

    A fight that is left before its end is forgotten.

    Args:
        env: ``soulslab/Arena-v0`` without ``skip_locked``: a person sees every decision.
        seed: Of the first fight; the n-th after it has this plus n.
        on_fight: See `OnFight`.
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
        seed: int | None = None,  # noqa: ARG002  (each fight needs a seed that is known)
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next fight, by its own seed; see `gymnasium.Env.reset`."""
        self._seed = self._next_seed % SEEDS
        self._next_seed += 1
        self._actions.clear()
        observation, info = self.env.reset(seed=self._seed, options=options)
        self._mask = info["action_mask"]
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play one decision; see `gymnasium.Env.step`."""
        # What is not open is carried out as "nothing".
        self._actions.append(int(action) if self._mask[action] else NOTHING)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._mask = info["action_mask"]
        if terminated or truncated:
            self._on_fight(self._seed, np.array(self._actions, np.int64))
        return observation, reward, terminated, truncated, info
