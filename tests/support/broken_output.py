"""Standard output whose reader has ended, as after ``| head``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO


@contextmanager
def broken_pipe() -> Iterator[TextIO]:
    """Return a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        try:
            yield pipe
        finally:
            # What was not written is discarded.
            os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


@contextmanager
def broken_output() -> Iterator[None]:
    """Replace the standard output of this process by a pipe without a reader."""
    with broken_pipe() as pipe, redirect_stdout(pipe):
        yield
