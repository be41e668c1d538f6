"""An actor in another process, as the learner sees it."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import numpy as np

from soulslab.errors import ActorError
from soulslab.learn.actors.actor_process import ActorProcess, batch_scheduling
from soulslab.learn.actors.actor_status import lateness_quantile_s, open_status
from soulslab.learn.actors.shared_memory import (
    LEARNER_LOCK,
    Memory,
    create_memory,
    find_memory_folder,
    has_memory,
    make_memory_folder,
    memory_bytes,
    open_memory,
    remove_memory_folder,
    write_header,
)
from soulslab.learn.actors.shared_memory_transport import SharedLearnerEnd, SharedMemoryTransport
from soulslab.learn.actors.transition_actor import step_shape
from soulslab.learn.archive import Tensors, writing
from soulslab.learn.environment import require_functions
from soulslab.learn.process_lock import ProcessLock
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.run_folder import CONFIG_NAME
from soulslab.learn.telemetry import ActorStats

WAIT_S: Final = 0.002
"""Time that the learner sleeps without new steps (s)."""
CHECK_EVERY_S: Final = 0.5

_NOT: Final = np.array([False])

_log = logging.getLogger(__name__)


class RemoteActor:
    """An actor in another process, and the memory that is shared with it.

    Attributes:
        channel: The learner's end of the transport; set by :meth:`begin`.
    """

    channel: SharedLearnerEnd
    is_remote = True
    has_values = False

    def __init__(self, run_dir: Path, header: QHeader) -> None:
        """Prepare the shared memory of a run, whose folder is made if needed; :meth:`begin` must follow.

        Raises ChannelError if another learner works on this run or there is not enough space, ConfigError if the
        environment needs a Python function, which cannot be passed to another process.
        """
        require_functions(header.env_options, run_dir / CONFIG_NAME)
        policy = QPolicy(header)
        self._run_dir = run_dir
        self._header = header
        self._row_type = row_type(step_shape(policy.header))
        self._tensors = policy.weights()
        with writing(run_dir):
            run_dir.mkdir(parents=True, exist_ok=True)
        self._place = make_memory_folder(run_dir, memory_bytes(self._row_type, header.n_envs, self._tensors))
        self._held = ExitStack()
        self._held.enter_context(ProcessLock(self._place / LEARNER_LOCK, "a learner"))
        self._held.enter_context(batch_scheduling())
        self._memory: Memory | None = None
        self._process: ActorProcess | None = None
        self._saved: Tensors = {}
        self._is_finished = False
        self._reported_classes = np.zeros(0, np.uint64)
        self._checked_at = 0.0
        self._n_published = 0

    def begin(self, state: Tensors | None, env_steps: int) -> None:
        """Start a new run (None), or receive all steps since a state from an actor that may still be running.

        A new run ends the actor of an earlier one. The actor itself starts with the first :meth:`advance`, because it
        reads the settings that the run writes before. ``env_steps`` is not used. Raises ActorError if the actor of an
        earlier run does not end, ChannelError if the shared memory cannot be used.
        """
        del env_steps
        known = state if state is not None and "positions" in state else None
        if known is not None and has_memory(self._place):
            memory = open_memory(self._place, self._row_type)
        else:
            _end_actor(self._run_dir, self._place)
            memory = create_memory(self._place, self._row_type, self._header.n_envs, self._tensors)
            if known is not None and known.get("is_finished", _NOT).all():
                known = None  # the actor had ended before the checkpoint, so no steps are missing in a new memory
        write_header(self._place, self._header)
        self.channel = SharedMemoryTransport(memory, self._header.n_envs).learner_end(known)
        memory.status.set_stop_request(False)
        self._reported_classes = memory.status.lateness()
        self._memory, self._process = memory, ActorProcess(self._run_dir, self._place, memory.status)

    def advance(self, n_updates_due: float = 0.0) -> None:
        """Check the actor's process from time to time, and sleep a short time if there is nothing to do.

        The learner does not sleep if steps have arrived, or if it published weights since the last call, because then
        more updates may be due. Raises ActorError if the actor failed too often.
        """
        del n_updates_due  # the actor never waits for the learner
        memory, process = self._opened()
        now = time.monotonic()
        if now - self._checked_at >= CHECK_EVERY_S:
            self._checked_at = now
            process.watch()
        is_busy, self._n_published = memory.weights.n_published > self._n_published, memory.weights.n_published
        if memory.rows.head == memory.rows.position and not is_busy:
            time.sleep(WAIT_S)

    def stats(self, env_steps: int, version: int) -> ActorStats:
        """Return statistics of the actor, for a learner that has made ``version`` updates."""
        memory, _ = self._opened()
        status, classes = memory.status.read(), memory.status.lateness()
        late_s = lateness_quantile_s(classes - self._reported_classes, 0.99)
        self._reported_classes = classes
        return ActorStats(
            env_steps=env_steps,
            staleness_updates=max(0, version - max(0, status.weights_version)),
            n_dropped=self.channel.n_dropped,
            n_late=status.n_late,
            lateness_p99_ms=1000 * late_s if late_s is not None else None,
            n_restarts=max(0, status.n_starts - 1),
        )

    def state(self, *, with_env: bool) -> Tensors:
        """Return what :meth:`begin` needs; the environments stay with the actor."""
        del with_env
        self._saved = self.channel.state()
        return {**self._saved, "is_finished": np.array([self._is_finished])}

    def saved(self) -> None:
        """Free the steps that the last :meth:`state` holds."""
        if self._saved:
            self.channel.commit(self._saved)

    def finish(self) -> None:
        """Stop the actor; its steps until then can still be received from the transport."""
        if self._process is not None:
            try:
                self._process.stop()
                self._is_finished = True
            except ActorError as error:
                # The state of the learner is complete; the warning names the process.
                _log.warning("%s", error)

    def close(self) -> None:
        """Stop the actor and free the memory, unless it holds steps that a resumed run needs."""
        self.finish()
        memory, process = self._memory, self._process
        self._memory = self._process = None
        is_unused = False
        if memory is None or process is None:
            is_unused = not has_memory(self._place)  # an error occurred before anything was shared
        else:
            if not process.is_alive():
                is_unused = self.channel.is_all_committed
                if not is_unused:
                    _log.info("steps after the last checkpoint are in %s; a resumed run receives them", self._place)
            memory.close()
        self._held.close()
        if is_unused:
            remove_memory_folder(self._place)

    def _opened(self) -> tuple[Memory, ActorProcess]:
        if self._memory is None or self._process is None:
            raise RuntimeError("begin() must be called first")
        return self._memory, self._process


def discard(run_dir: Path) -> None:
    """Stop the actor of a run that will not be resumed, and remove its shared memory; raises ActorError."""
    place = find_memory_folder(run_dir)
    if place is not None:
        _end_actor(run_dir, place)
        remove_memory_folder(place)


def _end_actor(run_dir: Path, place: Path) -> None:
    if has_memory(place):
        with closing(open_status(place / "status")) as status:
            ActorProcess(run_dir, place, status).stop()
