"""The Gymnasium ids of soulslab."""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

ARENA_ID = "soulslab/Arena-v0"


def register_all() -> None:
    """Register every environment of soulslab with Gymnasium; a second call changes nothing."""
    if ARENA_ID not in registry:
        # No TimeLimit wrapper: the fight counts its own 3000 decisions and reports truncation itself.
        register(
            id=ARENA_ID,
            entry_point="soulslab.envs.arena:ArenaEnv",
            vector_entry_point="soulslab.envs.arena:ArenaVectorEnv",
            disable_env_checker=True,
            order_enforce=False,
        )
