"""Device and threads of torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from soulslab.errors import ConfigError

CPU: Final = torch.device("cpu")


def select_device(name: str) -> torch.device:
    """Return the device of ``run.device``; raises ConfigError for ``cuda`` without a usable GPU."""
    has_gpu = name != "cpu" and torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise ConfigError(
            f"is 'cuda', but torch {torch.__version__} finds no usable GPU; set it to 'auto' or 'cpu', or install "
            "a GPU driver and a build of torch with CUDA",
            path="run.device",
        )
    return torch.device("cuda") if has_gpu else CPU


@contextmanager
def one_core() -> Iterator[None]:
    """Limit torch to one thread and flush denormal numbers to zero inside the ``with`` block.

    A second thread does not speed up networks of this size, and it slows them tenfold on a busy machine. Operations on
    numbers below the normal range cost about a hundred cycles each and do not affect the result of training. The former
    state is restored at the end, so blocks can be nested.
    """
    n_threads = torch.get_num_threads()
    is_flushing = flushes_denormals()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(is_flushing)
        torch.set_num_threads(n_threads)


def flushes_denormals() -> bool:
    """Return whether the processor flushes denormal results to zero; torch cannot report it."""
    return sys.float_info.min * 0.5 == 0.0
