"""Reading of untrusted HDF5 files, in a process that can be killed.

::

    with Hdf5Reader() as reader:
        root = reader.read(path, fail)
    root.items["timestamps"].values

Groups, data sets of numbers and text, and their attributes are read. Links, data in other files, references and
compound types are rejected. The process has limits of CPU time and memory, and exits after Ctrl-C.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.closing import Closing
from soulslab.config.input_files import Fail, read_bytes
from soulslab.errors import MissingDependencyError

if TYPE_CHECKING:
    from io import BufferedReader

_CHILD: Final = Path(__file__).with_name("hdf5_child.py")
_START_S: Final = 60.0
#: Limit of the wall time for an item, in addition to that of the CPU time, for disks that do not respond.
_ITEM_S: Final = 600.0
_MAX_MESSAGE_BYTES: Final = 1 << 30
FAILED: Final = 2**64 - 1  # as in the process
_MAX_FILE_BYTES: Final = 1 << 40
#: Greatest size of the values that are read, unless they are frames: a megabyte of a file can hold a gigabyte of zeros.
MAX_BYTES: Final = 500_000_000
_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"

Attributes: TypeAlias = dict[str, Any]


class Hdf5Node(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A group or a data set.

    Attributes:
        attrs: Attributes: numbers, text, bytes, and lists of them.
        items: Groups and data sets of a group by name; empty for a data set.
        shape: Shape of a data set, also if its values were left out.
        values: Numbers of a data set, or an object array of str or bytes; None for a group, or if left out.
    """

    attrs: Attributes
    items: dict[str, Hdf5Node] = {}
    shape: tuple[int, ...] = ()
    values: NDArray[Any] | None = None

    def array(self, name: str) -> NDArray[Any]:
        """Return the values of a data set of this group. Raises `ValueError`."""
        values = self.items[name].values if name in self.items else None
        if values is None:
            raise ValueError(f"the group has no data set {name!r}")
        return values


class _Node(msgspec.Struct, frozen=True):
    attrs: Attributes
    items: dict[str, _Node] | None = None
    shape: tuple[int, ...] = ()
    dtype: str | None = None
    texts: list[Any] | None = None  # of str or of bytes


class _Message(msgspec.Struct, frozen=True):
    ready: bool = False
    end: bool = False
    error: str = ""
    attrs: Attributes = {}
    names: list[str] = []
    name: str = ""
    node: _Node | None = None


_messages = msgspec.msgpack.Decoder(_Message)


class Hdf5Reader(Closing):
    """Process that reads files; a new one is started after it was ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def read(
        self,
        path: Path,
        fail: Fail,
        *,
        only: Sequence[str] | None = None,
        skip: Collection[str] = (),
        rows: tuple[int | None, int | None] = (None, None),
        max_bytes: int | None = MAX_BYTES,
    ) -> Hdf5Node:
        """Read a file into memory.

        Args:
            path: The file.
            fail: Returns the exception for a problem, such as a limit that the file exceeds.
            only: Names of the items of the root to read; None reads all.
            skip: Paths of data sets (``"group/name"``) whose values are left out.
            rows: First and last row of each data set, as in a slice.
            max_bytes: Greatest size of all values; None, for frames, limits it only by the size of the file.
        """
        request = {"only": only, "skip": list(skip), "rows": rows, "max_bytes": max_bytes, "is_each": False}
        messages = self._ask(path, fail, request)
        root = next(messages)[1]
        return msgspec.structs.replace(root, items=dict(messages))

    def read_items(
        self,
        path: Path,
        fail: Fail,
        names: Sequence[str],
        *,
        max_bytes: int | None = MAX_BYTES,
    ) -> Iterator[tuple[str, Hdf5Node]]:
        """Yield items of the root one by one, so that only one at a time is in memory; see `read`.

        ``max_bytes`` is the greatest size of the values of one item.
        """
        request = {"only": names, "skip": [], "rows": (None, None), "max_bytes": max_bytes, "is_each": True}
        messages = self._ask(path, fail, request)
        next(messages)
        yield from messages

    def close(self) -> None:
        """End the process; a second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()

    def _ask(self, path: Path, fail: Fail, request: dict[str, Any]) -> Iterator[tuple[str, Hdf5Node]]:
        """Yield the root, without name and items, then its items."""
        start = read_bytes(path, _MAX_FILE_BYTES, fail, n_first_bytes=len(_SIGNATURE))
        if start != _SIGNATURE:
            raise fail("cannot be read: it is not an HDF5 file")
        is_whole = False
        try:
            process = self._started()
            stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
            data = msgspec.msgpack.encode({"path": os.fsencode(path), **request})
            stdin.write(len(data).to_bytes(8, "little") + data)
            stdin.flush()
            message = self._next(stdout)
            yield "", Hdf5Node(attrs=message.attrs, items={name: Hdf5Node(attrs={}) for name in message.names})
            while not (message := self._next(stdout)).end:
                with self._deadline(_ITEM_S):
                    node = _receive(message.node, stdout)
                yield message.name, node
            is_whole = True
        except _RefusedError as error:
            is_whole = True  # the process waits for the next request
            raise fail(f"cannot be read: {error}") from error
        except (_ReaderError, OSError, msgspec.MsgspecError, ValueError, TypeError, MemoryError) as error:
            raise fail(f"cannot be read: {error}") from error
        finally:
            if not is_whole:  # also after Ctrl-C
                self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        """Return the process, ready for a request."""
        if self._process is None:
            # Disable plugins for filters named by a file, and thread pools, which use address space.
            environment = {**os.environ, "HDF5_PLUGIN_PRELOAD": "::", "OPENBLAS_NUM_THREADS": "1"}
            command = [sys.executable, "-P", "-W", "ignore", str(_CHILD)]
            self._process = subprocess.Popen(  # noqa: S603  (a fixed command)
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
            try:
                with self._deadline(_START_S):
                    self._next(cast("IO[bytes]", self._process.stdout))
            except _ReaderError:
                require_h5py()
                raise
        return self._process

    def _next(self, stdout: IO[bytes]) -> _Message:
        """Return the next message."""
        with self._deadline(_ITEM_S):
            return _messages.decode(_take(stdout, _length(stdout)))

    @contextmanager
    def _deadline(self, seconds: float) -> Iterator[None]:
        """Kill the process after a time, so that reads from it end."""
        if self._process is None:
            raise AssertionError("the process was not started")
        timer = threading.Timer(seconds, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


class _ReaderError(Exception):
    """The process has exited, or its answer is malformed."""


class _RefusedError(_ReaderError):
    """The process reported why a file cannot be read."""


def require_h5py() -> None:
    """Raise `MissingDependencyError` if h5py is not installed."""
    try:
        import h5py  # noqa: F401, PLC0415  (only the process needs it)
    except ModuleNotFoundError as error:
        raise MissingDependencyError("h5py", "siphon") from error


def _receive(node: _Node | None, stdout: IO[bytes]) -> Hdf5Node:
    """Return an item with its numbers, which follow its message."""
    if node is None:
        raise _ReaderError("its description is malformed")
    if node.items is not None:
        return Hdf5Node(attrs=node.attrs, items={name: _receive(item, stdout) for name, item in node.items.items()})
    if node.texts is not None:
        texts = np.empty(len(node.texts), object)
        texts[:] = node.texts
        return Hdf5Node(attrs=node.attrs, shape=node.shape, values=texts.reshape(node.shape))
    if node.dtype is None:
        return Hdf5Node(attrs=node.attrs, shape=node.shape)
    dtype = np.dtype(node.dtype)
    if dtype.hasobject:
        raise ValueError(f"type {node.dtype} is not numeric")
    values: NDArray[Any] = np.empty(node.shape, dtype)
    view, n_taken = memoryview(cast("Any", values.reshape(-1).view(np.uint8))), 0
    while n_taken < len(view):
        n_bytes = _length(stdout)
        if n_bytes > len(view) - n_taken:
            raise _ReaderError("its answer is malformed")
        _fill(view[n_taken : n_taken + n_bytes], stdout)
        n_taken += n_bytes
    return Hdf5Node(attrs=node.attrs, shape=node.shape, values=values)


def _length(stdout: IO[bytes]) -> int:
    """Return the length of the next part."""
    n_bytes = int.from_bytes(_take(stdout, 8), "little")
    if n_bytes == FAILED:
        raise _RefusedError(_messages.decode(_take(stdout, _length(stdout))).error)
    if n_bytes > _MAX_MESSAGE_BYTES:
        raise _ReaderError(f"its description has {n_bytes} bytes")
    return n_bytes


def _take(stdout: IO[bytes], n_bytes: int) -> bytearray:
    """Return exactly `n_bytes` bytes."""
    data = bytearray(n_bytes)
    _fill(memoryview(data), stdout)
    return data


def _fill(view: memoryview, stdout: IO[bytes]) -> None:
    """Fill the view with bytes."""
    if cast("BufferedReader", stdout).readinto(view) < len(view):
        raise _ReaderError("it took too much time or memory, or crashed the HDF5 library")
