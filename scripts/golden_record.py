"""Record what the environments return for fixed seeds and actions, and compare two records.

To verify that a change does not alter behaviour, compare it with a record of the code before the change::

    git worktree add ../before main
    (cd ../before && python scripts/golden_record.py write /tmp/before.json)
    python scripts/golden_record.py write /tmp/after.json
    python scripts/golden_record.py compare /tmp/before.json /tmp/after.json

Each step is recorded as hashes of its observation and its info, its reward, and whether the episode ended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import soulslab  # noqa: F401  (registers the ids)

N_EPISODES = 20
MAX_STEPS = 120
#: Entries of info that depend on wall time or on the process.
UNSTABLE_INFO = frozenset({"late_s"})
#: Entries of each recorded step; a reset has the first two.
PARTS = ("observation", "info", "reward", "terminated", "truncated")

LIVE = {"size_px": (160, 90)}
#: Seed of the first fight of a window that is a stand-in for another game.
SEED = {"launch_seed": 0}
STAND_IN = {"stand_in": True, **LIVE, **SEED}
#: Name of each case: id and options.
SINGLE: dict[str, tuple[str, dict[str, Any]]] = {
    "arena": ("soulslab/Arena-v0", {}),
    "arena-dict": ("soulslab/Arena-v0", {"observation": "dict", "reward": "soulsgym", "phase": "1"}),
    "arena-pose": ("soulslab/Arena-v0", {"random_pose": True, "skip_locked": True, "reward": "eldengym"}),
    "live": ("soulslab/ArenaLive-v0", LIVE),
    "live-demo": ("soulslab/ArenaLive-v0", {**LIVE, "episodes": "demo"}),
    "live-dict": ("soulslab/ArenaLive-v0", {**LIVE, "observation": "dict", "episodes": "in_place"}),
    "live-er": ("soulslab/ArenaLive-v0", {**LIVE, **SEED, "mask": "elden_ring"}),
    "live-pixels": ("soulslab/ArenaLive-v0", {**LIVE, "observation": "pixels"}),
    "iudex": ("soulslab/DarkSouls3Iudex-v0", STAND_IN),
    "iudex-demo": ("soulslab/DarkSouls3IudexDemo-v0", STAND_IN),
    "iudex-pixels": ("soulslab/DarkSouls3IudexPixels-v0", STAND_IN),
    "margit": ("soulslab/EldenRingMargit-v0", STAND_IN),
    "eldengym": ("EldenGym-v0", {"scenario_name": "margit", "stand_in": True, **SEED}),
    "doom": ("soulslab/Doom-v0", {}),
    "process": ("soulslab/Process-v0", {"profile": "doom"}),
}
VECTOR: dict[str, tuple[str, int, dict[str, Any]]] = {
    **{
        f"arena-{mode}": ("soulslab/Arena-v0", 4, {"autoreset_mode": mode})
        for mode in ("next_step", "same_step", "disabled")
    },
    "live-vector": ("soulslab/ArenaLive-v0", 2, LIVE),
    "doom-vector": ("soulslab/Doom-v0", 2, {}),
}


def plain(value: Any) -> Any:
    """Return a value in a form that JSON supports; arrays as their type, shape and hash."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return [plain(entry) for entry in value]
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items() if name not in UNSTABLE_INFO}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value if isinstance(value, (bool, int, str, type(None))) else repr(value)


def digest(value: Any) -> str:
    """Return a short hash of a value."""
    return hashlib.sha256(json.dumps(plain(value), sort_keys=True).encode()).hexdigest()[:12]


def info_of(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each entry of an info, by name."""
    return {name: digest(value) for name, value in sorted(info.items()) if name not in UNSTABLE_INFO}


def choose(rng: np.random.Generator, space: gymnasium.Space[Any], mask: Any) -> Any:
    """Sample an action that the mask allows."""
    if isinstance(space, gymnasium.spaces.Discrete):
        allowed = np.flatnonzero(mask) if mask is not None else np.arange(space.n)
        return int(rng.choice(allowed)) + int(space.start)
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return rng.integers(0, 2, space.shape, dtype=space.dtype)
    raise NotImplementedError(f"sampling from {space} is not supported")


def single_rows(env: gymnasium.Env[Any, Any], n_episodes: int) -> Iterator[list[Any]]:
    """Play episodes and yield their steps."""
    for episode in range(n_episodes):
        rng = np.random.default_rng(episode)
        observation, info = env.reset(seed=episode)
        steps: list[Any] = [[digest(observation), info_of(info)]]
        for _ in range(MAX_STEPS):
            action = choose(rng, env.action_space, info.get("action_mask"))
            observation, reward, terminated, truncated, info = env.step(action)
            steps.append([digest(observation), info_of(info), float(reward), bool(terminated), bool(truncated)])
            if terminated or truncated:
                break
        yield steps


def vector_rows(envs: gymnasium.vector.VectorEnv[Any, Any, Any], n_episodes: int) -> Iterator[list[Any]]:
    """Play as many steps as the episodes have in total, and yield them as one episode."""
    rng = np.random.default_rng(0)
    observation, info = envs.reset(seed=0)
    steps: list[Any] = [[digest(observation), info_of(info)]]
    is_disabled = envs.metadata.get("autoreset_mode") == gymnasium.vector.AutoresetMode.DISABLED
    for _ in range(n_episodes * MAX_STEPS // envs.num_envs):
        masks = info.get("action_mask", [None] * envs.num_envs)
        actions = np.array([choose(rng, envs.single_action_space, mask) for mask in masks])
        observation, reward, terminated, truncated, info = envs.step(actions)
        steps.append([digest(observation), info_of(info), digest(reward), digest(terminated), digest(truncated)])
        ended = terminated | truncated
        if is_disabled and ended.any():
            observation, info = envs.reset(options={"reset_mask": ended})
            steps.append([digest(observation), info_of(info)])
    yield steps


def write(path: Path, n_episodes: int, cases: list[str]) -> None:
    """Write the record of each case."""
    record: dict[str, Any] = {}
    for name in cases:
        began_s = time.monotonic()
        if name in SINGLE:
            env_id, options = SINGLE[name]
            with gymnasium.make(env_id, **options) as env:
                record[name] = list(single_rows(env, n_episodes))
        else:
            env_id, n_envs, options = VECTOR[name]
            envs = gymnasium.make_vec(env_id, n_envs, vectorization_mode="vector_entry_point", **options)
            try:
                record[name] = list(vector_rows(envs, n_episodes))
            finally:
                envs.close()
        n_steps = sum(map(len, record[name]))
        print(f"{name}: {len(record[name])} episodes, {n_steps} rows, {time.monotonic() - began_s:.1f} s", flush=True)  # noqa: T201
    path.write_text(json.dumps(record))


def compare(before: Path, after: Path) -> int:
    """Print the first difference of each case; return the number of cases that differ."""
    old, new = (json.loads(path.read_text()) for path in (before, after))
    n_different = 0
    for name in sorted(old.keys() | new.keys()):
        problem = _difference(old.get(name), new.get(name))
        n_different += bool(problem)
        print(f"{name}: {problem or 'equal'}")  # noqa: T201
    return n_different


def _difference(old: list[Any] | None, new: list[Any] | None) -> str:
    if not old or not new:
        return "is in one record only"
    if len(old) != len(new):
        return f"{len(old)} and {len(new)} episodes"
    for episode, (steps, others) in enumerate(zip(old, new, strict=True)):
        for i, (step, other) in enumerate(zip(steps, others, strict=False)):
            for part, one, two in zip(PARTS, step, other, strict=False):
                if one != two:
                    names = [name for name in one if one[name] != two.get(name)] if part == "info" else ""
                    return f"episode {episode}, step {i}: {part} {names} differs"
        if len(steps) != len(others):
            return f"episode {episode}: {len(steps)} and {len(others)} rows"
    return ""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="play all cases and write the record")
    writing.add_argument("path", type=Path)
    writing.add_argument("--episodes", type=int, default=N_EPISODES)
    writing.add_argument("--cases", nargs="*", default=[*SINGLE, *VECTOR])
    comparing = commands.add_parser("compare", help="compare two records")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "write":
        write(arguments.path, arguments.episodes, arguments.cases)
        return 0
    return 1 if compare(arguments.before, arguments.after) else 0


if __name__ == "__main__":
    sys.exit(main())
