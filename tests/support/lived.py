"""Random streams of rows from several environments, and a reference implementation of a replay ring."""

from __future__ import annotations

from collections import deque

import numpy as np
from hypothesis import strategies as st

from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type

SHAPE = StepShape(n_features=2, n_actions=11)

GOES_ON, ENDS, IS_CUT, LOSES_FINAL, BREAKS = range(5)
"""What happens at a step: the last two lose the observation of a cut, or what came after the step."""

lives = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([GOES_ON] * 4 + [ENDS, IS_CUT, LOSES_FINAL, BREAKS])), max_size=80
)
"""Steps of three environments in the order in which they come: (environment, what happens)."""


def rows_of(life, seed=0, shape=SHAPE):
    """Return the rows of a stream; the first feature is the number of the row, the second its environment."""
    rng = np.random.default_rng(seed)
    rows = np.zeros(2 * len(life), row_type(shape))
    is_first = {}
    n = 0
    for stream, event in life:
        row = rows[n]
        row["features"][:2] = n, stream
        row["stream"] = stream
        row["reward"] = rng.normal()
        row["action"] = rng.integers(shape.n_actions)
        row["n_decisions"] = rng.choice([1, 1, 2, 7, 300])
        row["blocked"] = np.packbits(rng.random(shape.n_actions) < 0.5)
        row["is_first"] = is_first.get(stream, rng.random() < 0.5)
        row["outcome"] = {ENDS: Outcome.TERMINATED, IS_CUT: Outcome.TRUNCATED, LOSES_FINAL: Outcome.TRUNCATED}.get(
            event, Outcome.GOES_ON
        )
        is_first[stream] = event != GOES_ON
        n += 1
        if event == IS_CUT:
            final = rows[n]
            final["features"][:2] = n, stream
            final["stream"] = stream
            final["blocked"] = np.packbits(rng.random(shape.n_actions) < 0.5)
            final["outcome"] = Outcome.FINAL
            n += 1
    return rows[:n].copy()


class Memory:
    """Expected contents of a ring: a deque for each environment."""

    def __init__(self, n_streams, n_per_stream, n_frames=1):
        self.streams = [deque(maxlen=n_per_stream) for _ in range(n_streams)]
        self._n_frames = n_frames

    def append(self, rows):
        for row in rows:
            self.streams[row["stream"]].append(row.copy())

    def beginnings(self):
        """Return the numbers of the rows at which a transition can begin."""
        return sorted(
            int(rows[i]["features"][0]) for rows in self.streams for i in range(len(rows)) if self._can_begin(rows, i)
        )

    def transition(self, number, n_steps, gamma):
        """Return (sum of rewards, discount, number of the next row) of the transition that begins at a row."""
        rows, i = next((rows, i) for rows in self.streams for i in range(len(rows)) if rows[i]["features"][0] == number)
        total, discount = 0.0, 1.0
        for _ in range(n_steps):
            if rows[i]["outcome"] == Outcome.TERMINATED:
                return total + discount * float(rows[i]["reward"]), 0.0, int(rows[i]["features"][0])
            if not has_successor(rows, i):
                break
            total += discount * float(rows[i]["reward"])
            discount *= gamma ** int(rows[i]["n_decisions"])
            i += 1
        return total, discount, int(rows[i]["features"][0])

    def _can_begin(self, rows, i):
        frames = range(i, i - self._n_frames, -1)
        begun = next((j for j in frames if j >= 0 and rows[j]["is_first"]), None)
        is_whole = begun is not None or frames[-1] >= 0
        return is_whole and (rows[i]["outcome"] == Outcome.TERMINATED or has_successor(rows, i))


def has_successor(rows, i):
    """Return whether the next row of a stream is the successor of this row."""
    if i + 1 == len(rows) or rows[i + 1]["is_first"]:
        return False
    is_final = rows[i + 1]["outcome"] == Outcome.FINAL
    return {Outcome.GOES_ON: not is_final, Outcome.TRUNCATED: is_final}.get(rows[i]["outcome"], False)


def in_pieces(rows, seed):
    """Return rows split into pieces of 0 to 9."""
    rng = np.random.default_rng(seed)
    cuts, at = [], 0
    while at < len(rows):
        n = int(rng.integers(10))
        cuts.append(rows[at : at + n])
        at += n
    return cuts
