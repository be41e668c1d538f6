"""A telemetry sink that keeps the messages."""


class MessageSink:
    def __init__(self):
        self.messages = []

    def write(self, message):
        self.messages.append(message)

    def close(self):
        pass
