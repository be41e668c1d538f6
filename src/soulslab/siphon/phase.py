"""Deprecated module: use `soulslab.siphon.tick_alignment`."""

import warnings
from typing import Any

from soulslab.siphon import tick_alignment

_RENAMED = {"Phase": "TickAlignment", "move_to_middle": "advance_to_tick_middle"}


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message = f"{__name__}.{name} is deprecated; use {tick_alignment.__name__}.{_RENAMED[name]}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(tick_alignment, _RENAMED[name])
