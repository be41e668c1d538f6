"""The ticks inside a step, replayed on a copy of a duel with the same rules.

The simulator plays the six ticks of a decision in one call. For smooth pictures, the ticks are replayed on a copy of
the duel from before the step. The generator is part of the record, so the copy draws the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from soulslab.arena.duel import duel_tick
from soulslab.arena.player import is_open
from soulslab.arena.state import TICKS_PER_DECISION, Record, Table
from soulslab.arena.vocabulary import NOTHING


def replay_ticks(before: Table, fight: Record, action: int, n_ticks: int) -> Iterator[Record]:
    """Replay the ticks of a step.

    Args:
        before: (1,) `DUEL`, a copy of the duel from before the step; it is advanced in place.
        fight: The fight's record.
        action: The action of the step. In a step of several decisions, the later ones do nothing.
        n_ticks: Number of ticks to play; the whole step is the difference of ``tick`` after and before it.

    Yields:
        The `DUEL` record after each tick, the same object each time. Fields that change once per step or decision
        (``over``, ``won``, ``decision``, the statistics of the fight) stay unchanged.
    """
    duel = before[0]
    if not is_open(duel, fight, action):
        action = NOTHING
    for k in range(n_ticks):
        held = action if k < TICKS_PER_DECISION else NOTHING
        duel_tick(duel, fight, held, k % TICKS_PER_DECISION == 0)
        yield duel
