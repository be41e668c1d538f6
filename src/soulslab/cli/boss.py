"""``soulslab boss``: boss files of the built-in fight."""

from __future__ import annotations

import logging
from pathlib import Path

from cyclopts import App

from soulslab.cli.output import EXIT_OK
from soulslab.errors import ConfigError

_log = logging.getLogger(__name__)

boss = App(name="boss", help="Boss files of the built-in fight.")


@boss.command
def write(name: str, out: Path) -> int:
    """Write a boss as a boss file, to read or to change.

    Args:
        name: A shipped boss, generated:SEED, or the path of a boss file.
        out: The file, which must not exist.
    """
    from soulslab.arena.boss_catalog import find_boss
    from soulslab.config.writing import dump_settings

    if out.suffix != ".toml":
        raise ConfigError("must end in .toml, as the path of every boss file", source=out)
    text = dump_settings(find_boss(name))
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError("already exists; choose another name, or remove the file", source=out) from error
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", source=out) from error
    _log.info("%s", out)
    return EXIT_OK
