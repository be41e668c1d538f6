"""Plays one run in a process of its own: a task on standard input, its points and its run on standard output.

The task comes as MessagePack, to the end of the input; what goes out is JSON, one object a line. Both ends are of one
soulslab, started by :mod:`benchmarks.learner_pool`.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

import msgspec

from benchmarks.learner_run import LearnerRun, LearnerTask, Point, play


def main() -> None:
    """Play the task on standard input."""
    # Nothing else may come between the lines, whatever a library prints.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=LearnerTask)
        _answer(answers, play(task, lambda point: _answer(answers, point)))


def _answer(answers: BinaryIO, message: Point | LearnerRun) -> None:
    answers.write(msgspec.json.encode(message) + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
