"""Vector environments as the learner needs them, made from any Gymnasium id with discrete actions.

Three things differ between environments and are evened out here: whether there is a fast vector version,
whether an action mask is given, and whether a step can take several game decisions.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from soulslab.config import Secret
from soulslab.errors import ConfigError, EnvironmentUsageError, UnknownOptionError
from soulslab.learn.inputs import Layout, PixelShape

Info = dict[str, Any]

TRAINING: Final = 0
"""Purpose number of training in :func:`environment_seed`."""

EVALUATION: Final = 1
"""Purpose number of evaluation in :func:`environment_seed`; whoever uses it with equal seeds plays equal fights."""

_SEED_LIMIT: Final = 2**31

_RESERVED: Final = {
    "id": "set env.id instead",
    "num_envs": "set env.n_envs instead",
    "autoreset_mode": "it is always same_step here; leave it out",
    "copy": "it is always off here; leave it out",
    "render_mode": "nothing is drawn here; leave it out, and watch with soulslab play --policy",
    "vectorization_mode": "the fastest that the environment has is taken; leave it out",
    "vector_kwargs": "the fastest vector form that the environment has is taken; leave it out",
    "wrappers": "register an environment that has its wrappers, and set env.id to it",
}
"""Options of ``gymnasium.make_vec`` that are not the user's to give, and what to do instead."""


class Stateful(Protocol):
    """An environment that can be saved and continued exactly."""

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return everything needed to continue bit-exactly."""

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from what :meth:`get_state` returned."""


class Sizes(NamedTuple):
    """The sizes of a vector environment.

    Attributes:
        n_envs: N.
        n_features: F; 0 where the observations are pixels alone.
        n_actions: A.
        pixels: Size of the pixels; None where the observations are features alone.
        feature_names: Names of the features, (F,); empty where the environment tells none.
    """

    n_envs: int
    n_features: int
    n_actions: int
    pixels: PixelShape | None = None
    feature_names: tuple[str, ...] = ()


def make_vector(env_id: str, n_envs: int, options: Mapping[str, Any]) -> VectorEnv[Any, Any, Any]:
    """Make N environments that start the next episode in the same step in which one ends.

    Args:
        env_id: Gymnasium id with its version; ``module:id`` imports a module that registers it.
        n_envs: N.
        options: Keyword arguments of the environment.

    Returns:
        The id's own vector version where it has one with same-step autoreset, else Gymnasium's loop over
        single environments.

    Raises:
        ConfigError: An option is one that is decided here.
        EnvironmentUsageError: The actions are not discrete, the observations neither flat nor pixels, or the
            environment does not know an option.
    """
    env = make_any_vector(env_id, n_envs, options)
    try:
        sizes(env)
    except EnvironmentUsageError:
        env.close()
        raise
    return env


def make_any_vector(env_id: str, n_envs: int, options: Mapping[str, Any]) -> VectorEnv[Any, Any, Any]:
    """Make N environments as `make_vector` does, with observations and actions of any kind."""
    for name in options:
        if name in _RESERVED:
            raise ConfigError(f"is no option of the environment; {_RESERVED[name]}", path=f"env.options.{name}")
    module, _, name = env_id.rpartition(":")
    if module:  # "module:id", as Gymnasium itself reads it: importing the module registers the id
        importlib.import_module(module)
    spec = gymnasium.spec(name)
    arguments = dict(options)
    accepted = _vector_parameters(spec)
    if "autoreset_mode" in accepted:
        mode, vector_arguments = "vector_entry_point", None
        arguments["autoreset_mode"] = AutoresetMode.SAME_STEP.value
        if "copy" in accepted:
            arguments["copy"] = False
    else:
        mode, vector_arguments = "sync", {"autoreset_mode": AutoresetMode.SAME_STEP}
    try:
        return gymnasium.make_vec(
            env_id, num_envs=n_envs, vectorization_mode=mode, vector_kwargs=vector_arguments, **arguments
        )
    except UnknownOptionError:  # it says all that the message below would say
        raise
    except TypeError as error:
        if "argument" not in str(error):  # no matter of options: a mistake in the environment's own code
            raise
        raise EnvironmentUsageError(
            f"{env_id}: cannot be made with the options {', '.join(options) or '(none)'}: {error}; check env.options"
        ) from error


def sizes(env: VectorEnv[Any, Any, Any]) -> Sizes:
    """Return N, F, A, the size of the pixels and the names of the features.

    Raises:
        EnvironmentUsageError: The actions are not discrete, or the observations neither flat nor pixels.
    """
    actions = env.single_action_space
    name = _name(env)
    if not isinstance(actions, Discrete) or actions.start != 0:
        raise EnvironmentUsageError(f"{name}: actions must be Discrete from 0, but are {actions}")
    seen, names = layout(env), feature_names(env)
    # Names that are not as many are those of something else, as below a wrapper that adds features.
    names = names if len(names) == seen.n_features else ()
    return Sizes(env.num_envs, seen.n_features, int(actions.n), seen.pixels, names)


def sizes_of_one(env: gymnasium.Env[Any, Any]) -> Sizes:
    """Return the same of a single environment; 0 actions where they are not discrete.

    Raises:
        EnvironmentUsageError: The observations are neither flat nor pixels.
    """
    seen = Layout(env.observation_space, env.spec.id if env.spec else type(env).__name__)
    n_actions = int(env.action_space.n) if isinstance(env.action_space, Discrete) else 0
    names = tuple(env.get_wrapper_attr("feature_names")) if env.has_wrapper_attr("feature_names") else ()
    return Sizes(1, seen.n_features, n_actions, seen.pixels, names if len(names) == seen.n_features else ())


def layout(env: VectorEnv[Any, Any, Any]) -> Layout:
    """Return where features and pixels are in the observations.

    Raises:
        EnvironmentUsageError: The observations are neither flat nor pixels.
    """
    return Layout(env.single_observation_space, _name(env))


def feature_names(env: VectorEnv[Any, Any, Any]) -> tuple[str, ...]:
    """Return the names of the features that an environment tells, in their order; empty if it tells none."""
    base = env.unwrapped
    if isinstance(base, SyncVectorEnv) and base.envs[0].has_wrapper_attr("feature_names"):
        return tuple(base.envs[0].get_wrapper_attr("feature_names"))
    return tuple(getattr(base, "feature_names", ()))


def stateful(env: VectorEnv[Any, Any, Any]) -> Stateful | None:
    """Return the environment if it can be saved and continued exactly, else None."""
    base = env.unwrapped
    return cast("Stateful", base) if hasattr(base, "get_state") and hasattr(base, "set_state") else None


def environment_seed(seed: int, purpose: int) -> int:
    """Return a seed for ``env.reset``, far from those of other purposes and other run seeds.

    Vector environments seed environment i with s + i, so run seeds 0 and 1 would share nearly all of their
    fights, and training and evaluation too. Hashing the pair first (numpy's ``SeedSequence``) spreads the
    bases over 2**31 numbers.

    Args:
        seed: Seed of the run or of the evaluation.
        purpose: ``TRAINING`` or ``EVALUATION``.

    Returns:
        A seed in 0..2**31-1.
    """
    words = np.random.SeedSequence(seed, spawn_key=(purpose,)).generate_state(1, np.uint64)
    return int(words[0] % _SEED_LIMIT)


def blocked_actions(info: Info, n_envs: int, n_actions: int) -> NDArray[np.bool_]:
    """Return True where an action is forbidden, bool (N, A); without a mask everything is allowed."""
    mask = info.get("action_mask")
    if mask is None:
        return np.zeros((n_envs, n_actions), np.bool_)
    return ~np.asarray(mask, np.bool_)


def decisions_taken(info: Info, n_envs: int) -> NDArray[np.int64]:
    """Return how many game decisions each environment's step took, int64 (N,), each at least 1."""
    taken = np.asarray(info.get("n_decisions", np.ones(n_envs, np.int64)), np.int64)
    final = info.get("final_info", {})
    # Gymnasium's own loop moves the info of an episode's last step there, and leaves 0 behind.
    if "n_decisions" in final:
        taken = np.where(final["_n_decisions"], final["n_decisions"], taken)
    return np.maximum(taken, 1)


def describe_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return environment options as JSON and TOML can hold them.

    Args:
        options: Keyword arguments of an environment; a value may be a Python function.

    Returns:
        The same without secrets, and with each function replaced by ``"<function module.name>"``.
    """
    return {
        key: f"<function {value.__module__}.{value.__qualname__}>" if callable(value) else value
        for key, value in options.items()
        if not isinstance(value, Secret)
    }


def require_functions(options: Mapping[str, Any], source: str | Path) -> None:
    """Check that no option is merely the name of a Python function that was given once.

    Args:
        options: Keyword arguments of an environment.
        source: Where they come from, for the message.

    Raises:
        ConfigError: An option was recorded by :func:`describe_options` and the function itself is needed.
    """
    for key, value in options.items():
        if isinstance(value, str) and value.startswith("<function "):
            raise ConfigError(
                f"is the Python function {value[10:-1]}, which a file cannot hold; pass it from Python: "
                f"env_options={{{key!r}: function}}",
                path=f"env.options.{key}",
                source=source,
            )


def _name(env: VectorEnv[Any, Any, Any]) -> str:
    return env.spec.id if env.spec else type(env).__name__


def _vector_parameters(spec: gymnasium.envs.registration.EnvSpec) -> frozenset[str]:
    entry_point = spec.vector_entry_point
    if entry_point is None:
        return frozenset()
    creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    return frozenset(inspect.signature(creator).parameters)
