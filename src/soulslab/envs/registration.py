"""Registration of soulslab's environments with Gymnasium."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gymnasium.envs.registration import register, registry

from soulslab.errors import optional_imports

ARENA_ID = "soulslab/Arena-v0"
PROCESS_ID = "soulslab/Process-v0"
DOOM_ID = "soulslab/Doom-v0"
ARENA_LIVE_ID = "soulslab/ArenaLive-v0"

IUDEX_ID = "soulslab/DarkSouls3Iudex-v0"
IUDEX_DEMO_ID = "soulslab/DarkSouls3IudexDemo-v0"

#: The id in EldenGym's documentation.
ELDENGYM_ID = "EldenGym-v0"

#: Default options of the environments of real games.
SOULS_IDS: dict[str, dict[str, Any]] = {
    IUDEX_ID: {"game": "dark_souls_3", "boss": "iudex"},
    "soulslab/DarkSouls3IudexPixels-v0": {"game": "dark_souls_3", "boss": "iudex", "observation": "pixels"},
    IUDEX_DEMO_ID: {"game": "dark_souls_3", "boss": "iudex", "episodes": "demo"},
    "soulslab/DarkSouls3Vordt-v0": {"game": "dark_souls_3", "boss": "vordt"},
    "soulslab/EldenRingMargit-v0": {"game": "elden_ring", "boss": "margit"},
}

#: Module of each environment class; that of a vector environment ends in ``VectorEnv`` instead of ``Env``.
_MODULES = {
    "ArenaEnv": "soulslab.envs.arena",
    "ArenaLiveEnv": "soulslab.envs.tasks.duel.arena_live",
    "DoomEnv": "soulslab.envs.tasks.process.doom",
    "EldenGymEnv": "soulslab.compat.eldengym",
    "ProcessEnv": "soulslab.envs.tasks.process.process_env",
    "SoulsDuelEnv": "soulslab.envs.tasks.souls.souls_env",
}
#: Environment class of each id.
_CLASSES = {
    ARENA_ID: "ArenaEnv",
    PROCESS_ID: "ProcessEnv",
    DOOM_ID: "DoomEnv",
    ARENA_LIVE_ID: "ArenaLiveEnv",
    ELDENGYM_ID: "EldenGymEnv",
    **dict.fromkeys(SOULS_IDS, "SoulsDuelEnv"),
}

#: One line for each id, for `soulslab envs`. Listing them imports no package of an extra.
DESCRIPTIONS = {
    ARENA_ID: "the built-in boss fight, simulated",
    ARENA_LIVE_ID: "the built-in boss fight, played in its window",
    ELDENGYM_ID: "Margit of Elden Ring, with the interface of EldenGym",
    PROCESS_ID: "any game that a profile describes",
    DOOM_ID: "a level of Chocolate Doom",
    IUDEX_ID: "Iudex Gundyr of Dark Souls III",
    "soulslab/DarkSouls3IudexPixels-v0": "Iudex Gundyr of Dark Souls III, observed as pixels",
    IUDEX_DEMO_ID: "Iudex Gundyr of Dark Souls III, whole fights in an unchanged game",
    "soulslab/DarkSouls3Vordt-v0": "Vordt of Dark Souls III",
    "soulslab/EldenRingMargit-v0": "Margit of Elden Ring",
}


def __getattr__(name: str) -> Any:
    """Import an environment class when Gymnasium looks up its entry point."""
    module = _MODULES.get(name.replace("VectorEnv", "Env"))
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with optional_imports():
        return getattr(import_module(module), name)


def register_all() -> None:
    """Register every environment of soulslab with Gymnasium; a second call changes nothing."""
    for env_id, name in _CLASSES.items():
        if env_id not in registry:
            vector_name = name.replace("Env", "VectorEnv")
            # No TimeLimit wrapper: the environments count their own steps and report truncation themselves.
            register(
                id=env_id,
                entry_point=f"{__name__}:{name}",
                vector_entry_point=f"{__name__}:{vector_name}" if env_id != ELDENGYM_ID else None,
                disable_env_checker=True,
                order_enforce=False,
                kwargs=dict(SOULS_IDS.get(env_id, {})),
            )
