"""Program of a remote actor: ``python -m soulslab.learn.rainbow.remote_actor_program RUN_FOLDER``.

The learner starts it. It reads the settings from the folder of the run and everything else from the shared memory. It
acts until it is asked to stop, or until there has been no learner for some time; it never waits for the learner.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np

import soulslab  # noqa: F401 - registers the environments
from soulslab.config import load_settings
from soulslab.errors import ChannelError, SoulslabError
from soulslab.learn.actors.actor_process import PriorityController, reset_priority
from soulslab.learn.actors.actor_status import ActorState, LatenessWrapper
from soulslab.learn.actors.shared_memory import (
    ACTOR_LOCK,
    LEARNER_LOCK,
    Memory,
    find_memory_folder,
    open_memory,
    read_header,
)
from soulslab.learn.actors.shared_memory_transport import SharedMemoryTransport
from soulslab.learn.actors.transition_actor import Actor, step_shape
from soulslab.learn.environment import TRAINING, environment_seed, make_vector, require_functions
from soulslab.learn.live_feed import FEED_NAME, LiveFeed
from soulslab.learn.process_lock import ProcessLock, is_held
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.run_folder import CONFIG_NAME
from soulslab.learn.stop_request import StopRequest
from soulslab.learn.torch_device import one_core

EXIT_OK, EXIT_ERROR, EXIT_USAGE = range(3)
CHECK_EVERY_S: Final = 1.0

_ACTING: Final = 2
"""Number of the purpose "random actions" in seed sequences, followed by the number of the start."""

_log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Act for a run; return the exit code."""
    # A separate program configures its own log: a file for later inspection instead of a terminal.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.captureWarnings(capture=True)
    if len(arguments) != 1:
        _log.error("usage: python -m soulslab.learn.rainbow.remote_actor_program RUN_FOLDER")
        return EXIT_USAGE
    reset_priority()
    try:
        play(Path(arguments[0]))
    except SoulslabError as error:
        _log.exception("%s", error)
        return EXIT_ERROR
    return EXIT_OK


def play(run_dir: Path) -> None:
    """Act for a run until there is a reason to stop; raises ChannelError without valid shared memory."""
    place = find_memory_folder(run_dir)
    if place is None:
        raise ChannelError(run_dir, "has no shared memory; start the run with soulslab train")
    with StopRequest() as request, ProcessLock(place / ACTOR_LOCK, "an actor"):
        settings = load_settings(RainbowSettings, run_dir / CONFIG_NAME)
        require_functions(settings.env.options, run_dir / CONFIG_NAME)
        policy = QPolicy(read_header(place, QHeader))
        memory = open_memory(place, row_type(step_shape(policy.header)))
        memory.status.begin(os.getpid())
        watch = _Watch(memory, place, settings.run.actor_alone_s, request)
        try:
            with one_core(), closing(LiveFeed(run_dir / FEED_NAME)) as live:
                _play(settings, policy, memory, watch, live)
        except BaseException:
            memory.status.set_state(ActorState.FAILED)
            raise
        memory.status.set_state(ActorState.STOPPED)


def _play(settings: RainbowSettings, policy: QPolicy, memory: Memory, watch: _Watch, live: LiveFeed) -> None:
    n_starts = memory.status.read().n_starts
    rng = np.random.default_rng(np.random.SeedSequence(settings.run.seed, spawn_key=(_ACTING, n_starts)))
    end = SharedMemoryTransport(memory, settings.env.n_envs).actor_end()
    env = make_vector(settings.env.id, settings.env.n_envs, settings.env.options)
    with closing(LatenessWrapper(env, memory.status.note_step)) as watched:
        actor = Actor(watched, policy, end, rng)
        live.open(watched)
        actor.live = live
        # A restarted actor must not repeat fights.
        actor.reset(environment_seed(settings.run.seed + memory.rows.head, TRAINING))
        memory.status.set_state(ActorState.PLAYING)
        _log.info("playing %s, start %d", settings.env.id, n_starts)
        # The present objects live as long as the process; scanning them repeatedly could take 50 ms each time.
        gc.collect()
        gc.freeze()
        precedence = PriorityController()
        while (reason := watch.reason_to_stop()) is None:
            actor.step()
            precedence.after_step(has_pace=watched.has_pace)
    _log.info("%s; %d decisions since the start", reason, actor.env_steps)


class _Watch:
    """Determines when an actor has to stop."""

    def __init__(self, memory: Memory, place: Path, alone_s: float, request: StopRequest) -> None:
        self._status = memory.status
        self._learner_lock = place / LEARNER_LOCK
        self._alone_s = alone_s
        self._request = request
        self._met_at = self._checked_at = time.monotonic()
        self._is_alone = False

    def reason_to_stop(self) -> str | None:
        """Return the reason to stop, or None."""
        if self._request.signal_name:
            return f"stopped by {self._request.signal_name}"
        if self._status.is_stop_requested:
            return "the learner asked to stop"
        now = time.monotonic()
        if now - self._checked_at < CHECK_EVERY_S:
            return None
        self._checked_at = now
        was_alone, self._is_alone = self._is_alone, not is_held(self._learner_lock)
        if not self._is_alone:
            self._met_at = now
        if self._is_alone and not was_alone:
            _log.warning("the learner has ended; continuing for at most %.0f s", self._alone_s)
        elif was_alone and not self._is_alone:
            _log.info("a learner is running again")
        if self._is_alone and now - self._met_at >= self._alone_s:
            return f"no learner has run for {self._alone_s:.0f} s"
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
