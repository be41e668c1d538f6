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
}
_ANY: Final = {"ppo": "any.toml"}


def config_path(name: str | Path) -> Path:
    """Return a config file: the path itself if there is such a file, else the shipped config of that name.

    Raises:
        ConfigError: There is neither.
    """
    path = Path(name)
    if path.exists():
        return path
    if path.parent == Path() and (CONFIG_DIR / path).exists():
        return CONFIG_DIR / path
    known = ", ".join(sorted(file.name for file in CONFIG_DIR.glob("*.toml")))
    raise ConfigError(f"no such file, and none of that name comes with soulslab ({known})", source=path)


def default_config(algorithm: str, env_id: str) -> Path | None:
    """Return the config of a run that is started without one.

    Args:
        algorithm: ``ppo`` or ``rainbow``.
        env_id: Gymnasium id of the environment.

    Returns:
        The shipped config for this environment, or that for any environment; None if the defaults of the settings are
        to be used.
    """
    name = _DEFAULTS.get((algorithm, env_id), _ANY.get(algorithm))
    return None if name is None else CONFIG_DIR / name
