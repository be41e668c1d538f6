"""Telemetry sinks: one keeps the messages, one sends a signal to this process."""

import signal

from soulslab.learn.telemetry import TrainProgress


class MessageSink:
    def __init__(self):
        self.messages = []

    def write(self, message):
        self.messages.append(message)

    def close(self):
        pass


class SignalSink(MessageSink):
    def __init__(self, number):
        super().__init__()
        self._number = number

    def write(self, message):
        super().write(message)
        if sum(isinstance(each, TrainProgress) for each in self.messages) == 1 and isinstance(message, TrainProgress):
            signal.raise_signal(self._number)
