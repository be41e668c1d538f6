"""A Redis server whose disk is full for a while: what games push meanwhile has to arrive later, once and in order."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.fleet.access import Access, new_password, password_hash
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.fleet.redis_server import JoinUser, RedisServer, free_port
from soulslab.fleet.spool import Spool
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type

SHAPE: Final = StepShape(n_features=500, n_actions=4)
ROW: Final = row_type(SHAPE)
N_ROWS: Final = 4000
"""Rows of 2 kB that are pushed, 8 MB."""
LENGTH: Final = 100
DEADLINE_S: Final = 60.0

_DISK: Final = "12m"
_BALLAST_BYTES: Final = 6 << 20
_POLL_S: Final = 0.01


class FullDiskReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result: rows that were lost, taken twice or out of order, or dropped, and what happened meanwhile.

    ``n_failures`` counts the ends of the server. ``back_s`` is the time from the moment at which there is space again
    to the next row that the learner takes (s).
    """

    n_lost: int
    n_repeated: int
    n_dropped: int
    n_failures: int
    back_s: float


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a file system of 12 MB in memory; yield None if this user may not."""
    folder.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    command = [mount or "", "-t", "tmpfs", "-o", f"size={_DISK}", "none", str(folder)]
    if mount is None or unmount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run([unmount, str(folder)], check=True)


def fill_disk(disk: Path, elsewhere: Path) -> FullDiskReport:
    """Push rows to a server on a disk that is full after some of them, make space, and take all rows.

    Args:
        disk: Folder of a small file system, which is empty.
        elsewhere: Folder for the rows that the server does not take.
    """
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(_BALLAST_BYTES))
    admin = Access(
        address=f"redis://127.0.0.1:{free_port('127.0.0.1')}", run="disk", user="admin", password=new_password()
    )
    game = msgspec.structs.replace(admin, user="play-1", password=new_password())
    users = [JoinUser(game.user, password_hash(game.password))]
    server = RedisServer(disk / "redis", admin, max_memory_mb=64)
    server.start(users)
    expected = {"parameters": np.zeros(4, np.float32)}
    with closing(server), closing(RedisActorEnd(game, "game", 1, ROW, Spool(elsewhere, 64 << 20), expected)) as actor:
        for start in range(0, N_ROWS, 50):
            actor.push(numbered_rows(start, 50))
        deadline = time.monotonic() + DEADLINE_S
        while server.n_restarts == 0 and time.monotonic() < deadline:  # it ends when it cannot write
            server.watch(users)
            time.sleep(_POLL_S)
        with closing(RedisLearnerEnd(admin, SHAPE, 1)) as learner:
            early = learner.take()["features"][:, 0].astype(int).tolist()
            ballast.unlink()
            freed_at, back_s, found = time.monotonic(), float("inf"), early
            while len(found) < N_ROWS and time.monotonic() < deadline:
                server.watch(users)
                rows = learner.take()["features"][:, 0].astype(int).tolist()
                if rows:
                    back_s = min(back_s, time.monotonic() - freed_at)
                found += rows
                learner.commit(learner.state())
                learner.wait(_POLL_S)
        n_dropped = actor.n_dropped
    n_lost = N_ROWS - len(set(found))
    n_repeated = len(found) - len(set(found)) + sum(after < before for before, after in pairwise(found))
    return FullDiskReport(
        n_lost=n_lost, n_repeated=n_repeated, n_dropped=n_dropped, n_failures=server.n_restarts, back_s=back_s
    )


def numbered_rows(start: int, n: int) -> NDArray[Any]:
    """Return rows of 2 kB, whose first feature is their number, in episodes of `LENGTH` steps."""
    rows = np.zeros(n, ROW)
    numbers = np.arange(start, start + n)
    rows["features"][:, 0] = numbers
    rows["n_decisions"] = 1
    rows["is_first"] = numbers % LENGTH == 0
    rows["outcome"] = np.where(numbers % LENGTH == LENGTH - 1, Outcome.TERMINATED, Outcome.GOES_ON)
    return rows
