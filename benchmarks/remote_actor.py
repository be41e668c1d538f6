"""``python -m benchmarks remote-actor``: lateness of a real-time game while a learner works.

The actor plays :class:`soulslab.testing.paced_env.Paced` in real time, once in a separate process and once in
the learner's process. The learner is Rainbow at full load: its updates take all of its processor time. In one process,
the updates of a step have to finish before the next step.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.child_process import child_environment
from benchmarks.remote_actor_echo import ECHO_ROW, ECHO_TENSORS
from benchmarks.result import Result, Row
from benchmarks.timing import seconds, with_progress
from soulslab.learn.actors.actor_status import LATE_S
from soulslab.learn.actors.shared_memory import Memory, create_memory
from soulslab.learn.actors.transport import Weights
from soulslab.learn.rainbow.rainbow_settings import (
    QLearningSettings,
    RainbowEnvSettings,
    RainbowRunSettings,
    RainbowSettings,
)
from soulslab.learn.settings import ReplaySettings
from soulslab.learn.telemetry import LearningStats, Message
from soulslab.learn.train import train_uninterrupted
from soulslab.testing.paced_env import PACED_ID, read_log

#: Target for the 99 % quantile of the lateness of steps of 100 ms (ms).
TARGET_MS = 5.0


class RemoteActorBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        step_s: Interval of the steps (s).
        n_steps: Steps with a remote actor, after the warm-up of the learner.
        warm_up_s: Time for the warm-up (s).
        batch_size: Transitions per update; so many that the updates use a whole core.
        updates_per_step: Updates that are due for each step.
        n_rows: Steps to send through the channel one by one.
        n_publications: Weights to publish.
    """

    step_s: float = 0.1
    n_steps: int = 600
    warm_up_s: float = 5.0
    batch_size: int = 256
    updates_per_step: float = 64.0
    n_rows: int = 20_000
    n_publications: int = 500

    def quick(self) -> RemoteActorBenchSettings:
        """Return settings for a short run."""
        return msgspec.structs.replace(self, n_steps=50, n_rows=1000, n_publications=20)


def measure_remote_actor(settings: RemoteActorBenchSettings | None = None) -> list[Result]:
    """Measure lateness, and the speed of the channel."""
    settings = settings or RemoteActorBenchSettings()
    # In one process, each step waits for its updates, so that fewer steps are sufficient.
    plan = {"apart": settings.n_steps, "here": max(settings.n_steps // 12, 10)}
    played = with_progress(plan.items(), "playing in real time")
    rows = [_lateness_row(where, msgspec.structs.replace(settings, n_steps=n)) for where, n in played]
    pace_ms = 1000 * settings.step_s
    late = Result(
        title=f"steps of {pace_ms:.0f} ms while the learner is at full load; target for a remote actor: 99 % are "
        f"at most {TARGET_MS:.0f} ms late",
        rows=rows,
    )
    return [late, Result(title="channel between actor and learner in two processes", rows=_channel_rows(settings))]


def lateness_settings(where: str, settings: RemoteActorBenchSettings, log: Path) -> RainbowSettings:
    """Return the settings of a real-time run with a learner at full load."""
    # Steps until the learner is warm; in one process, that is shortly after its start.
    n_before = 32 + round(settings.warm_up_s / settings.step_s) if where == "apart" else 40
    env_options = {"step_s": settings.step_s, "log": str(log)}
    return RainbowSettings(
        env=RainbowEnvSettings(id=f"soulslab.testing.paced_env:{PACED_ID}", options=env_options),
        learner=QLearningSettings(
            batch_size=settings.batch_size,
            updates_per_step=settings.updates_per_step,
            learning_starts=32,
            epsilon_decisions=32,
        ),
        replay=ReplaySettings(capacity=20_000),
        run=msgspec.convert(
            {
                "total_steps": n_before + settings.n_steps,
                "evaluate_every": 0,
                "checkpoint_every_s": 20.0,
                "actor": where,
            },
            RainbowRunSettings,
        ),
    )


def _lateness_row(where: str, settings: RemoteActorBenchSettings) -> Row:
    updates = _UpdateRate()
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        log = Path(folder) / "lateness"
        train_uninterrupted(lateness_settings(where, settings, log), Path(folder) / "run", sinks=[updates])
        measured = read_log(log)[-settings.n_steps :]
    late_ms, reaction_ms = 1000 * measured[:, 0], 1000 * measured[:, 1]
    return {
        "actor": "apart" if where == "apart" else "in the learner's process",
        "steps": len(measured),
        "late p50 (ms)": _quantile(late_ms, 0.5),
        "p99": _quantile(late_ms, 0.99),
        "max": float(late_ms.max()),
        f"over {1000 * LATE_S:.0f} ms (%)": 100.0 * float((late_ms > 1000 * LATE_S).mean()),
        "look to keys p50 (ms)": _quantile(reaction_ms, 0.5),
        "p99 of it": _quantile(reaction_ms, 0.99),
        "updates/s": updates.median,
    }


class _UpdateRate:
    """Telemetry sink that records the updates per second."""

    def __init__(self) -> None:
        self._rates: list[float] = []

    @property
    def median(self) -> float:
        return float(np.median(self._rates)) if self._rates else 0.0

    def write(self, message: Message) -> None:
        if isinstance(message, LearningStats):
            self._rates.append(message.updates_per_second)

    def close(self) -> None:
        """Do nothing."""


def _channel_rows(settings: RemoteActorBenchSettings) -> list[Row]:
    """Measure the shared memory, and the round trip to another process."""
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        memory = create_memory(Path(folder), ECHO_ROW, 1, ECHO_TENSORS)
        rows = np.zeros(settings.n_rows, ECHO_ROW)
        push_one_s = seconds(_pushing(memory, rows)) / len(rows)
        take_s = seconds(memory.rows.take) / len(rows)
        memory.rows.free(memory.rows.head)
        publish_s = seconds(_publishing(memory, settings.n_publications)) / settings.n_publications
        read_s = seconds(_reading(memory, settings.n_publications)) / settings.n_publications
        echo_s = _echo(Path(folder), memory, settings.n_publications)
    n_kb = sum(array.nbytes for array in ECHO_TENSORS.values()) / 1000
    weights = f"weights of {n_kb:.0f} kB"
    return [
        {"what": "push a step (us)", "median": 1e6 * push_one_s, "p99": None},
        {"what": "take a step (us)", "median": 1e6 * take_s, "p99": None},
        {"what": f"publish {weights} (us)", "median": 1e6 * publish_s, "p99": None},
        {"what": f"pull {weights} (us)", "median": 1e6 * read_s, "p99": None},
        {
            "what": "from publishing weights to having them in the actor's process (us)",
            "median": 1e6 * _quantile(echo_s, 0.5),
            "p99": 1e6 * _quantile(echo_s, 0.99),
        },
    ]


def _pushing(memory: Memory, rows: NDArray[np.void]) -> Callable[[], None]:
    def push() -> None:
        for i in range(len(rows)):
            memory.rows.push(rows[i : i + 1])

    return push


def _publishing(memory: Memory, n: int) -> Callable[[], None]:
    def publish() -> None:
        for version in range(n):
            memory.weights.publish(Weights(version=version, epsilon=0.0, tensors=ECHO_TENSORS))

    return publish


def _reading(memory: Memory, n: int) -> Callable[[], None]:
    def read() -> None:
        for _ in range(n):
            memory.weights.read()

    return read


def _echo(folder: Path, memory: Memory, n: int) -> NDArray[np.float64]:
    """Return the time (s) from the publication of weights until another process has answered, for each publication."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.remote_actor_echo", str(folder)], env=child_environment()
    )
    took = np.empty(n)
    try:
        for i in range(n):
            published = time.monotonic()
            memory.weights.publish(Weights(version=i, epsilon=0.0, tensors=ECHO_TENSORS))
            while not len(row := memory.rows.take()):
                if child.poll() is not None:
                    raise RuntimeError(f"the other process ended with {child.returncode}")
                time.sleep(0.0005)
            memory.rows.free(memory.rows.head)
            took[i] = row["at"][-1] - published
        return took[1:]  # the first one waited for the process to start
    finally:
        child.terminate()
        child.wait()


def _quantile(values: NDArray[np.float64], share: float) -> float:
    return float(np.quantile(values, share))
