"""The boss's present attack, derived from the records: which part of its move is under way, and how much has passed.

Shares are from 0 to 1.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from soulslab.arena.records import ATTACKING, TICKS_PER_S, Record

Stage = Literal["wind-up", "active", "recovery"]


class Blow(msgspec.Struct, frozen=True):
    """The present part of a boss's move.

    ``share`` of that part has passed. ``window`` is the row of the fight's windows, during recovery the last one, and
    ``half_rad`` half its arc. ``side`` is +1 if the attack comes from the left, -1 from the right.
    """

    stage: Stage
    share: float
    window: Record
    half_rad: float
    side: float


def ease(share: float) -> float:
    """Return a share with a smooth start and end."""
    share = min(max(share, 0.0), 1.0)
    return share * share * (3.0 - 2.0 * share)


def sway(tick: int, period_s: float) -> float:
    """Return a slow oscillation from -1 to 1."""
    return math.sin(tick * 2.0 * math.pi / (period_s * TICKS_PER_S))


def half_arc(row: Record) -> float:
    """Return half the arc of an attack; a full circle has a cosine below -1."""
    return math.acos(max(min(float(row.cos_half), 1.0), -1.0))


def blow_of(d: Record, f: Record) -> Blow | None:
    """Return the present part of the boss's move, or None if it is not in a move."""
    if d.b_mode != ATTACKING:
        return None
    move = f.moves[d.b_move]
    place = min(int(d.b_window), int(move.n_windows) - 1)
    window = f.windows[move.first_window + place]
    before = int(f.windows[move.first_window + place - 1].end) if place > 0 else 0
    side = 1.0 if (int(d.b_move) + place) % 2 else -1.0
    now = int(d.b_ticks)
    stage: Stage
    if d.b_window >= move.n_windows or now >= window.end:
        stage, since, until = "recovery", int(window.end), int(move.duration)
    elif now < window.start:
        stage, since, until = "wind-up", before, int(window.start)
    else:
        stage, since, until = "active", int(window.start), int(window.end)
    return Blow(stage, (now - since) / max(until - since, 1), window, half_arc(window), side)
