"""Games, a learner and a Redis server that are killed at random; nothing that was acknowledged may be lost.

Each game pushes numbered rows in episodes of `LENGTH` steps. The learner takes them and saves them with its position,
as training does. At the end, all processes run until everything was taken, and the rows of each start of a game have
to be complete, in order, and without a repetition.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.fleet.access import Access, new_password, password_hash
from soulslab.fleet.game_roster import GameRoster
from soulslab.fleet.messages import Lease
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.fleet.redis_server import JoinUser, RedisServer, free_port
from soulslab.fleet.spool import Spool
from soulslab.learn.archive import read_archive, take_part, write_archive
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.version import VERSION

LENGTH: Final = 20
SHAPE: Final = StepShape(n_features=3, n_actions=4)
ROW: Final = row_type(SHAPE)
SAVE_EVERY_S: Final = 0.1
SETTLE_S: Final = 60.0

_PUSH_S: Final = 0.002
_ROWS_PER_PUSH: Final = 4
_SAVED: Final = "saved.safetensors"


class ChaosSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How often what is killed.

    Attributes:
        n_kills: Number of times that a process gets SIGKILL.
        n_freezes: Number of times that the server is stopped for `freeze_s`, as if the network was interrupted.
        freeze_s: Time of such an interruption (s), longer than the time-out of a connection.
        n_games: Games that run at a time.
        n_lanes: Streams of the replay buffer; fewer than games, so that some episodes have to wait.
        seed: Seed of the order of the faults.
    """

    n_kills: int = 30
    n_freezes: int = 1
    freeze_s: float = 2.5
    n_games: int = 3
    n_lanes: int = 2
    seed: int = 0


class ChaosReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result: faults, and the numbers of messages that were lost, and of rows that were repeated or are missing."""

    n_kills: dict[str, int]
    n_freezes: int
    n_starts: int
    n_rows: int
    n_acknowledged_lost: int
    n_repeated: int
    n_gaps: int


def run_chaos(folder: Path, settings: ChaosSettings) -> ChaosReport:
    """Run games, learner and server in a folder, kill them, and report what the learner has at the end."""
    chaos = _Chaos(folder, settings)
    try:
        chaos.cause_faults()
        return chaos.report()
    finally:
        chaos.close()


class _Chaos:
    def __init__(self, folder: Path, settings: ChaosSettings) -> None:
        self._folder = folder
        self._settings = settings
        self._random = random.Random(settings.seed)  # noqa: S311 - not a secret
        address = f"redis://127.0.0.1:{free_port('127.0.0.1')}"
        self._admin = Access(address=address, run="chaos", user="admin", password=new_password())
        self._game = msgspec.structs.replace(self._admin, user="play-1", password=new_password())
        self._users = [JoinUser("play-1", password_hash(self._game.password))]
        self._server = RedisServer(folder / "redis", self._admin, max_memory_mb=256)
        self._server.start(self._users)
        self._context = process_context()
        self._processes: dict[str, BaseProcess] = {}
        self._n_starts = 0
        self._n_kills = dict.fromkeys(("redis", "learner", "game"), 0)

    def cause_faults(self) -> None:
        """Kill and stop processes at random moments."""
        faults = ["kill"] * self._settings.n_kills + ["freeze"] * self._settings.n_freezes
        self._random.shuffle(faults)
        deadline = time.monotonic() + SETTLE_S
        while len(_acknowledged(self._folder)) < self._settings.n_games and time.monotonic() < deadline:
            self._keep_running(0.1)
        for fault in faults:
            self._keep_running(self._random.uniform(0.05, 0.5))
            if fault == "kill":
                self._kill(self._random.choice(["redis", "learner", "game", "game", "game"]))
            else:
                self._freeze()

    def report(self) -> ChaosReport:
        """Let everything settle, and compare what was acknowledged with what was taken."""
        self._keep_running(1.0)
        for name, process in self._processes.items():
            if name != "learner":
                process.kill()
                process.join()
        deadline = time.monotonic() + SETTLE_S
        while not self._is_complete():
            if time.monotonic() > deadline:
                break
            self._keep_running(0.2, with_games=False)
        rows, taken, _ = _saved_rows(self._folder)
        acknowledged = _acknowledged(self._folder)
        lost = sum(max(0, n - taken.get(incarnation, 0)) for incarnation, n in acknowledged.items())
        n_gaps, n_repeated = _count_flaws(rows)
        return ChaosReport(
            n_kills=self._n_kills,
            n_freezes=self._settings.n_freezes,
            n_starts=self._n_starts,
            n_rows=len(rows),
            n_acknowledged_lost=lost,
            n_repeated=n_repeated,
            n_gaps=n_gaps,
        )

    def close(self) -> None:
        """End everything."""
        for process in self._processes.values():
            process.kill()
            process.join()
        self._server.close()

    def _keep_running(self, seconds: float, *, with_games: bool = True) -> None:
        """Start what has ended, for some time."""
        end = time.monotonic() + seconds
        while True:
            self._server.watch(self._users)
            self._ensure("learner", play_learner, str(self._folder), self._admin, self._settings.n_lanes)
            if with_games:
                for i in range(self._settings.n_games):
                    self._ensure(f"game {i}", play_game, str(self._folder), self._game)
            if time.monotonic() >= end:
                return
            time.sleep(0.01)

    def _ensure(self, name: str, target: Any, *arguments: Any) -> None:
        process = self._processes.get(name)
        if process is None or not process.is_alive():
            self._n_starts += 1
            started: Any = self._context.Process(target=target, args=arguments, daemon=True)
            started.start()
            self._processes[name] = started

    def _kill(self, what: str) -> None:
        name = f"game {self._random.randrange(self._settings.n_games)}" if what == "game" else what
        pid = self._server.pid if what == "redis" else self._processes[name].pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._n_kills[what] += 1

    def _freeze(self) -> None:
        pid = self._server.pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self._keep_running(self._settings.freeze_s)
                os.kill(pid, signal.SIGCONT)

    def _is_complete(self) -> bool:
        _, taken, n_waiting = _saved_rows(self._folder)
        return n_waiting == 0 and all(
            taken.get(incarnation, 0) >= n for incarnation, n in _acknowledged(self._folder).items()
        )


def process_context() -> Any:
    """Return the context in which games start: a server process imports everything once, so a start takes moments."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.fleet_chaos"])
    return context


def play_game(folder: str, access: Access) -> None:
    """Push numbered rows until killed, and record how many messages of this start are acknowledged."""
    expected = {"parameters": np.zeros(4, np.float32)}
    end = RedisActorEnd(access, "game", 1, ROW, Spool(Path(folder) / "spool", 64 << 20), expected)
    tag = int(end.incarnation[:5], 16)  # float32 holds it exactly
    end.keep_lease(
        lambda: Lease(
            worker="game", incarnation=end.incarnation, host="here", state="playing", n_envs=1, soulslab=VERSION
        )
    )
    number, shown = 0, -1
    path = Path(folder) / "acknowledged" / end.incarnation
    path.parent.mkdir(exist_ok=True)
    with path.open("wb", buffering=0) as log:
        while True:
            numbers = np.arange(number, number + _ROWS_PER_PUSH)
            rows = np.zeros(_ROWS_PER_PUSH, ROW)
            rows["features"][:, 0], rows["features"][:, 1] = tag, numbers
            rows["n_decisions"] = 1
            rows["is_first"] = numbers % LENGTH == 0
            rows["outcome"] = np.where(numbers % LENGTH == LENGTH - 1, Outcome.TERMINATED, Outcome.GOES_ON)
            end.push(rows)
            number += _ROWS_PER_PUSH
            if end.n_acknowledged != shown:
                shown = end.n_acknowledged
                log.write(shown.to_bytes(8, "little"))
            time.sleep(_PUSH_S)


def play_learner(folder: str, access: Access, n_lanes: int) -> None:
    """Take rows until killed, and save them with the position in the streams."""
    path = Path(folder) / _SAVED
    rows, state = np.empty((0, 3), np.float64), None
    if path.exists():
        tensors, _ = read_archive(path)
        rows, state = tensors["rows"], take_part(tensors, "channel")
    end = RedisLearnerEnd(access, SHAPE, n_lanes, state)
    roster = GameRoster(access, end, 0.0)
    end.set_duty(lambda client: roster.attend(client, is_behind=False))
    parts, saved_at = [rows], 0.0
    while True:
        end.wait(0.01)
        found = end.take()
        if len(found):
            parts.append(np.column_stack((found["features"][:, :2], found["stream"])).astype(np.float64))
        if time.monotonic() - saved_at >= SAVE_EVERY_S:
            parts = [np.concatenate(parts)]
            position = end.state()
            tensors = {"rows": parts[0], **{f"channel/{name}": array for name, array in position.items()}}
            write_archive(path, tensors, {"taken": end.sequences(), "n_waiting": end.n_waiting_rows})
            end.commit(position)
            saved_at = time.monotonic()


def _saved_rows(folder: Path) -> tuple[NDArray[np.float64], dict[str, int], int]:
    """Return the rows in the last checkpoint, the messages taken from each start of a game, and the rows that wait."""
    path = folder / _SAVED
    if not path.exists():
        return np.empty((0, 3)), {}, 0
    tensors, header = read_archive(path)
    return tensors["rows"], header["taken"], header["n_waiting"]


def _acknowledged(folder: Path) -> dict[str, int]:
    """Return the number of acknowledged messages of each start of a game."""
    found = {}
    for path in (folder / "acknowledged").glob("*"):
        data = path.read_bytes()
        if len(data) >= 8:
            found[path.name] = int.from_bytes(data[len(data) // 8 * 8 - 8 :][:8], "little")
    return found


def _count_flaws(rows: NDArray[np.float64]) -> tuple[int, int]:
    """Return the numbers of gaps and of repetitions in the rows of each start, and of rows of others in an episode."""
    n_gaps = n_repeated = 0
    for tag in np.unique(rows[:, 0]):
        numbers = np.sort(rows[rows[:, 0] == tag, 1])
        n_repeated += len(numbers) - len(np.unique(numbers))
        n_gaps += int(np.unique(numbers)[-1]) + 1 - len(np.unique(numbers))
    for lane in np.unique(rows[:, 2]):
        mine = rows[rows[:, 2] == lane]
        follows = (mine[1:, 0] == mine[:-1, 0]) & (mine[1:, 1] == mine[:-1, 1] + 1)
        starts = mine[1:, 1] % LENGTH == 0
        n_gaps += int((~follows & ~starts).sum())
    return n_gaps, n_repeated
