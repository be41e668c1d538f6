"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

POLL_S = 0.005
#: Wall time after which a test gives up. On a busy machine a program may take a hundred times as long as usual.
PATIENCE_S = 300.0


def wait_for(condition: Callable[[], Any], what: str = "it", *, deadline_s: float = PATIENCE_S) -> Any:
    """Return the first true result of a condition; raise an error after the deadline."""
    end = time.monotonic() + deadline_s
    while not (result := condition()):
        assert time.monotonic() < end, f"waited {deadline_s} s in vain for {what}"
        time.sleep(POLL_S)
    return result
