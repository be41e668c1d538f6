"""The ticks inside a step: a copy of a duel, moved on one tick at a time by the same rules.

The simulator plays the six ticks of a decision in one go. For smooth pictures a copy of the duel from before the step
goes the same way again; its generator is part of its record, so it draws the same numbers and ends in the same place.
"""

from __future__ import annotations

from collections.abc import Iterator

from soulslab.arena.duel import duel_tick
from soulslab.arena.player import is_open
from soulslab.arena.state import TICKS_PER_DECISION, Record, Table
from soulslab.arena.vocabulary import NOTHING


def replay_ticks(before: Table, fight: Record, action: int, n_ticks: int) -> Iterator[Record]:
    """Play the ticks of a step again.

    Args:
        before: (1,) `DUEL`, a copy of the duel from before the step; it is moved on in place.
        fight: The fight's record.
        action: The action of the step. In a step of several decisions, those after the first do nothing.
        n_ticks: Ticks to play; ``tick`` of the duel after the step less that before is the whole step.

    Yields:
        The `DUEL` record after each tick, the same one each time. What is counted once a step or decision (``over``,
        ``won``, ``decision``, the statistics of the fight) stays as it was.
    """
    duel = before[0]
    if not is_open(duel, fight, action):
        action = NOTHING
    for k in range(n_ticks):
        held = action if k < TICKS_PER_DECISION else NOTHING
        duel_tick(duel, fight, held, k % TICKS_PER_DECISION == 0)
        yield duel
