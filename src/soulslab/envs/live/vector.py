"""Several duels at once, each in a game of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from gymnasium.vector import AutoresetMode

from soulslab.envs.live.arena import ArenaLiveEnv
from soulslab.envs.live.env import DuelEnv
from soulslab.envs.process_vector import ProcessVectorEnv


class DuelVectorEnv(ProcessVectorEnv):
    """N duels in N games, stepped at the same time (`ProcessVectorEnv`).

    No more games start at once than the machine has cores; a game that is reset in place loads nothing, and waits for
    nobody. A game that dies, freezes or loses its window does not disturb the others: its episode is truncated, with
    what was seen last and ``info["failure"]``, and where the autoreset mode begins the next one, it brings a new game.
    ``on_failure="raise"`` raises the error instead, once all others have finished their step.

    Args:
        num_envs: N.
        autoreset_mode: ``"NextStep"``, ``"SameStep"``, ``"Disabled"`` or Gymnasium's enum.
        copy: Whether observations are copies. Without, they are a buffer that the next call overwrites.
        render_mode: Of each.
        options: Those of one; `ProcessVectorEnv` says which may be lists.

    Attributes:
        attack_names: Names of the boss's attacks.
        feature_names: Names of the features, in their order; empty where they give none.

    Raises:
        EnvironmentUsageError: An option is wrong.
    """

    single: ClassVar[Callable[..., DuelEnv]]
    envs: Sequence[DuelEnv]

    def __init__(
        self,
        num_envs: int = 1,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(num_envs, autoreset_mode, copy, render_mode, **options)
        self.attack_names = self.envs[0].attack_names
        self.feature_names = self.envs[0].feature_names
        gate = threading.BoundedSemaphore(os.cpu_count() or 1)
        for env in self.envs:
            env.game.holder.gate = gate


class ArenaLiveVectorEnv(DuelVectorEnv):
    """N fights of the built-in arena, each in a window of its own (``soulslab/ArenaLive-v0``)."""

    single: ClassVar[Callable[..., DuelEnv]] = ArenaLiveEnv
