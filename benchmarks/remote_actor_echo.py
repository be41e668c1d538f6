"""Second process of `benchmarks.remote_actor`: pulls weights, and pushes a row with the time of arrival."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from soulslab.learn.actors.shared_memory import open_memory
from soulslab.learn.actors.shared_memory_transport import SharedActorEnd

ECHO_ROW: Final = np.dtype(
    [("features", "<f4", (74,)), ("at", "<f8"), ("is_first", "u1"), ("stream", "<u2"), ("blocked", "u1", (3,))]
)
"""A row of about the size of a step of the built-in fight, with a time."""

ECHO_TENSORS: Final = {"parameters": np.zeros(150_000, np.float32)}
"""Approximately the size of the weights of two layers of 256 units with 16 quantiles."""


def main(folder: Path) -> None:
    """Answer until the process is killed."""
    end = SharedActorEnd(open_memory(folder, ECHO_ROW), 1)
    version, row = -1, np.zeros(1, ECHO_ROW)
    while True:
        weights = end.pull(version)
        if weights is None:
            time.sleep(0.0002)
            continue
        version, row["at"] = weights.version, time.monotonic()
        end.push(row)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
