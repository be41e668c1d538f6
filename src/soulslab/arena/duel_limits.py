"""Validation of a duel record that comes from a file, before the rules use it.

The compiled rules do not check indices. A record with an invalid index would make them read and write outside their
tables.
"""

from __future__ import annotations

import numpy as np

from soulslab.arena import records as st
from soulslab.arena.boss_file import MAX_WINDOWS_OF_ALL
from soulslab.arena.features import BOSS_BIN, PLAYER_BIN
from soulslab.arena.records import Record, Table

#: Larger than any value of a fight, and small enough that neither integers nor floats overflow.
_MOST_INTEGER, _MOST_FLOAT = 2**40, 1e9


def find_impossible_field(duels: Table, fight: Record) -> str | None:
    """Find a value that cannot occur in a fight.

    Args:
        duels: (N,) `DUEL` records.
        fight: The `FIGHT` record that the duels use.

    Returns:
        A message with the name of a field, its value and its limits, or None if all values are valid.
    """
    for name, (low, high) in _limits(fight).items():
        values = duels[name]
        wrong = ~((values >= low) & (values <= high))  # so that NaN is wrong
        if wrong.any():
            return f"{name} is {values[wrong][0]}, not in [{low}, {high}]"
    # A window of the boss's present move, or the index after its last window.
    moves, windows = duels["b_move"], duels["b_window"]
    most = np.where(moves >= 0, fight.moves["n_windows"][moves], fight.moves["n_windows"].max())
    if (windows > most).any():
        return f"b_window is {windows[windows > most][0]}, more than its move has"
    return None


def _limits(fight: Record) -> dict[str, tuple[float, float]]:
    """Return the least and the greatest value of each field, except for the generator, which can have any."""
    n_moves = int(fight.n_moves)
    limits: dict[str, tuple[float, float]] = {}
    for name in st.DUEL.names or ():
        is_float = st.DUEL[name].base.kind == "f"
        limits[name] = (-_MOST_FLOAT, _MOST_FLOAT) if is_float else (-_MOST_INTEGER, _MOST_INTEGER)
    del limits["rng"]
    limits |= dict.fromkeys(("over", "won", "truncated", "lock_on"), (0, 1))
    limits |= {
        "phase": (0, 2),  # 0 before the first reset
        "start_pose": (-1, int(fight.n_poses) - 1),
        "n_projectiles": (0, st.MAX_PROJECTILES),
        "p_anim": (0, len(PLAYER_BIN) - 1),
        "b_mode": (st.ROAMING, st.THROWN),
        "b_move": (-1, n_moves - 1),
        "b_window": (0, MAX_WINDOWS_OF_ALL),
        "b_anim": (-1, len(BOSS_BIN) - 1),
        "q_move": (-1, n_moves - 1),
        "q_knock": (-1, st.MAX_KNOCK_BACKS - 1),
        "s_killed_by": (-1, n_moves - 1),
    }
    return limits
