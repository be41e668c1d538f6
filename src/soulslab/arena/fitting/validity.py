"""A fitted boss is a boss that a boss file can describe."""

from __future__ import annotations

import msgspec

from soulslab.arena.boss_file import Boss, Move, parse_boss
from soulslab.arena.knight_file import Knight
from soulslab.arena.uncertainty import number_bounds, numbers_of, with_numbers
from soulslab.config import dump_settings
from soulslab.errors import BossFileError, FitError


def bounded(boss: Boss) -> Boss:
    """Return a boss whose numbers are within the bounds of a boss file; odd recordings lead to others."""
    numbers = {}
    for place, number in numbers_of(boss):
        least, most = number_bounds(place)
        numbers[place] = min(max(number, least), most)
    return with_numbers(boss, numbers)


def in_both_phases(move: Move) -> Move:
    """Return an attack that both phases choose, for recordings that show only the second one."""
    follow_ups = tuple(msgspec.structs.replace(each, phases=(1, 2)) for each in move.follow_ups)
    return msgspec.structs.replace(move, phases=(1, 2), follow_ups=follow_ups)


def check_boss(boss: Boss, knight: Knight) -> None:
    """Raise `FitError` if no boss file can describe a boss, for example because it can choose no attack in a phase."""
    try:
        parse_boss(dump_settings(boss), "the fitted boss", tuple(knight.knock_backs))
    except BossFileError as error:
        raise FitError(f"the recordings show too little: {error}; record more fights") from error
