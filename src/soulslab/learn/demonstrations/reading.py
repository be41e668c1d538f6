"""Reading recorded episodes as rows of the replay buffer, with validation.

Shapes: T steps of an episode, A actions.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypedDict

import msgspec
import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces import Dict as DictSpace
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from soulslab.config.hdf5_files import MAX_BYTES, Hdf5Node, Hdf5Reader
from soulslab.errors import ConfigError, DemonstrationError, optional_imports
from soulslab.learn.demonstrations.data_set_metadata import DATA_NAME, Description, describe
from soulslab.learn.demonstrations.recorded_episode import Episode
from soulslab.learn.environment import layout, sizes
from soulslab.learn.inputs import ExtraInputs, Layout, Observer, is_pixels
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.learn.settings import EnvSettings

_DAMAGE: Final = (
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AssertionError,
    RuntimeError,
    AttributeError,
    msgspec.ValidationError,
)
"""Errors that are raised for a damaged file."""

MAX_STEP_DECISIONS: Final = 2**16 - 1
"""Greatest number of decisions of a step in a row of the replay buffer."""


class RecordedOutcome(TypedDict, total=False):
    """Attributes of an episode that are known; data sets of other programs may have another type of seed."""

    total_steps: int
    seed: int | str
    total_reward: float
    is_won: bool
    killed_by: str


def read_demonstrations(
    path: str | Path,
    env: VectorEnv[Any, Any, Any],
    settings: EnvSettings,
    *,
    extras: ExtraInputs | None = None,
    is_masked: bool,
    is_simulated: bool = False,
) -> NDArray[Any]:
    """Read a data set, given as its folder or its id among Minari's, for an environment of `make_vector`.

    The result are all episodes in order, as rows of one stream (``step_rows.row_type``), with the extra inputs as in
    training. If the environment has an ``action_mask`` (``is_masked``), the data set must hold masks. If it was
    recorded in a simulator against another boss (``is_simulated``), only the options that define a step and the shapes
    of the spaces must agree; their bounds depend on the ground and the health of the boss.

    Raises:
        ConfigError: The data set is simulated, and the environment has no ``metadata["step_options"]``.
        DemonstrationError: The data set does not exist, is damaged, was recorded in another environment, holds NaN, or
            an action that was not allowed; the message names episode and step.
        MissingDependencyError: Minari is not installed.
    """
    description = describe(path)
    step_options = env.metadata.get("step_options", {})
    if is_simulated and not step_options:
        raise ConfigError(
            f"cannot be used with {settings.id}, which does not say which of its options define a step "
            "(metadata['step_options']); set it to false",
            path="demonstrations.is_simulated",
        )
    alike = env.metadata.get("policies_of" if is_simulated else "fights_of", ())
    description.check_env(settings.id, settings.options, alike, step_options, is_simulated=is_simulated)
    seen, n_actions = layout(env), sizes(env).n_actions
    extras = extras or ExtraInputs()
    shape = StepShape(
        n_features=seen.n_features + extras.n_features(n_actions),
        n_actions=n_actions,
        pixels=seen.pixels,
        frame_stack=settings.frame_stack,
    )
    parts = []
    _check_spaces(description, env, are_bounds_free=is_simulated)
    for number, episode in enumerate(_read_episodes(description, env.single_observation_space)):
        fail = partial(DemonstrationError, description.folder, episode=number)
        _check(episode, fail, n_actions, is_masked=is_masked)
        with np.errstate(over="ignore"):  # a number that is too large for 32 bits is not finite
            rows = rows_of_episode(episode, shape, seen, extras)
        _check_finite(rows["features"], "an observation", fail, offset=0)
        _check_finite(rows["reward"][:, None], "a reward", fail, offset=1)
        parts.append(rows)
    if not parts:
        raise DemonstrationError(description.folder, "holds no episodes; record some (soulslab fights record)")
    # The result starts as zeros, so that the padding between columns is defined.
    result = np.zeros(sum(map(len, parts)), row_type(shape))
    np.concatenate(parts, out=result)
    return result


def read_recorded(description: Description, number: int) -> tuple[Episode, Space[Any], int]:
    """Return one episode of a data set, its observation space and its number of actions, without its environment.

    Raises DemonstrationError if there is no such episode, the file is damaged, or its actions are not numbers;
    MissingDependencyError without Minari.
    """
    if not 0 <= number < description.n_episodes:
        raise DemonstrationError(description.folder, f"has {description.n_episodes} episodes, and no episode {number}")
    space, actions = _spaces(description)
    if not isinstance(actions, Discrete):
        raise DemonstrationError(description.folder, f"has actions of {_in_short(actions)}, not numbers of actions")
    episode = next(_read_episodes(description, space, range(number, number + 1)))
    _check(episode, partial(DemonstrationError, description.folder, episode=number), int(actions.n), is_masked=False)
    return episode, space, int(actions.n)


def read_outcomes(description: Description) -> list[RecordedOutcome]:
    """Return the outcome of each episode; raises DemonstrationError if the file is damaged."""
    if not description.n_episodes:
        return []  # the file is empty, and not valid HDF5
    folder = description.folder
    with Hdf5Reader() as reader:
        names = [f"episode_{number}" for number in range(description.n_episodes)]
        root = reader.read(folder / DATA_NAME, partial(_damaged, folder), only=names, rows=(0, 0))
    outcomes = []
    for number, node in enumerate(root.items.values()):
        with _damage(folder, number):
            outcomes.append(msgspec.convert(node.attrs, RecordedOutcome))
    return outcomes


def _damaged(folder: Path, problem: str, episode: int | None = None) -> DemonstrationError:
    return DemonstrationError(folder, f"is damaged, truncated or not a set of episodes ({problem})", episode=episode)


@contextmanager
def _damage(folder: Path, episode: int | None = None) -> Iterator[None]:
    """Convert errors from a damaged file into an error that names it."""
    try:
        yield
    except _DAMAGE as error:
        raise _damaged(folder, str(error) or type(error).__name__, episode) from error


def _spaces(description: Description) -> tuple[Space[Any], Space[Any]]:
    """Return the spaces of the observations and the actions of a data set."""
    with optional_imports():  # learn works without Minari
        from minari import supported_dataset_versions  # noqa: PLC0415
        from minari.serialization import deserialize_space  # noqa: PLC0415

    folder = description.folder
    if description.minari_version not in supported_dataset_versions:
        raise DemonstrationError(
            folder,
            f"was written by Minari {description.minari_version or 'of unknown version'}, which the installed Minari "
            "cannot read; install another version of Minari",
        )
    with _damage(folder):
        return deserialize_space(description.observation_space), deserialize_space(description.action_space)


def _check_spaces(description: Description, env: VectorEnv[Any, Any, Any], *, are_bounds_free: bool) -> None:
    """Check that a data set has the spaces of an environment, with the same bounds unless they are free."""
    observations, actions = _spaces(description)
    folder = description.folder
    for what, theirs, ours in (
        ("observations", observations, env.single_observation_space),
        ("actions", actions, env.single_action_space),
    ):
        is_alike = _in_short(theirs) == _in_short(ours)
        if theirs != ours and not (is_alike and are_bounds_free):
            bounds = ", with other bounds" if is_alike else ""
            raise DemonstrationError(
                folder,
                f"its {what} are {_in_short(theirs)}, but those of {description.env_id} are {_in_short(ours)} here"
                f"{bounds}; check env.options, or record new episodes",
            )


def _read_episodes(description: Description, space: Space[Any], numbers: range | None = None) -> Iterator[Episode]:
    """Yield the episodes of a file, by default all, with observations of a space."""
    wanted = numbers if numbers is not None else range(description.n_episodes)
    folder, n_read = description.folder, wanted.start
    has_pixels = any(map(is_pixels, space.spaces.values() if isinstance(space, DictSpace) else [space]))
    with Hdf5Reader() as reader:
        names = [f"episode_{number}" for number in wanted]
        nodes = reader.read_items(
            folder / DATA_NAME,
            lambda problem: _damaged(folder, problem, n_read),
            names,
            max_bytes=None if has_pixels else MAX_BYTES,
        )
        for _, node in nodes:
            with _damage(folder, n_read):
                episode = _episode_of(node, space, has_jpeg=description.has_jpeg)
            yield episode
            n_read += 1


def _episode_of(node: Hdf5Node, space: Space[Any], *, has_jpeg: bool) -> Episode:
    infos = node.items["infos"] if "infos" in node.items else Hdf5Node(attrs={})
    actions, rewards, terminations = (node.array(name) for name in ("actions", "rewards", "terminations"))
    n_steps = len(actions)
    over = terminations.astype(np.bool_) | node.array("truncations").astype(np.bool_)
    if n_steps == 0 or rewards.shape != (n_steps,) or over.shape != (n_steps,) or over[:-1].any():
        raise ValueError("its columns have different lengths, or it continues after its end")
    # Minari's own collector and soulslab's record a value for the reset too, others only for the steps.
    taken = infos.array("n_decisions") if "n_decisions" in infos.items else np.ones(n_steps)
    n_decisions = np.asarray(taken, np.int64)[-n_steps:]
    if n_decisions.shape != (n_steps,):
        raise ValueError(f"it has {n_steps} steps, but {len(n_decisions)} values of infos/n_decisions")
    return Episode(
        observations=_observations(node.items["observations"], space, has_jpeg=has_jpeg),
        actions=np.asarray(actions, np.int64),
        rewards=np.asarray(rewards, np.float64),
        masks=np.asarray(infos.array("action_mask"), np.bool_) if "action_mask" in infos.items else None,
        n_decisions=n_decisions,
        is_terminated=bool(terminations[-1]),
    )


def _observations(node: Hdf5Node, space: Space[Any], *, has_jpeg: bool) -> Any:
    """Return the observations of an episode; raises ValueError if they are not elements of the space."""
    from minari.dataset.minari_storage import is_image_space  # noqa: PLC0415  (learn works without Minari)

    if isinstance(space, DictSpace):
        return {name: _observations(node.items[name], part, has_jpeg=has_jpeg) for name, part in space.spaces.items()}
    values = node.values
    if values is not None and has_jpeg and is_image_space(space):
        values = np.stack([_picture(bytes(data), space.shape or ()) for data in values])
    if values is None or values.shape[1:] != space.shape or values.dtype != space.dtype:
        raise ValueError(f"its observations are not of {_in_short(space)}")
    return values


def _picture(data: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Decode a JPEG image of Minari, after checking its size."""
    from PIL import Image  # noqa: PLC0415  (comes with Minari)

    with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
        if (image.height, image.width) != shape[:2]:
            raise ValueError(f"it has a picture of {image.width}x{image.height} px")
        return np.asarray(image, np.uint8)


def _check(episode: Episode, fail: Callable[..., DemonstrationError], n_actions: int, *, is_masked: bool) -> None:
    """Check everything except for the numbers of the observations."""
    n_steps, seen, masks = len(episode.actions), episode.observations, episode.masks
    lengths = {len(part) for part in (seen.values() if isinstance(seen, dict) else [seen])}
    if lengths != {n_steps + 1}:
        raise fail(f"has {n_steps} steps, but not one observation more ({sorted(lengths)})")
    _check_finite(episode.rewards[:, None], "a reward", fail, offset=1)
    unknown = (episode.actions < 0) | (episode.actions >= n_actions)
    for wrong, what in (
        (unknown, f"has an action that is not one of 0..{n_actions - 1}"),
        (episode.n_decisions < 1, "has a step of less than one decision"),
        (episode.n_decisions > MAX_STEP_DECISIONS, f"has a step of more than {MAX_STEP_DECISIONS} decisions"),
    ):
        if wrong.any():
            raise fail(what, step=int(wrong.argmax()) + 1)
    if masks is None:
        if is_masked:
            raise fail(
                "has no action mask (infos/action_mask), but the environment has one; record the infos of the "
                "environment too, as soulslab fights record does"
            )
        return
    if masks.shape != (n_steps + 1, n_actions):
        raise fail(f"has action masks of shape {masks.shape}, not {(n_steps + 1, n_actions)}")
    blocked = ~masks[np.arange(n_steps), episode.actions]
    if blocked.any():
        step = int(blocked.argmax())
        what = f"has action {episode.actions[step]}, which its own mask forbids; record the executed action instead"
        raise fail(what, step=step + 1)


def _check_finite(values: NDArray[Any], what: str, fail: Callable[..., DemonstrationError], *, offset: int) -> None:
    wrong = ~np.isfinite(values).all(axis=1)
    if wrong.any():
        step = int(wrong.argmax())
        bad = values[step][~np.isfinite(values[step])][0]
        raise fail(f"holds {what} that is not finite ({bad}); record it again", step=step + offset)


def rows_of_episode(episode: Episode, shape: StepShape, seen: Layout, extras: ExtraInputs) -> NDArray[Any]:
    """Return T rows of the replay buffer, plus one for the final observation of a truncated episode."""
    n_steps = len(episode.actions)
    n_rows = n_steps + (not episode.is_terminated)
    rows = np.zeros(n_rows, row_type(shape))
    rows["features"] = _features(episode, shape, seen, extras)[:n_rows]
    if seen.pixels is not None:
        rows["pixels"] = seen.view_pixels(episode.observations)[:n_rows]
    masks = episode.masks[:n_rows] if episode.masks is not None else np.ones((n_rows, shape.n_actions), np.bool_)
    rows["blocked"] = np.packbits(~masks, axis=1)
    rows["action"][:n_steps] = episode.actions
    rows["reward"][:n_steps] = episode.rewards
    rows["n_decisions"][:n_steps] = episode.n_decisions
    rows["outcome"] = Outcome.GOES_ON
    rows["outcome"][n_steps - 1] = Outcome.TERMINATED if episode.is_terminated else Outcome.TRUNCATED
    rows["outcome"][n_steps:] = Outcome.FINAL
    rows["is_first"][0] = True
    return rows


def _features(episode: Episode, shape: StepShape, seen: Layout, extras: ExtraInputs) -> NDArray[np.float32]:
    """Return the features with the extra inputs as in training, float32 (T + 1, F)."""
    n_steps = len(episode.actions)
    features = np.zeros((n_steps + 1, shape.n_features), np.float32)
    if extras == ExtraInputs():
        seen.read_features(episode.observations, features)
        return features
    observer = Observer(seen, 1, extras=extras, n_actions=shape.n_actions)
    observer.begin(_part(episode.observations, slice(1)))
    features[0] = observer.inputs.features[0]
    nowhere = np.zeros(1, np.bool_)
    for i in range(n_steps):
        step, after = slice(i, i + 1), slice(i + 1, i + 2)
        observer.follow(_part(episode.observations, after), nowhere, episode.actions[step], episode.n_decisions[step])
        features[i + 1] = observer.inputs.features[0]
    return features


def _in_short(space: Space[Any]) -> str:
    """Return a space as text without the bounds of each number."""
    if isinstance(space, DictSpace):
        return f"Dict({', '.join(f'{name}: {_in_short(part)}' for name, part in space.spaces.items())})"
    return f"Box({space.shape}, {space.dtype})" if isinstance(space, Box) else str(space)


def _part(observations: Any, which: slice) -> Any:
    if isinstance(observations, dict):
        return {name: values[which] for name, values in observations.items()}
    return observations[which]
