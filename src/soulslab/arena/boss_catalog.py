"""Bosses by the name that an option ``boss`` has: a shipped boss, generated bosses, or the path of a boss file."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Final

from soulslab.arena.boss_file import Boss, load_boss
from soulslab.arena.boss_generator import CHECK_S, generate_boss, is_checked
from soulslab.arena.knight_file import load_knight
from soulslab.errors import EnvironmentUsageError

#: Bosses of a range; the rules against each take 30 kB.
MAX_BOSSES: Final = 1024
#: Bosses of a range whose fairness is not stored and has to be checked in each process that makes them.
MAX_UNCHECKED: Final = 64
_GENERATED = re.compile(r"generated:(\d{1,10})(?:-(\d{1,10}))?")

_log = logging.getLogger(__name__)


def find_boss(name: str | Path) -> Boss:
    """Return a boss.

    Args:
        name: Name of a shipped boss, ``generated:SEED`` (`soulslab.arena.boss_generator`), or the path of a boss file
            (ends in ``.toml``).

    Raises:
        UnknownBossError: There is no boss of that name.
        EnvironmentUsageError: The seed of a generated boss is out of range, or the name is that of a range of bosses.
        BossFileError: The file cannot be read, or is invalid.
    """
    seeds = generated_seeds(name)
    if seeds is None:
        return load_boss(name, list(load_knight().knock_backs))
    if len(seeds) > 1:
        raise EnvironmentUsageError(
            f"{name}: {len(seeds)} bosses, but one is needed here; name one of them, such as generated:{seeds[0]}"
        )
    return generate_boss(seeds[0])


def find_bosses(name: str | Path) -> tuple[Boss, ...]:
    """Return the bosses of ``generated:FIRST-LAST``, or the one boss of another name.

    Raises:
        EnvironmentUsageError: More than `MAX_UNCHECKED` bosses of a range have to be checked; or as `find_boss`.
    """
    seeds = generated_seeds(name)
    if seeds is None:
        return (find_boss(name),)
    n_unchecked = sum(not is_checked(seed) for seed in seeds)
    if n_unchecked > MAX_UNCHECKED:
        raise EnvironmentUsageError(
            f"{name}: {n_unchecked} bosses would have to be checked for fairness, {CHECK_S:.1f} s each, and at most "
            f"{MAX_UNCHECKED} are; use a smaller range, or seeds of checked_bosses.toml such as generated:0-511"
        )
    if n_unchecked > 1:
        _log.info("checking the fairness of %d generated bosses, about %.0f s", n_unchecked, CHECK_S * n_unchecked)
    return tuple(map(generate_boss, seeds))


def generated_seeds(name: str | Path) -> range | None:
    """Return the seeds of ``generated:SEED`` or ``generated:FIRST-LAST``; None for a boss of another name.

    Raises:
        EnvironmentUsageError: The range is empty or has more than `MAX_BOSSES` bosses.
    """
    match = _GENERATED.fullmatch(str(name))
    if match is None:
        return None
    seeds = range(int(match[1]), int(match[2] or match[1]) + 1)
    if not 1 <= len(seeds) <= MAX_BOSSES:
        raise EnvironmentUsageError(
            f"{name}: a range has from 1 to {MAX_BOSSES} bosses, with the first and the last, such as generated:0-511"
        )
    return seeds
