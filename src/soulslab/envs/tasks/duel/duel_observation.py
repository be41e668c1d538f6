"""Observations of a duel in a running game."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.arena.duel_state import DUEL_FIELDS
from soulslab.arena.features import features_of_state
from soulslab.arena.records import Record
from soulslab.arena.relative_features import relative_of_state
from soulslab.envs.spaces import FIELD_KINDS, ROW_NAMES, fields_space, row_space
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.process.process_settings import Pixels
from soulslab.envs.tasks.process.process_spaces import pixel_space
from soulslab.siphon.capture import FrameFormat

Observation: TypeAlias = Literal["features", "relative", "dict", "boxes", "pixels", "pixels+state", "pixels+features"]
#: Kinds that contain the 15 fields of the state.
_WITH_FIELDS = (*FIELD_KINDS, "pixels+state")


class ObservationBuilder:
    """Computes observations from states and pictures; numbers outside of the observation space are clipped.

    `last_actions` are the number of last actions in an observation, and the length of the vector of each. `frame` is
    the format of the picture that each reading needs; None without pictures.
    """

    def __init__(self, kind: Observation, scenario: Scenario, pixels: Pixels, last_actions: tuple[int, int]) -> None:
        self._kind = kind
        self._n_last, self._n_names = last_actions
        limits = np.array(scenario.limits_m, np.float64)
        self._low, self._extent = limits[:, 0].copy(), limits[:, 1] - limits[:, 0]
        self._floor_m = scenario.floor_m
        self._row_kind = "relative" if kind == "relative" else "features"
        self._row_names = ROW_NAMES[self._row_kind]
        #: Names of the features, followed by those of the last actions; empty for observations without features.
        self.feature_names: tuple[str, ...] = self._row_names if self._row_kind in kind else ()
        if kind == self._row_kind:
            self.feature_names += tuple(f"last_actions[{i}]" for i in range(self._n_last * self._n_names))
        self._row_space = row_space(self._row_kind, scenario.limits_m, scenario.floor_m)
        self._fields = fields_space(
            kind,
            scenario.limits_m,
            player_hp=scenario.player_max_hp,
            player_sp=scenario.player_max_sp,
            boss_hp=scenario.boss_max_hp,
        )
        boxes = ((name, space) for name, space in self._fields.items() if isinstance(space, spaces.Box))
        self._bounds = {name: (box.low, box.high) for name, box in boxes}
        self._last: deque[NDArray[np.float32]] = deque(maxlen=self._n_last or None)
        has_picture = "pixels" in kind
        self.frame = FrameFormat(pixels.width_px, pixels.height_px, pixels.is_grey) if has_picture else None
        self.space = self._make_space(pixels)

    def begin(self) -> None:
        """Begin an episode; the last actions are zeros."""
        self._last.extend(np.zeros(self._n_names, np.float32) for _ in range(self._n_last))

    def record_action(self, action: NDArray[np.float32]) -> None:
        """Record an action, given as a vector of 0 and 1, for the following observations."""
        if self._n_last:
            self._last.appendleft(action)

    def observation(self, state: Record, picture: NDArray[np.uint8] | None) -> Any:
        """Return the observation of a `DUEL_STATE` record and a picture (H, W) or (H, W, C); all arrays are new."""
        if self._kind == self._row_kind:
            return self._features(state, with_last=True)
        if picture is not None and picture.ndim == 2:
            picture = picture[..., None]
        if self._kind == "pixels":
            return picture
        parts: dict[str, Any] = {}
        if self._kind in _WITH_FIELDS:
            parts = self._state_fields(state)
        else:
            parts["features"] = self._features(state, with_last=False)
        if picture is not None:
            parts["pixels"] = picture
        if self._n_last:
            parts["last_actions"] = np.array(self._last)
        return parts

    def _features(self, state: Record, *, with_last: bool) -> NDArray[np.float32]:
        n_last = self._n_last * self._n_names if with_last else 0
        n_own = len(self._row_names)
        features = np.empty(n_own + n_last, np.float32)
        own = features[:n_own]
        if self._row_kind == "relative":
            relative_of_state(state, self._low, self._extent, self._floor_m, own)
        else:
            features_of_state(state, self._low, self._extent, own)
        np.clip(own, self._row_space.low, self._row_space.high, out=own)
        if n_last:
            np.concatenate(self._last, out=features[n_own:])
        return features

    def _state_fields(self, state: Record) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for field in DUEL_FIELDS:
            value = state[field.name]
            if field.name not in self._bounds:
                fields[field.name] = np.int64(value)
                continue
            low, high = self._bounds[field.name]
            fields[field.name] = np.clip(np.atleast_1d(value).astype(np.float32), low, high)
        return fields

    def _make_space(self, pixels: Pixels) -> spaces.Space[Any]:
        n_last = self._n_last * self._n_names
        low, high = self._row_space.low, self._row_space.high
        if self._kind == self._row_kind:
            return spaces.Box(
                np.append(low, np.zeros(n_last, np.float32)), np.append(high, np.ones(n_last, np.float32))
            )
        if self._kind == "pixels":
            return pixel_space(pixels)
        parts: dict[str, spaces.Space[Any]] = {}
        if self._kind in _WITH_FIELDS:
            parts |= self._fields.spaces
        else:
            parts["features"] = self._row_space
        if self.frame is not None:
            parts["pixels"] = pixel_space(pixels)
        if n_last:
            parts["last_actions"] = spaces.Box(0.0, 1.0, (self._n_last, self._n_names), np.float32)
        return spaces.Dict(parts)
