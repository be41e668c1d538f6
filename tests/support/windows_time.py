"""The clocks of Windows under Python 3.11 and 3.12."""


class WindowsTime:
    """Functions of the module `time` over a time that only `sleep` advances, from a moment between two ticks.

    `time.monotonic` advances with the ticks of the system; before Python 3.13 it is GetTickCount64.
    """

    TICK_S = 1 / 64

    def __init__(self):
        self._now_s = 10_000.6 * self.TICK_S

    def perf_counter(self):
        return self._now_s

    def monotonic(self):
        return self._now_s // self.TICK_S * self.TICK_S

    def sleep(self, seconds):
        self._now_s += seconds
