"""A queue of messages that are not acknowledged: a few in memory, then more in a file of bounded size."""

from __future__ import annotations

import errno
import logging
import os
import tempfile
from collections import deque
from pathlib import Path
from typing import IO, Final

MEMORY_BYTES: Final = 8 << 20
"""Size of the messages that are kept in memory (bytes)."""

_LENGTH_BYTES: Final = 4

_log = logging.getLogger(__name__)


class Spool:
    """Messages in order. A new message goes to the file while the memory is full, or older ones are in the file.

    The file has no name, so the system frees it when the process ends.
    """

    def __init__(self, folder: Path, max_bytes: int, memory_bytes: int = MEMORY_BYTES) -> None:
        """Make an empty queue; its file in the folder has at most ``max_bytes``."""
        self._folder = folder
        self._max_bytes = max_bytes
        self._memory_bytes = memory_bytes
        self._memory: deque[bytes] = deque()
        self._n_memory = 0
        self._file: IO[bytes] | None = None
        self._read_at = self._write_at = 0
        self._n_in_file = 0

    def __len__(self) -> int:
        return len(self._memory) + self._n_in_file

    @property
    def n_bytes(self) -> int:
        """Size of all messages (bytes)."""
        return self._n_memory + self._write_at - self._read_at

    @property
    def n_file_bytes(self) -> int:
        """Size of the messages in the file (bytes)."""
        return self._write_at - self._read_at

    def has_space(self, n_bytes: int) -> bool:
        """Return whether a message of this size fits."""
        if not self._n_in_file and self._n_memory + n_bytes <= self._memory_bytes:
            return True
        return self._write_at + n_bytes + _LENGTH_BYTES <= self._max_bytes

    def append(self, message: bytes) -> bool:
        """Add a message; return False if it does not fit, or if the disk is full."""
        if not self.has_space(len(message)):
            return False
        if not self._n_in_file and self._n_memory + len(message) <= self._memory_bytes:
            self._memory.append(message)
            self._n_memory += len(message)
            return True
        try:
            self._write(len(message).to_bytes(_LENGTH_BYTES, "little") + message)
        except OSError as error:
            _log.warning("the spool in %s cannot be written: %s", self._folder, error.strerror or error)
            return False
        self._n_in_file += 1
        return True

    def oldest(self, max_bytes: int) -> list[bytes]:
        """Return the oldest messages up to a total size, at least one if there is any; they stay in the queue."""
        found: list[bytes] = []
        n_found = 0
        for message in self._memory:
            if found and n_found + len(message) > max_bytes:
                return found
            found.append(message)
            n_found += len(message)
        at = self._read_at
        while self._file is not None and at < self._write_at:
            self._file.seek(at)
            n = int.from_bytes(self._file.read(_LENGTH_BYTES), "little")
            if found and n_found + n > max_bytes:
                break
            found.append(self._file.read(n))
            n_found += n
            at += _LENGTH_BYTES + n
        return found

    def remove(self, messages: list[bytes]) -> None:
        """Remove the oldest messages, which :meth:`oldest` returned."""
        for message in messages:
            if self._memory:
                self._memory.popleft()
                self._n_memory -= len(message)
            else:
                self._read_at += _LENGTH_BYTES + len(message)
                self._n_in_file -= 1
        if not self._n_in_file and self._file is not None and self._write_at:
            self._file.truncate(0)
            self._read_at = self._write_at = 0

    def close(self) -> None:
        """Discard everything."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - closed by `close`
        self._file.seek(self._write_at)
        if self._file.write(data) < len(data):  # an unbuffered file writes what fits
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._write_at += len(data)
