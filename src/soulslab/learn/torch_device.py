"""The device of the network that is trained."""

from __future__ import annotations

from typing import Final

import torch

from soulslab.errors import ConfigError

CPU: Final = torch.device("cpu")


def select_device(name: str) -> torch.device:
    """Return the device of ``run.device``.

    Args:
        name: ``cpu``, ``cuda``, or ``auto`` for a GPU if torch can use one, else the CPU.

    Raises:
        ConfigError: ``cuda`` was requested, but torch cannot use a GPU.
    """
    has_gpu = name != "cpu" and torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise ConfigError(
            f"is 'cuda', but torch {torch.__version__} finds no usable GPU; set it to 'auto' or 'cpu', or install "
            "a GPU driver and a build of torch with CUDA",
            path="run.device",
        )
    return torch.device("cuda") if has_gpu else CPU
