"""Stopping a run with signals."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class StopRequest:
    """Records SIGINT and SIGTERM while the ``with`` block runs; ``signal_name`` is "" without a request.

    A second SIGINT raises KeyboardInterrupt immediately. Outside of the main thread, where Python cannot handle
    signals, nothing is recorded.
    """

    def __init__(self) -> None:
        self.signal_name = ""
        self._previous: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.signal_name and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal_name = signal.Signals(number).name
