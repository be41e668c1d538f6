"""Observation and action spaces of a game with a profile: attributes to observations, actions to keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.envs.tasks.process.process_settings import EnvSettings, Pixels
from soulslab.errors import InvalidActionError
from soulslab.siphon.profile import Attribute, Profile

Bounds = tuple[float, float]

NOTHING = "nothing"
#: An angle with the range of a full circle is encoded as sine and cosine, so that 359 degrees are close to 0.
FULL_CIRCLE_RAD = 2 * math.pi


class ObservationEncoder:
    """Encodes attributes and frames as observations; `names` are the attributes in the order of the observation."""

    def __init__(self, settings: EnvSettings, profile: Profile) -> None:
        self.names = settings.state if settings.observation != "pixels" else ()
        self._kind = settings.observation
        facts = [profile.attributes[name] for name in self.names]
        self._spaces = {name: attribute_space(fact) for name, fact in zip(self.names, facts, strict=True)}
        bounds = [settings.feature_range.get(name, fact.range) for name, fact in zip(self.names, facts, strict=True)]
        self._features = FeatureEncoder(self.names, facts, bounds) if self._kind == "features" else None
        self.space: spaces.Space[Any]
        if self._features is not None:
            self.space = spaces.Box(-1.0, 1.0, (self._features.size,), np.float32)
        elif self._kind == "pixels":
            self.space = pixel_space(settings.pixels)
        else:
            frame = {"pixels": pixel_space(settings.pixels)} if self._kind == "both" else {}
            self.space = spaces.Dict({**self._spaces, **frame})

    def observation(self, values: Mapping[str, Any], frame: NDArray[np.uint8] | None) -> Any:
        """Return an observation; the frame is (H, W) or (H, W, 3) uint8, None if the space has no frame."""
        if self._features is not None:
            return self._features(values)
        if self._kind == "pixels":
            return _with_channel(frame)
        state = {
            name: np.int64(values[name])
            if isinstance(space, spaces.Discrete)
            else np.atleast_1d(values[name]).astype(space.dtype)
            for name, space in self._spaces.items()
        }
        return {**state, "pixels": _with_channel(frame)} if self._kind == "both" else state


class FeatureEncoder:
    """Encodes attributes as one flat vector of numbers from -1 to 1.

    A number is scaled by its bounds; a bit, whose bounds are None, is -1 or 1; an angle with the range of a full circle
    is its sine and cosine.
    """

    def __init__(self, names: Sequence[str], facts: Sequence[Attribute], bounds: Sequence[Bounds | None]) -> None:
        self._plan = [
            (name, is_angle(fact), limits if limits is not None else (0.0, 1.0))
            for name, fact, limits in zip(names, facts, bounds, strict=True)
        ]
        self.size = sum(_n_features(fact) for fact in facts)

    def __call__(self, values: Mapping[str, Any]) -> NDArray[np.float32]:
        """Return the features, (F,) float32 in [-1, 1]."""
        numbers: list[float] = []
        for name, is_circle, (low, high) in self._plan:
            for value in np.atleast_1d(values[name]).tolist():
                if is_circle:
                    numbers += (math.sin(value), math.cos(value))
                else:
                    numbers.append(min(1.0, max(-1.0, 2.0 * (value - low) / (high - low) - 1.0)))
        return np.array(numbers, np.float32)


def attribute_space(fact: Attribute) -> spaces.Space[Any]:
    """Return the space of an attribute: `spaces.Discrete` for a bit, otherwise a box with its range."""
    if fact.type in ("bool", "flag"):
        return spaces.Discrete(2)
    low, high = fact.range if fact.range is not None else (-math.inf, math.inf)
    is_whole = fact.type[0] in "iu" and fact.scale == 1.0
    limits = np.iinfo(np.int64)
    if is_whole and limits.min <= low and high < limits.max:
        return spaces.Box(math.ceil(low), math.floor(high), (fact.length,), np.int64)
    return spaces.Box(float(low), float(high), (fact.length,), np.float32)


def pixel_space(pixels: Pixels) -> spaces.Box:
    """Return the space of a frame, (H, W, 1 or 3) uint8."""
    return spaces.Box(0, 255, (pixels.height_px, pixels.width_px, 1 if pixels.is_grey else 3), np.uint8)


def is_angle(fact: Attribute) -> bool:
    """Return whether an attribute is an angle with the range of a full circle."""
    if fact.unit != "rad" or fact.range is None:
        return False
    return math.isclose(fact.range[1] - fact.range[0], FULL_CIRCLE_RAD, rel_tol=1e-3)


class ActionKeys:
    """Converts actions into physical keys.

    Attributes:
        space: Action space.
        names: Names of the actions of ``discrete`` ("nothing" first), of the keys of ``multi_binary``, or of the groups
            of ``multi_discrete`` as ``a|b``.
    """

    def __init__(self, settings: EnvSettings, profile: Profile) -> None:
        actions = {name: tuple(profile.keys[key] for key in keys) for name, keys in settings.actions.items()}
        self._mode = settings.action_mode
        self.space: spaces.Space[Any]
        if self._mode == "discrete":
            self._choices = [[(), *actions.values()]]
            self.names = (NOTHING, *actions)
            self.space = spaces.Discrete(len(actions) + 1)
        elif self._mode == "multi_binary":
            keys = {key: profile.keys[key] for names in settings.actions.values() for key in names}
            self._choices = [[(), (key,)] for key in keys.values()]
            self.names = tuple(keys)
            self.space = spaces.MultiBinary(len(keys))
        else:
            groups = settings.action_groups or tuple((name,) for name in actions)
            self._choices = [[(), *(actions[name] for name in group)] for group in groups]
            self.names = tuple("|".join(group) for group in groups)
            self.space = spaces.MultiDiscrete([len(group) + 1 for group in groups])

    def held(self, action: Any) -> tuple[str, ...]:
        """Return the keys that an action holds, without duplicates. Raises `InvalidActionError`."""
        try:
            chosen = np.atleast_1d(action)
        except ValueError:  # a ragged list
            chosen = np.zeros(0)
        if chosen.dtype.kind not in "iub" or chosen.shape != (len(self._choices),):
            raise InvalidActionError(f"action {action!r} is not in {self.space}")
        keys: dict[str, None] = {}
        for choice, options in zip(chosen.tolist(), self._choices, strict=True):
            if not 0 <= choice < len(options):
                raise InvalidActionError(f"action {action!r} is not in {self.space}")
            keys |= dict.fromkeys(options[int(choice)])
        return tuple(keys)


def _n_features(fact: Attribute) -> int:
    n_numbers = 1 if fact.type in ("bool", "flag") else fact.length
    return 2 * n_numbers if is_angle(fact) else n_numbers


def _with_channel(frame: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
    if frame is None:
        raise AssertionError("the observation needs a frame, but none was captured")
    return frame[..., None] if frame.ndim == 2 else frame
