"""Settings: frozen ``msgspec.Struct`` types, loaded from a TOML file and ``--set a.b=c`` options.

::

    settings = load_settings(TrainSettings, Path("demo.toml"), ["learner.lr=1e-4"])
    text = dump_settings(settings)           # the same, as TOML
    rows = describe_settings(TrainSettings)  # for the documentation

Names, defaults, ranges and descriptions are defined only by the type; an unknown setting is an error with its path.
"""

from soulslab.config.loading import load_settings, read_overrides
from soulslab.config.secret import SECRET_OPTIONS, Secret, reveal, without_secrets
from soulslab.config.writing import Setting, describe_settings, dump_settings

__all__ = [
    "SECRET_OPTIONS",
    "Secret",
    "Setting",
    "describe_settings",
    "dump_settings",
    "load_settings",
    "read_overrides",
    "reveal",
    "without_secrets",
]
