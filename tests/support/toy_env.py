"""Environments of the toy game of `soulslab.testing.fake_session`."""

from __future__ import annotations

from typing import Any

import msgspec

from soulslab.envs.tasks.process.process_env import ProcessEnv
from soulslab.siphon.profile import Profile
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession

#: An ``[env]`` table that uses each part of the format.
TOY_ENV: dict[str, Any] = {
    "step_ticks": 2,
    "state": ["hp", "x", "y", "is_hurt", "velocity"],
    "info": ["name", "level"],
    "feature_range": {"x": [-100, 100], "y": [-100, 100], "velocity": [-1, 1]},
    "actions": {"up": ["up"], "left": ["left"], "right": ["right"], "hurt": ["hurt"], "both": ["up", "right"]},
    "reward": {"walk": {"attribute": ["x", "y"], "kind": "distance"}, "pain": {"attribute": "hp", "kind": "loss"}},
    "end": {"death": {"attribute": "hp", "at_most": 0}},
    "max_steps": 20,
    "reset": [{"write": {"hp": 10, "x": 0.0, "y": 0.0}}],
}


def toy_table(**changes: Any) -> dict[str, Any]:
    """Return the table with changed settings; None removes a setting."""
    table = {**TOY_ENV, **changes}
    return {name: value for name, value in table.items() if value is not None}


def toy_profile(**changes: Any) -> Profile:
    return msgspec.structs.replace(TOY_PROFILE, env=toy_table(**changes))


class Toys:
    """A session factory for the toy game; keeps its sessions."""

    def __init__(self, env: dict[str, Any]) -> None:
        self._env = env
        self.sessions: list[FakeSession] = []

    def __call__(self) -> FakeSession:
        self.sessions.append(FakeSession(env=self._env))
        return self.sessions[-1]

    @property
    def last(self) -> FakeSession:
        return self.sessions[-1]


def toy_env(render_mode: str | None = None, options: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Return an environment of the toy game; its session factory is ``env.toys``."""
    toys = Toys(toy_table(**changes))
    env: Any = ProcessEnv(render_mode, profile=toy_profile(**changes), session=toys, **(options or {}))
    env.toys = toys
    return env
