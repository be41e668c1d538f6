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

_SOULS = "soulslab.envs.tasks.souls.souls_env:SoulsDuelEnv"
#: Class of each environment, and its description for `soulslab envs`. Listing them imports no package of an extra.
_ENVIRONMENTS = {
    ARENA_ID: ("soulslab.envs.arena:ArenaEnv", "the built-in boss fight, simulated"),
    ARENA_LIVE_ID: (
        "soulslab.envs.tasks.duel.arena_live:ArenaLiveEnv",
        "the built-in boss fight, played in its window",
    ),
    ELDENGYM_ID: ("soulslab.compat.eldengym:EldenGymEnv", "Margit of Elden Ring, with the interface of EldenGym"),
    PROCESS_ID: ("soulslab.envs.tasks.process.process_env:ProcessEnv", "any game that a profile describes"),
    DOOM_ID: ("soulslab.envs.tasks.process.doom:DoomEnv", "a level of Chocolate Doom"),
    IUDEX_ID: (_SOULS, "Iudex Gundyr of Dark Souls III"),
    "soulslab/DarkSouls3IudexPixels-v0": (_SOULS, "Iudex Gundyr of Dark Souls III, observed as pixels"),
    IUDEX_DEMO_ID: (_SOULS, "Iudex Gundyr of Dark Souls III, whole fights in an unchanged game"),
    "soulslab/DarkSouls3Vordt-v0": (_SOULS, "Vordt of Dark Souls III"),
    "soulslab/EldenRingMargit-v0": (_SOULS, "Margit of Elden Ring"),
}
DESCRIPTIONS = {env_id: description for env_id, (_, description) in _ENVIRONMENTS.items()}


def __getattr__(name: str) -> Any:
    """Import an environment class when Gymnasium looks up its entry point."""
    for place, _ in _ENVIRONMENTS.values():
        module, _, class_name = place.partition(":")
        if name in (class_name, _vector_name(class_name)):
            with optional_imports():
                return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _vector_name(class_name: str) -> str:
    """Return the name of the vector environment of an environment class; both are in the same module."""
    return class_name.replace("Env", "VectorEnv")


def register_all() -> None:
    """Register every environment of soulslab with Gymnasium; a second call changes nothing."""
    for env_id, (place, _) in _ENVIRONMENTS.items():
        name = place.partition(":")[2]
        if env_id not in registry:
            # No TimeLimit wrapper: the environments count their own steps and report truncation themselves.
            register(
                id=env_id,
                entry_point=f"{__name__}:{name}",
                vector_entry_point=f"{__name__}:{_vector_name(name)}" if env_id != ELDENGYM_ID else None,
                disable_env_checker=True,
                order_enforce=False,
                kwargs=dict(SOULS_IDS.get(env_id, {})),
            )
