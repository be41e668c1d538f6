"""A file that always has the state of its last commit, also after a crash during a write.

HDF5 changes its tables in place, so a program that is killed between two of these changes leaves an unreadable file.
Here only data after the committed end is written to the disk at once, because nothing refers to it yet. Changes of
committed data are kept in memory, page by page, until `CommittedFile.commit` has written them to a journal; then they
are written to the file and the journal is deleted. A crash in between leaves the journal, and `finish_commit` completes
the commit. (This is a redo log: Gray and Reuter, "Transaction Processing", 1992, chapter 10.)

After the first write that fails, for example on a full disk, nothing is written to the disk any more, so the file stays
at its last commit while HDF5 closes its own structures.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from soulslab.config.input_files import read_bytes
from soulslab.errors import RecordingError
from soulslab.siphon.recording.positioned_file import BINARY, NOT_INHERITED, lock_file, read_at, write_at

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

PAGE = 4096
JOURNAL_FORMAT = 1
_MAX_JOURNAL_BYTES = 1 << 30


class _Journal(msgspec.Struct, frozen=True, array_like=True):
    """A commit in progress: pages by their number, and the size of the file afterwards."""

    format: int
    size: int
    pages: dict[int, bytes]


def journal_of(path: Path) -> Path:
    """Return the path of the journal of a file."""
    return path.with_name(f"{path.name}.journal")


class CommittedFile(io.RawIOBase):
    """A new file for h5py, with the methods of a file object; `failure` is the error that stopped all writing, if any.

    Raises `OSError` if it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.failure: OSError | None = None
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NOT_INHERITED | BINARY, 0o644)
        # Readers of HDF5 take a shared lock too, so they have access; `finish_commit` has not.
        lock_file(self._handle, is_shared=True)
        self._held_back: dict[int, bytearray] = {}
        self._position = 0
        self._size = 0
        self._committed_size = 0
        self._committed_pages = 0

    def readable(self) -> bool:
        """Return that all operations are possible."""
        return True

    writable = seekable = readable

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position; return it."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def truncate(self, size: int | None = None) -> int:
        """Set the size; the size on the disk changes with the next commit."""
        self._size = size if size is not None else self._position
        return self._size

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer with written data, committed or not."""
        view = memoryview(buffer).cast("B")
        done = 0
        for page, start, n in _pages_of(self._position, max(0, min(len(view), self._size - self._position))):
            held_back = self._held_back.get(page)
            data = bytes(held_back[start : start + n]) if held_back else self._from_disk(page * PAGE + start, n)
            view[done : done + n] = data
            done += n
        self._position += done
        return done

    def write(self, data: ReadableBuffer) -> int:
        """Write a buffer: new parts to the disk, changes of committed parts to memory."""
        view = memoryview(data).cast("B")
        n_held_back = len(view)
        if self.failure is None:
            n_held_back = max(0, min(len(view), self._committed_pages * PAGE - self._position))
        self._hold_back(self._position, view[:n_held_back])
        try:
            self._to_disk(self._position + n_held_back, view[n_held_back:])
        except OSError as error:
            self.failure = error
            self._hold_back(self._position + n_held_back, view[n_held_back:])
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def commit(self) -> None:
        """Commit everything written so far. Raises `OSError` if that fails; the file then stays at its last commit."""
        if self.failure is not None:
            raise self.failure
        try:
            self._apply()
        except OSError as error:
            self.failure = error
            raise
        self._held_back.clear()
        self._committed_size = self._size
        self._committed_pages = -(-self._size // PAGE)

    def close(self) -> None:
        """Discard uncommitted data and close the file; a second call does nothing."""
        if self.closed:
            return
        super().close()
        try:
            # A remaining journal means an incomplete commit; then the whole file is needed to finish it.
            if not journal_of(self.path).exists():
                os.ftruncate(self._handle, self._committed_size)
        finally:
            os.close(self._handle)

    def _apply(self) -> None:
        if self._held_back:
            pages = {page: bytes(data) for page, data in self._held_back.items()}
            _write_journal(journal_of(self.path), _Journal(JOURNAL_FORMAT, self._size, pages))
            # The first page contains the end of the file, so a reader that opens it now sees an end that is large
            # enough.
            for page, data in sorted(self._held_back.items()):
                self._to_disk(page * PAGE, memoryview(data)[: max(0, self._size - page * PAGE)])
        os.ftruncate(self._handle, self._size)
        journal_of(self.path).unlink(missing_ok=True)

    def _hold_back(self, position: int, view: memoryview) -> None:
        done = 0
        for page, start, n in _pages_of(position, len(view)):
            if page not in self._held_back:
                self._held_back[page] = bytearray(self._from_disk(page * PAGE, PAGE))
            self._held_back[page][start : start + n] = view[done : done + n]
            done += n

    def _to_disk(self, position: int, view: memoryview) -> None:
        while view:
            n = write_at(self._handle, view, position)
            position, view = position + n, view[n:]

    def _from_disk(self, position: int, n: int) -> bytes:
        """Return data from the disk; data beyond the end is zero, as in a sparse file."""
        return read_at(self._handle, n, position).ljust(n, b"\0")


def is_being_written(path: Path) -> bool:
    """Return whether a `CommittedFile` is writing the file."""
    try:
        with path.open("rb") as file:
            return not lock_file(file.fileno(), is_shared=False)
    except OSError:
        return False


def finish_commit(path: Path) -> bool:
    """Finish a commit that a crash has interrupted; return whether there was one.

    A file that is being written now is not changed. Raises `RecordingError` if the commit cannot be finished.
    """
    journal = journal_of(path)
    if not journal.exists():
        return False
    try:
        with path.open("r+b") as file:
            if not lock_file(file.fileno(), is_shared=False):
                return False
            commit = _read_journal(journal, os.fstat(file.fileno()).st_size)
            # The pages of an incomplete journal were never written to the file.
            if commit is not None:
                for page, data in commit.pages.items():
                    file.seek(page * PAGE)
                    file.write(data[: max(0, commit.size - page * PAGE)])
                file.truncate(commit.size)
                file.flush()
            journal.unlink(missing_ok=True)
    except OSError as error:
        raise RecordingError(path, f"its journal {journal.name} cannot be carried out: {error.strerror}") from error
    return commit is not None


def _write_journal(path: Path, journal: _Journal) -> None:
    data = msgspec.msgpack.encode(journal)
    try:
        path.write_bytes(zlib.crc32(data).to_bytes(4, "little") + data)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _read_journal(path: Path, n_bytes: int) -> _Journal | None:
    """Return the journal of a file; None if it is incomplete or belongs to another file."""
    data = read_bytes(path, _MAX_JOURNAL_BYTES, partial(RecordingError, path))
    if zlib.crc32(data[4:]).to_bytes(4, "little") != data[:4]:
        return None
    try:
        journal = msgspec.msgpack.decode(data[4:], type=_Journal)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # A complete journal changes existing pages, and extends the file at most by its own pages.
    limit = n_bytes + (len(journal.pages) + 1) * PAGE
    is_whole = journal.format == JOURNAL_FORMAT and 0 <= journal.size <= limit
    is_near = all(0 <= page * PAGE <= limit and len(data) <= PAGE for page, data in journal.pages.items())
    return journal if is_whole and is_near else None


def _pages_of(position: int, n: int) -> Iterator[tuple[int, int, int]]:
    """Yield the pages of a range: number, start of the range in the page, and number of bytes in it."""
    end = position + n
    while position < end:
        page, start = divmod(position, PAGE)
        part = min(PAGE - start, end - position)
        yield page, start, part
        position += part
