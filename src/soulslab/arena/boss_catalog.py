"""Bosses by the name that an option ``boss`` has: a shipped boss, a generated boss, or the path of a boss file."""

from __future__ import annotations

import re
from pathlib import Path

from soulslab.arena.boss_file import Boss, load_boss
from soulslab.arena.boss_generator import generate_boss
from soulslab.arena.knight_file import load_knight

_GENERATED = re.compile(r"generated:(\d{1,10})")


def find_boss(name: str | Path) -> Boss:
    """Return a boss.

    Args:
        name: Name of a shipped boss, ``generated:SEED`` (`soulslab.arena.boss_generator`), or the path of a boss file
            (ends in ``.toml``).

    Raises:
        UnknownBossError: There is no boss of that name.
        EnvironmentUsageError: The seed of a generated boss is out of range.
        BossFileError: The file cannot be read, or is invalid.
    """
    if match := _GENERATED.fullmatch(str(name)):
        return generate_boss(int(match[1]))
    return load_boss(name, list(load_knight().knock_backs))
