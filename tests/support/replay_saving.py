"""A process that appends rows and saves them until it is killed: ``python -m support.replay_saving FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.replay_store import ReplayStore
from soulslab.learn.settings import ReplaySettings
from support.steps import SHAPE, steps

SETTINGS = ReplaySettings(capacity=600)
N_STREAMS = 2
N_ROWS = 40
"""Rows of each environment between two saves."""
CHUNK_BYTES = 4000
KEEP = 3


def new_buffer():
    return ReplayBuffer(SHAPE, SETTINGS, N_STREAMS)


def store_of(folder):
    return ReplayStore(folder / "replay", CHUNK_BYTES)


def live(buffer):
    """Append the next rows, and learn a little."""
    for stream in range(N_STREAMS):
        buffer.append(steps(int(buffer.ring.written[stream]), N_ROWS, stream=stream))
    rng = np.random.default_rng(int(buffer.ring.written[0]))
    batch = buffer.make_batch(16)
    buffer.sample(batch, n_steps=3, gamma=0.9, beta=0.5, rng=rng)
    buffer.set_priorities(batch.places, torch.from_numpy(rng.random(16, np.float32)))


def save(buffer, store, checkpoints, manifests):
    """Save as a training run does: rows, then the checkpoint; then delete the rows that no checkpoint uses."""
    manifest = store.save(buffer)
    checkpoints.save(int(buffer.ring.written.sum()), buffer.state(), {"replay": manifest})
    manifests.append(manifest)
    del manifests[:-KEEP]
    store.prune(manifests)


def main(folder):
    buffer, store, checkpoints, manifests = new_buffer(), store_of(folder), CheckpointStore(folder / "own", KEEP), []
    while True:
        live(buffer)
        save(buffer, store, checkpoints, manifests)
        sys.stdout.write(f"{buffer.ring.written.sum()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
