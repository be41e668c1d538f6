"""The training configs that come with soulslab."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from soulslab.errors import ConfigError

CONFIG_DIR = Path(__file__).parent

_DEFAULTS: Final = {
    ("ppo", "soulslab/Arena-v0"): "demo.toml",
    ("ppo", "soulslab/Doom-v0"): "doom.toml",
    ("rainbow", "soulslab/Arena-v0"): "rainbow.toml",
    ("ppo", ""): "any.toml",
}


def shipped_configs() -> list[str]:
    """Return the names of the configs, in alphabetical order."""
    return sorted(file.name for file in CONFIG_DIR.glob("*.toml"))


def config_path(name: str | Path) -> Path:
    """Return a path if it exists, else the path of soulslab's config of that name; raises ConfigError without one."""
    path = Path(name)
    if path.exists():
        return path
    if path.parent == Path() and (CONFIG_DIR / path).exists():
        return CONFIG_DIR / path
    raise ConfigError(
        f"no such file, and soulslab has no config of that name ({', '.join(shipped_configs())})", source=path
    )


def default_config(algorithm: str, env_id: str) -> Path | None:
    """Return the config for an environment, else that for any environment; None if the defaults apply."""
    name = _DEFAULTS.get((algorithm, env_id), _DEFAULTS.get((algorithm, "")))
    return CONFIG_DIR / name if name is not None else None
