"""How torch uses the processor while small networks are trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_core() -> Iterator[None]:
    """Keep torch to one thread, and let tiny numbers be zero, while the ``with`` block runs.

    Networks this small gain nothing from a second thread and lose tenfold when the machine is busy. Numbers
    below float32's normal range cost a hundred cycles each and carry nothing; but outside training a program
    expects them, so the processor's mode is set back to torch's default.
    """
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(n_threads)
