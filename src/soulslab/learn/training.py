"""Loading the settings of a training run of any algorithm."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from soulslab.config import load_settings, read_overrides
from soulslab.config.loading import read_toml
from soulslab.errors import ConfigError, did_you_mean
from soulslab.learn.configs import default_config
from soulslab.learn.path_settings import with_absolute_paths
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import EnvSettings, TrainSettings

_log = logging.getLogger(__name__)

AnySettings = TrainSettings | RainbowSettings

_SETTINGS: dict[str, type[TrainSettings] | type[RainbowSettings]] = {"ppo": TrainSettings, "rainbow": RainbowSettings}


def load_run_settings(path: Path | None, overrides: Sequence[str] = ()) -> AnySettings:
    """Read the settings of a run from a TOML file, whose key ``algorithm`` is ``ppo`` (the default) or ``rainbow``.

    Without a file, all settings have their defaults. Overrides such as ``learner.lr=1e-4`` or ``algorithm=rainbow``
    change single settings. Raises ConfigError for an unknown algorithm or setting, and for a value out of range.
    """
    data = {"algorithm": "ppo"} | (read_toml(path) if path is not None else {}) | read_overrides(overrides, "--set")
    name = str(data["algorithm"])
    if name not in _SETTINGS:
        raise ConfigError(
            f"{name!r} is not an algorithm{did_you_mean(name, _SETTINGS)}", path="algorithm", source=path or ""
        )
    return load_settings(_SETTINGS[name], path, overrides)


def load_new_run_settings(config: Path | None, overrides: Sequence[str] = ()) -> AnySettings:
    """Read the settings of a new run, with absolute paths; without a file, from `configs.default_config`."""
    if config is None:
        given = read_overrides(overrides, "--set")
        env = given.get("env")
        env_id = env.get("id") if isinstance(env, dict) else None
        config = default_config(str(given.get("algorithm", "ppo")), str(env_id or EnvSettings().id))
        if config is not None:
            _log.info("using the settings of %s; choose another file with --config", config.name)
    return with_absolute_paths(load_run_settings(config, overrides))


def with_env_options(settings: AnySettings, options: Mapping[str, Any]) -> AnySettings:
    """Return the settings of a run with further options merged over ``settings.env.options``."""
    env = msgspec.structs.replace(settings.env, options={**settings.env.options, **options})
    return msgspec.structs.replace(settings, env=env)
