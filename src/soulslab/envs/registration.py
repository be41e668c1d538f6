"""The Gymnasium ids of soulslab."""

from __future__ import annotations

from typing import Any

from gymnasium.envs.registration import register, registry

ARENA_ID = "soulslab/Arena-v0"
PROCESS_ID = "soulslab/Process-v0"
DOOM_ID = "soulslab/Doom-v0"
ARENA_LIVE_ID = "soulslab/ArenaLive-v0"

IUDEX_ID = "soulslab/DarkSouls3Iudex-v0"
IUDEX_DEMO_ID = "soulslab/DarkSouls3IudexDemo-v0"

#: The id in EldenGym's documentation.
ELDENGYM_ID = "EldenGym-v0"

#: Of real games: game, boss, and what the id asks for beside them.
SOULS_IDS: dict[str, dict[str, Any]] = {
    IUDEX_ID: {"game": "dark_souls_3", "boss": "iudex"},
    "soulslab/DarkSouls3IudexPixels-v0": {"game": "dark_souls_3", "boss": "iudex", "observation": "pixels"},
    IUDEX_DEMO_ID: {"game": "dark_souls_3", "boss": "iudex", "episodes": "demo"},
    "soulslab/DarkSouls3Vordt-v0": {"game": "dark_souls_3", "boss": "vordt"},
    "soulslab/EldenRingMargit-v0": {"game": "elden_ring", "boss": "margit"},
}
_SOULS_ENTRY_POINTS = ("soulslab.envs.souls.env:SoulsDuelEnv", "soulslab.envs.souls.vector:SoulsDuelVectorEnv")

_ENTRY_POINTS = {
    ARENA_ID: ("soulslab.envs.arena:ArenaEnv", "soulslab.envs.arena:ArenaVectorEnv"),
    PROCESS_ID: ("soulslab.envs.process:ProcessEnv", "soulslab.envs.process_vector:ProcessVectorEnv"),
    DOOM_ID: ("soulslab.envs.doom:DoomEnv", "soulslab.envs.doom:DoomVectorEnv"),
    ARENA_LIVE_ID: ("soulslab.envs.live.arena:ArenaLiveEnv", "soulslab.envs.live.vector:ArenaLiveVectorEnv"),
}


def register_all() -> None:
    """Register every environment of soulslab with Gymnasium; a second call changes nothing."""
    entry_points: dict[str, tuple[str, str | None]] = {**_ENTRY_POINTS, **dict.fromkeys(SOULS_IDS, _SOULS_ENTRY_POINTS)}
    entry_points[ELDENGYM_ID] = ("soulslab.envs.eldengym:EldenGymEnv", None)
    for env_id, (entry_point, vector_entry_point) in entry_points.items():
        if env_id not in registry:
            # No TimeLimit wrapper: the environments count their own steps and report truncation themselves.
            register(
                id=env_id,
                entry_point=entry_point,
                vector_entry_point=vector_entry_point,
                disable_env_checker=True,
                order_enforce=False,
                kwargs=dict(SOULS_IDS.get(env_id, {})),
            )
