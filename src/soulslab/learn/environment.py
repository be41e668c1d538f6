"""Vector environments for learning, made from any Gymnasium id with discrete actions.

This module handles three differences between environments: whether there is a fast vector version, whether there is an
action mask, and whether a step can take several game decisions.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from soulslab.config import Secret
from soulslab.errors import ConfigError, EnvironmentUsageError, NonFiniteError, UnknownOptionError, did_you_mean
from soulslab.learn.inputs import Layout, PixelShape

Info = dict[str, Any]

TRAINING: Final = 0
"""Number of the purpose "training" for :func:`environment_seed`."""

EVALUATION: Final = 1
"""Number of the purpose "evaluation" for :func:`environment_seed`; equal seeds give equal fights."""

_SEED_LIMIT: Final = 2**31

_RESERVED: Final = {
    "id": "set env.id instead",
    "num_envs": "set env.n_envs instead",
    "autoreset_mode": "soulslab always uses same_step; remove it",
    "copy": "soulslab always sets it to False; remove it",
    "render_mode": "soulslab does not render here; remove it, and watch with soulslab play --policy",
    "vectorization_mode": "soulslab uses the fastest vector version; remove it",
    "vector_kwargs": "soulslab uses the fastest vector version; remove it",
    "wrappers": "register an environment that applies its wrappers, and set env.id to it",
}
"""Options of ``gymnasium.make_vec`` that soulslab sets itself, with the alternative for the user."""


class Sizes(NamedTuple):
    """Sizes of a vector environment: N environments, F features, A actions.

    Without features F is 0; without pixels ``pixels`` is None. ``feature_names``, (F,), is empty if the environment
    does not define names.
    """

    n_envs: int
    n_features: int
    n_actions: int
    pixels: PixelShape | None = None
    feature_names: tuple[str, ...] = ()


def make_vector(env_id: str, n_envs: int, options: Mapping[str, Any]) -> VectorEnv[Any, Any, Any]:
    """Make N environments with same-step autoreset: an episode starts in the step in which the last one ends.

    This is the vector version of the environment if it supports same-step autoreset, else Gymnasium's
    ``SyncVectorEnv``. An id ``module:id`` imports a module that registers it. Raises ConfigError for an option that
    soulslab sets itself, EnvironmentUsageError if the actions are not discrete, the observations are neither flat nor
    pixels, or the environment does not accept an option, or there is no such module.
    """
    env = make_any_vector(env_id, n_envs, options)
    try:
        sizes(env)
    except EnvironmentUsageError:
        env.close()
        raise
    return env


def make_any_vector(env_id: str, n_envs: int, options: Mapping[str, Any]) -> VectorEnv[Any, Any, Any]:
    """Make N environments like `make_vector`, with observations and actions of any kind."""
    for name in options:
        if name in _RESERVED:
            raise ConfigError(f"is not an option of the environment; {_RESERVED[name]}", path=f"env.options.{name}")
    name = register_environment(env_id)
    mode, vector_arguments = "sync", {"autoreset_mode": AutoresetMode.SAME_STEP}
    own: dict[str, Any] = {}
    accepted = _vector_parameters(gymnasium.spec(name))
    if "autoreset_mode" in accepted:
        mode, vector_arguments = "vector_entry_point", {}
        own = {"autoreset_mode": AutoresetMode.SAME_STEP.value} | ({"copy": False} if "copy" in accepted else {})
    try:
        return gymnasium.make_vec(
            env_id, num_envs=n_envs, vectorization_mode=mode, vector_kwargs=vector_arguments, **options, **own
        )
    except UnknownOptionError:  # its message is more precise than the one below
        raise
    except TypeError as error:
        if "argument" not in str(error):  # an error in the code of the environment, not an unknown option
            raise
        raise EnvironmentUsageError(
            f"{env_id}: cannot be made with the options {', '.join(options) or '(none)'}: {error}; check env.options"
        ) from error


def register_environment(env_id: str) -> str:
    """Import the module of an id in Gymnasium's notation ``module:id``, which registers it, and return the id alone.

    Raises EnvironmentUsageError if there is no such module.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):  # an import in the module failed
                raise
            raise EnvironmentUsageError(
                f"{env_id}: there is no module {error.name!r}; check --env or env.id, or install its package"
            ) from error
    return name


def sizes(env: VectorEnv[Any, Any, Any]) -> Sizes:
    """Return the sizes of a vector environment; raises EnvironmentUsageError unless actions are discrete."""
    actions = env.single_action_space
    name = _name(env)
    if not isinstance(actions, Discrete) or actions.start != 0:
        raise EnvironmentUsageError(f"{name}: actions must be Discrete from 0, but are {actions}")
    seen, names = layout(env), feature_names(env)
    # If the numbers differ, the names do not belong to these features, for example below a wrapper that adds features.
    names = names if len(names) == seen.n_features else ()
    return Sizes(env.num_envs, seen.n_features, int(actions.n), seen.pixels, names)


def sizes_of_one(env: gymnasium.Env[Any, Any]) -> Sizes:
    """Return the sizes of a single environment; 0 actions if they are not discrete."""
    seen = Layout(env.observation_space, env.spec.id if env.spec else type(env).__name__)
    n_actions = int(env.action_space.n) if isinstance(env.action_space, Discrete) else 0
    names = tuple(env.get_wrapper_attr("feature_names")) if env.has_wrapper_attr("feature_names") else ()
    return Sizes(1, seen.n_features, n_actions, seen.pixels, names if len(names) == seen.n_features else ())


def layout(env: VectorEnv[Any, Any, Any]) -> Layout:
    """Return the layout of the observations; raises EnvironmentUsageError unless they are flat, pixels, or both."""
    return Layout(env.single_observation_space, _name(env))


def feature_names(env: VectorEnv[Any, Any, Any]) -> tuple[str, ...]:
    """Return the names of the features of an environment, in their order; empty if it does not define names."""
    base = env.unwrapped
    if isinstance(base, SyncVectorEnv) and base.envs[0].has_wrapper_attr("feature_names"):
        return tuple(base.envs[0].get_wrapper_attr("feature_names"))
    return tuple(getattr(base, "feature_names", ()))


def find_feature(name: str, names: Sequence[str], env_id: str, path: str) -> int:
    """Return the index of a feature; raises ConfigError for the setting ``path`` without a feature of this name."""
    require_feature_names(name, names, env_id, path)
    if name not in names:
        raise ConfigError(f"{env_id} has no feature {name!r}{did_you_mean(name, names)}", path=path)
    return names.index(name)


def find_features(name: str, names: Sequence[str], env_id: str, path: str) -> list[int]:
    """Return the indices of the features of a name, which may end with ``*``; raises ConfigError if there is none."""
    if not names:
        raise ConfigError(
            f"{env_id} does not define names of its features, so {name!r} is unknown; remove it, or give the "
            "environment an attribute feature_names",
            path=path,
        )
    if not name.endswith("*"):
        return [find_feature(name, names, env_id, path)]
    found = [i for i, each in enumerate(names) if each.startswith(name[:-1])]
    if not found:
        raise ConfigError(
            f"{env_id} has no feature that begins with {name[:-1]!r}{did_you_mean(name[:-1], names)}", path=path
        )
    return found


def require_feature_names(name: str, names: Sequence[str], env_id: str, path: str) -> None:
    """Raise ConfigError if the setting ``path`` names a feature, but the environment does not define names."""
    if not names:
        raise ConfigError(
            f"{env_id} does not define names of its features, so {name!r} is unknown; give the index of the feature, "
            "counted from 0",
            path=path,
        )


def stateful(env: VectorEnv[Any, Any, Any]) -> Any:
    """Return the environment if its state can be saved (``get_state``) and restored exactly (``set_state``), else None.

    The state is a table of arrays, with which the environment continues bit for bit.
    """
    base = env.unwrapped
    return base if hasattr(base, "get_state") and hasattr(base, "set_state") else None


def environment_seed(seed: int, purpose: int) -> int:
    """Return a seed for ``env.reset`` in 0..2**31-1, far from the seeds of other purposes and other runs.

    Vector environments seed environment i with s + i, so without this function the runs with seeds 0 and 1, or training
    and evaluation, would share nearly all fights. NumPy's ``SeedSequence`` hashes seed and purpose.
    """
    words = np.random.SeedSequence(seed, spawn_key=(purpose,)).generate_state(1, np.uint64)
    return int(words[0] % _SEED_LIMIT)


def allowed_actions(info: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """Return the allowed actions, bool (N, A), or None without a mask; an environment without one allows all."""
    mask = info.get("action_mask")
    if mask is None:
        return None
    allowed = np.asarray(mask, np.bool_)
    # Gymnasium's vector environments fill the rows of environments that gave no mask with False.
    given = info.get("_action_mask")
    return allowed if given is None else allowed | ~np.asarray(given, np.bool_)[:, None]


def blocked_actions(info: Info, n_envs: int, n_actions: int) -> NDArray[np.bool_]:
    """Return the forbidden actions, bool (N, A); without a mask all actions of an environment are allowed."""
    allowed = allowed_actions(info)
    return ~allowed if allowed is not None else np.zeros((n_envs, n_actions), np.bool_)


def decisions_taken(info: Info, n_envs: int) -> NDArray[np.int64]:
    """Return the number of game decisions that each environment's step took, int64 (N,), each at least 1."""
    taken = np.asarray(info.get("n_decisions", np.ones(n_envs, np.int64)), np.int64)
    final = info.get("final_info", {})
    # Gymnasium's SyncVectorEnv moves the info of an episode's last step there, and leaves 0.
    if "n_decisions" in final:
        taken = np.where(final["_n_decisions"], final["n_decisions"], taken)
    return np.maximum(taken, 1)


class FightNames(NamedTuple):
    """Names of the columns of ``info["fight"]``; empty if the environment does not have them.

    Attributes:
        attacks: Names of the boss's attacks, for ``damage_by_attack``, ``uses_by_attack`` and ``hits_by_attack``.
        situations: Names of the situations of ``actions_by_situation``.
    """

    attacks: tuple[str, ...] = ()
    situations: tuple[str, ...] = ()


def fight_names(env: VectorEnv[Any, Any, Any]) -> FightNames:
    """Return the names of the columns of ``info["fight"]``."""
    base = env.unwrapped
    first = base.envs[0].unwrapped if isinstance(base, SyncVectorEnv) else base
    return FightNames(*(tuple(getattr(first, name, ())) for name in ("attack_names", "situation_names")))


def first_result(info: Info) -> bool | None:
    """Return whether the first environment's episode, which ended in this step, was won; None if it is unknown."""
    final = info.get("final_info", {})
    fight = final.get("fight", {})
    if "won" not in fight or not np.all(fight.get("_won", final.get("_fight", True))[:1]):
        return None
    return bool(fight["won"][0])


def first_lateness(info: Info) -> float:
    """Return how late the step of the first environment was (s); 0 if its game waits."""
    late_s = info.get("late_s")
    return float(late_s[0]) if late_s is not None else 0.0


def check_finite(
    what: str, values: NDArray[np.floating], steps: NDArray[np.int64], envs: NDArray[np.intp] | None = None
) -> None:
    """Raise NonFiniteError if a value is NaN or infinite; ``what`` names the values in the message.

    ``values`` are (B, ...), one row for each index in ``envs`` (B,), or for each of the N environments; ``steps`` (N,)
    are the numbers of the steps in the episodes.
    """
    # One sum is ten times faster than a check of each number, and no finite batch overflows it.
    if np.isfinite(values.sum(dtype=np.float64)):
        return
    rows = values.reshape(len(values), -1)
    row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
    bad = rows[row][~np.isfinite(rows[row])][0]
    i = int(envs[row]) if envs is not None else row
    raise NonFiniteError(what, i, int(steps[i]), str(bad))


def describe_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as JSON- and TOML-compatible values: no secrets, and ``"<function module.name>"``."""
    return {
        key: describe_function(f"{value.__module__}.{value.__qualname__}") if callable(value) else value
        for key, value in options.items()
        if not isinstance(value, Secret)
    }


def is_function_name(value: Any) -> bool:
    """Return whether an option is the name of a function that `describe_options` recorded."""
    return isinstance(value, str) and value.startswith("<function ")


def describe_function(name: str) -> str:
    """Return the value of an option that names a function; the inverse of `function_name`."""
    return f"<function {name}>"


def function_name(value: str) -> str:
    """Return the name in a value of `describe_function`."""
    return value.removeprefix("<function ").removesuffix(">")


def without_functions(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without names of functions, which only compute rewards: observations are the same."""
    return {name: value for name, value in options.items() if not is_function_name(value)}


def require_functions(options: Mapping[str, Any], source: str | Path) -> None:
    """Raise ConfigError if an option is the name of a function that `describe_options` recorded in ``source``."""
    for key, value in options.items():
        if is_function_name(value):
            raise ConfigError(
                f"is the Python function {function_name(value)}, which a file cannot hold; pass it from Python: "
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
