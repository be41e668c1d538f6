"""Process that runs one task: reads it from standard input, and writes its points and its run to standard output.

The task is MessagePack up to the end of the input. The output is JSON, one object per line. The process is started by
:mod:`benchmarks.learner_pool`.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

import msgspec

from benchmarks.learner_run import LearnerRun, LearnerTask, Point, play


def main() -> None:
    """Run the task on standard input."""
    # Output of libraries goes to standard error, so that standard output contains only the lines.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=LearnerTask)
        _answer(answers, play(task, lambda point: _answer(answers, point)))


def _answer(answers: BinaryIO, message: Point | LearnerRun) -> None:
    answers.write(msgspec.json.encode(message) + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
