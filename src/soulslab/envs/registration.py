"""The Gymnasium ids of soulslab."""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

ARENA_ID = "soulslab/Arena-v0"
PROCESS_ID = "soulslab/Process-v0"
DOOM_ID = "soulslab/Doom-v0"
ARENA_LIVE_ID = "soulslab/ArenaLive-v0"

_ENTRY_POINTS = {
    ARENA_ID: ("soulslab.envs.arena:ArenaEnv", "soulslab.envs.arena:ArenaVectorEnv"),
    PROCESS_ID: ("soulslab.envs.process:ProcessEnv", "soulslab.envs.process_vector:ProcessVectorEnv"),
    DOOM_ID: ("soulslab.envs.doom:DoomEnv", "soulslab.envs.doom:DoomVectorEnv"),
    ARENA_LIVE_ID: ("soulslab.envs.live.arena:ArenaLiveEnv", "soulslab.envs.live.vector:ArenaLiveVectorEnv"),
}


def register_all() -> None:
    """Register every environment of soulslab with Gymnasium; a second call changes nothing."""
    for env_id, (entry_point, vector_entry_point) in _ENTRY_POINTS.items():
        if env_id not in registry:
            # No TimeLimit wrapper: the environments count their own steps and report truncation themselves.
            register(
                id=env_id,
                entry_point=entry_point,
                vector_entry_point=vector_entry_point,
                disable_env_checker=True,
                order_enforce=False,
            )
