"""The training configs that come with soulslab."""

from __future__ import annotations

from pathlib import Path

from soulslab.errors import ConfigError

CONFIG_DIR = Path(__file__).parent


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
