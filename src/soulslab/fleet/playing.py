"""The games of one machine. Each has its own process, which is watched and restarted after failures."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from soulslab.errors import FleetError
from soulslab.fleet.access import read_access
from soulslab.fleet.defaults import FROZEN_S, SPOOL_MB
from soulslab.fleet.game_settings import EXIT_OK, EXIT_REFUSED, SETTINGS_NAME, GameSettings, create_status, game_name
from soulslab.fleet.messages import Role, wait_for_description
from soulslab.learn.actors.actor_status import ActorState, StatusBoard
from soulslab.learn.live_feed import GAME_FEEDS, game_feed
from soulslab.learn.stop_request import StopRequest

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext  # Windows lacks the first one

START_S: Final = 600.0
"""Time for the first step of a game (s), which includes the start of a real game."""
MAX_FAILURES: Final = 5
FAILURES_WITHIN_S: Final = 3600.0
STOP_DEADLINE_S: Final = 60.0

_POLL_S: Final = 0.1
_MIN_BACK_OFF_S: Final = 0.5
_MAX_BACK_OFF_S: Final = 60.0
_TERMINATE_DEADLINE_S: Final = 5.0
_TAIL_BYTES: Final = 1500
_MAX_LOG_BYTES: Final = 1 << 20
_LOG_NAME: Final = "log"
_PRELOADED: Final = ["soulslab.fleet.game_process", "soulslab.envs.arena"]
"""Modules that a game needs."""

_log = logging.getLogger(__name__)


class PlaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a machine plays: see `soulslab.fleet.game_settings.GameSettings` for what each game gets.

    ``frozen_s`` is the time without a step after which a game is started again (s). ``feeds`` is the folder for the
    live feeds; without it, that of the run, if the join file lies in the folder of the run. ``record`` is the folder in
    which each game records its fights, as a data set whose name is the number of the game; "" for none.
    """

    n_games: int = 1
    n_envs: int = 1
    name: str = ""
    env_id: str = ""
    role: Role = "exploring"
    options: dict[str, object] = {}
    functions: dict[str, str] = {}
    spool_mb: int = SPOOL_MB
    frozen_s: float = FROZEN_S
    max_failures: int = MAX_FAILURES
    feeds: str = ""
    record: str = ""


def play(join: Path, settings: PlaySettings) -> int:
    """Play the games of a fleet until it ends, or until SIGINT or SIGTERM; return the number of games that gave up.

    Raises ConfigError for an unusable join file or name, FleetError if the server refuses this machine, or if all games
    gave up, with the reason of the first.
    """
    access = read_access(join)
    names = [game_name(settings.name, i) for i in range(settings.n_games)]
    context = _process_context()
    with ExitStack() as parts, StopRequest() as request:
        # Also here, because the messages of the games are in their logs, and not in the terminal.
        wait_for_description(access, lambda: not request.signal_name)
        games = [_WatchedGame(context, join.resolve(), name, settings) for name in names]
        for game in games:
            parts.callback(game.close)
        while not request.signal_name and any(not game.is_over for game in games):
            for game in games:
                game.watch()
            time.sleep(_POLL_S)
        if request.signal_name:
            _log.info("%s: the games end and send what is left", request.signal_name)
        _stop(games)
    reasons = [game.reason for game in games if game.reason]
    if len(reasons) == len(games):
        raise FleetError(games[0].name, f"gave up: {reasons[0]}")
    return len(reasons)


def _process_context() -> ForkServerContext | SpawnContext:
    """Return how the processes of games start.

    On Linux, a server that has imported everything forks them: a game that is started again needs no time for that, and
    all games share that memory. Windows has no fork; there, each game imports torch again.
    """
    if sys.platform == "win32":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def _run_game(folder: Path) -> None:
    """Play one game until it ends; the function of its process.

    The process that watches it removes the folder. If that one was killed, it is removed here. On
    Windows the files that are open stay.
    """
    with (folder / _LOG_NAME).open("ab") as log, Path(os.devnull).open("rb") as nothing:
        for stream, number in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(stream.fileno(), number)
    if sys.platform != "win32":
        os.setsid()  # Ctrl-C in the terminal must reach only the process that watches the game
    try:
        from soulslab.fleet.game_process import play_game  # noqa: PLC0415 - the process that watches needs no torch

        sys.exit(play_game(folder))
    finally:
        if (watching := parent_process()) is not None and not watching.is_alive():
            shutil.rmtree(folder, ignore_errors=True)


def _stop(games: list[_WatchedGame]) -> None:
    for game in games:
        game.ask_to_stop()
    deadline = time.monotonic() + STOP_DEADLINE_S
    for game in games:
        game.wait(deadline)


class _WatchedGame:
    """A game in a process, with its failures.

    Attributes:
        is_over: Whether it is not started again.
        reason: Why it was given up; "" if it was not.
    """

    def __init__(
        self, context: ForkServerContext | SpawnContext, join: Path, name: str, settings: PlaySettings
    ) -> None:
        self.name = name
        self.is_over = False
        self.reason = ""
        self._context = context
        self._join = join
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="soulslab-game-"))
        self._status: StatusBoard = create_status(self._folder)
        self._child: BaseProcess | None = None
        self._failures: deque[float] = deque()
        self._last_fault = ""
        self._n_starts = 0
        self._next_start_at = 0.0
        self._n_steps = -1
        self._progress_at = 0.0

    def watch(self) -> None:
        """Start the game if it does not run, or start it again if it is frozen; give it up after too many failures."""
        if self.is_over:
            return
        if self._child is None:
            if time.monotonic() >= self._next_start_at:
                self._start()
            return
        code = self._child.exitcode
        if code is None:
            self._check_progress()
        elif code == EXIT_OK:
            self.is_over, self._child = True, None
        else:
            self._child = None
            self._note_failure(f"ended with {code}", is_final=code == EXIT_REFUSED)

    def ask_to_stop(self) -> None:
        """Ask the process to end and to send what is left."""
        self._status.set_stop_request(True)

    def wait(self, deadline: float) -> None:
        """Wait until the process has ended; end it at the deadline (monotonic, s)."""
        if self._child is not None:
            self._child.join(max(0.0, deadline - time.monotonic()))
            self._end()
        self.is_over = True

    def close(self) -> None:
        """End the process and remove its folder."""
        self._end()
        self._status.close()  # Windows does not remove an open file
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        settings = GameSettings(
            join=str(self._join),
            name=self.name,
            n_envs=self._settings.n_envs,
            env_id=self._settings.env_id,
            role=self._settings.role,
            options=self._settings.options,
            functions=self._settings.functions,
            spool_bytes=self._settings.spool_mb << 20,
            n_restarts=self._n_starts,
            last_fault=self._last_fault,
            feed=self._feed(),
            record=str(Path(self._settings.record).resolve() / self.name.rpartition("/")[2])
            if self._settings.record
            else "",
        )
        (self._folder / SETTINGS_NAME).write_bytes(msgspec.json.encode(settings))
        self._status.set_state(ActorState.STARTING)
        log_path = self._folder / _LOG_NAME
        if log_path.exists() and log_path.stat().st_size > _MAX_LOG_BYTES:
            log_path.unlink()
        # Not a daemon process: those cannot have child processes, and an environment may start some. It ends when this
        # process ends, also after kill -9.
        self._child = self._context.Process(target=_run_game, args=(self._folder,), name=f"soulslab {self.name}")
        self._child.start()
        self._n_starts += 1
        self._n_steps, self._progress_at = -1, time.monotonic()
        _log.info("game %s runs in process %d", self.name, self._child.pid)

    def _feed(self) -> str:
        """Return the path of the live feed of this game; "" if the run is on another machine."""
        folder = Path(self._settings.feeds) if self._settings.feeds else self._join.parent / GAME_FEEDS
        if not self._settings.feeds and not folder.parent.is_dir():
            return ""
        return str(game_feed(folder, self.name))

    def _check_progress(self) -> None:
        """Kill the process if it has not made a step, or reported that it waits, for too long."""
        now, n_steps = time.monotonic(), self._status.n_signs
        if n_steps != self._n_steps:
            self._n_steps, self._progress_at = n_steps, now
            return
        is_playing = self._status.read().state == ActorState.PLAYING
        limit_s = self._settings.frozen_s if is_playing else max(START_S, self._settings.frozen_s)
        if now - self._progress_at > limit_s:
            self._end()
            self._note_failure(f"made no step for {limit_s:.0f} s")

    def _note_failure(self, how: str, *, is_final: bool = False) -> None:
        now = time.monotonic()
        self._failures.append(now)
        while now - self._failures[0] > FAILURES_WITHIN_S:
            self._failures.popleft()
        tail = self._log_tail()
        self._last_fault = f"{how}: {tail.splitlines()[-1] if tail else 'its log is empty'}"
        if is_final or len(self._failures) > self._settings.max_failures:
            self.is_over = True
            self.reason = (
                self._last_fault if is_final else f"{self._last_fault} ({len(self._failures)} times in an hour)"
            )
            _log.error("game %s is given up: %s", self.name, self.reason)
            return
        n_before = len(self._failures) - 1  # the first start after a failure is at once
        wait_s = min(_MIN_BACK_OFF_S * 2.0 ** (n_before - 1), _MAX_BACK_OFF_S) if n_before else 0.0
        self._next_start_at = now + wait_s
        _log.warning("game %s %s; starting it again in %.1f s", self.name, self._last_fault, wait_s)

    def _end(self) -> None:
        """End the process if it runs."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.exitcode is None:
            child.terminate()
            child.join(_TERMINATE_DEADLINE_S)
            child.kill()
            child.join()
        child.close()

    def _log_tail(self) -> str:
        try:
            return (self._folder / _LOG_NAME).read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
        except OSError:
            return ""
