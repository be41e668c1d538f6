"""The built-in fight at a limited speed, so that a training run for a test takes little of the processor."""

from __future__ import annotations

import time
from typing import Any

import gymnasium

from soulslab.envs.arena import ArenaEnv

STEP_S = 0.04


class SlowArena(ArenaEnv):
    """One fight in which each step takes 40 ms."""

    def step(self, action: Any) -> Any:
        time.sleep(STEP_S)
        return super().step(action)


gymnasium.register("SlowArena-v0", SlowArena)
