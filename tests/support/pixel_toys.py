"""Small environments with pixels.

In ``Dot`` a dot moves to the left or right, which is only visible in two frames. ``PixelCorridor`` is the corridor of
`support.toys`, whose state can be saved.
"""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces import Dict as DictSpace

from support.toys import LENGTH as CORRIDOR_LENGTH
from support.toys import Corridor

SIZE_PX = 24
LENGTH = 12
MASKED = 2
CELL_PX = 4


class Dot(gymnasium.Env[Any, int]):
    """The action is the direction of the dot: 0 left, 1 right; 2 is masked, and would have reward 10.

    A correct action has reward 1 / LENGTH. Each episode is truncated after LENGTH actions, so the largest return is
    nearly 1 with two frames in an observation, and 0.5 with one.

    Args:
        form: Form of the observation: (H, W), (H, W, 1), stacked (2, H, W) without an older frame, or a Dict with a
            further part, the elapsed share of the episode.
    """

    def __init__(self, form: Literal["hw", "hwc", "khw", "dict"] = "hw") -> None:
        shapes = {"hw": (SIZE_PX, SIZE_PX), "hwc": (SIZE_PX, SIZE_PX, 1), "khw": (2, SIZE_PX, SIZE_PX)}
        pixels = Box(0, 255, shapes.get(form, (SIZE_PX, SIZE_PX)), np.uint8)
        self._form = form
        self.feature_names = ("age",) if form == "dict" else ()
        self.observation_space = (
            DictSpace({"age": Box(0.0, 1.0, (1,), np.float32), "pixels": pixels}) if form == "dict" else pixels
        )
        self.action_space = Discrete(3)
        self._age = 0
        self._x = 0
        self._direction = 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self._age = 0
        self._x, self._y = (int(number) for number in self.np_random.integers(SIZE_PX, size=2))
        self._direction = int(self.np_random.choice([-1, 1]))
        return self._obs(), self._info()

    def step(self, action: int) -> Any:
        reward = 10.0 if action == MASKED else float(action == (self._direction + 1) // 2)
        self._age += 1
        self._x = (self._x + 2 * self._direction) % SIZE_PX
        return self._obs(), reward / LENGTH, False, self._age == LENGTH, self._info()

    def _obs(self) -> Any:
        frame = np.zeros((SIZE_PX, SIZE_PX), np.uint8)
        rows, columns = (np.arange(at, at + 3) % SIZE_PX for at in (self._y, self._x))
        frame[np.ix_(rows, columns)] = 255
        if self._form == "dict":
            return {"age": np.array([self._age / LENGTH], np.float32), "pixels": frame}
        return {"hw": frame, "hwc": frame[..., None], "khw": np.stack([frame, frame])}[self._form]

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.arange(3) != MASKED}


class PixelCorridor(Corridor):
    """The corridor as pixels: each cell is a column of ``CELL_PX`` pixels, and that of the walk is white."""

    def __init__(self, num_envs: int, autoreset_mode: str = "same_step") -> None:
        super().__init__(num_envs, autoreset_mode)
        self.single_observation_space = Box(0, 255, (CELL_PX, CELL_PX * CORRIDOR_LENGTH), np.uint8)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)

    def _obs(self) -> np.ndarray:
        cells = (255 * super()._obs()).astype(np.uint8)[:, None, :]
        return cells.repeat(CELL_PX, axis=1).repeat(CELL_PX, axis=2)


def register_pixel_toys() -> None:
    """Register the environments with Gymnasium; a second call does nothing."""
    if "toys/Dot-v0" not in gymnasium.registry:
        gymnasium.register("toys/Dot-v0", entry_point=Dot)
        gymnasium.register("toys/PixelCorridor-v0", vector_entry_point=PixelCorridor)
