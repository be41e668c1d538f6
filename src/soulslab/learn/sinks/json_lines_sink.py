"""A telemetry sink that writes all messages of a run to a file, one JSON object per line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from soulslab.config.input_files import read_bytes
from soulslab.errors import CheckpointError, CorruptCheckpointError
from soulslab.learn.archive import writing
from soulslab.learn.telemetry import Message

_MAX_BYTES: Final = 4 << 30

_log = logging.getLogger(__name__)


class JsonLinesSink:
    """Appends each message to a file, one JSON object per line.

    The field ``type`` names the type of the message, and ``time`` is the wall time of writing (ISO 8601, UTC).

    The file is opened at the first message, so that a run that fails to start leaves no file. A resumed run appends to
    the existing file, after removing an incomplete last line.
    """

    def __init__(self, path: Path) -> None:
        """Set the path of the file; its folder is made if needed."""
        self._path = path
        self._file: BinaryIO | None = None

    def write(self, message: Message) -> None:
        """Append a message; raises CheckpointError if the file cannot be written."""
        with writing(self._path):
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("a+b")
                self._file.seek(0)
                self._file.truncate(self._file.read().rfind(b"\n") + 1)  # removes an incomplete last line
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._file.write(msgspec.json.encode({**msgspec.to_builtins(message), "time": now}) + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with writing(self._path):
                self._file.close()


def read_json_lines(path: Path) -> Iterator[Message]:
    """Yield the messages of a file of :class:`JsonLinesSink`; an incomplete last line only gives a warning.

    Raises CheckpointError if the file cannot be read, CorruptCheckpointError if a line is not a message.
    """
    *lines, rest = read_bytes(path, _MAX_BYTES, partial(CheckpointError, path)).split(b"\n")
    decoder = msgspec.json.Decoder(Message)
    for number, line in enumerate(lines, start=1):
        try:
            yield decoder.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise CorruptCheckpointError(
                path, f"line {number} is not a message of a run ({error}); remove that line, or the file"
            ) from error
    if rest:
        _log.warning("%s: ignored the incomplete line %d", path, len(lines) + 1)
