"""Child process that opens HDF5 files for `soulslab.config.hdf5_files`; it does not import soulslab.

A damaged file can make the HDF5 library loop or allocate gigabytes within one call of C code, which a Python exception
cannot interrupt. Therefore the kernel limits CPU time and memory of each request.

Requests arrive on standard input, answers are written to standard output. Both are msgpack messages, each after its
length (8 bytes, little endian). An answer consists of one message for each item of the file, and an end message. The
numbers of the data sets follow the message of their item, in the same order and in parts, each after its length.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import h5py
import msgspec
import numpy as np

if sys.platform != "win32":
    import resource

_MAX_DEPTH = 8
_MAX_OBJECTS = 200_000
_AT_ONCE_BYTES = 16 << 20
_MEMORY_BYTES = 320 << 20
_CPU_S = 1.5
#: Sent instead of a length; an error message follows.
FAILED = 2**64 - 1
_CPU_BYTES_PER_S = 1 << 20
_FILE_BYTES = 1100
_FREE_BYTES = 64 << 20
#: Kinds of NumPy data types: bool, integers and floats.
_KINDS = "biuf"


class _File:
    """One request: an open file, and the amount of data read from it."""

    def __init__(self, request: dict[str, Any], n_file_bytes: int) -> None:
        self._skip = frozenset(request["skip"])
        self._rows = slice(*request["rows"])
        # The compression ratio of HDF5's filters is at most that of deflate, 1032 to 1.
        self._n_bytes = _FREE_BYTES + _FILE_BYTES * n_file_bytes
        self._max_bytes = self._n_bytes if request["max_bytes"] is None else request["max_bytes"]
        self._n_wanted = 0
        self._n_objects = 0
        self.pending: list[Any] = []

    def release(self) -> None:
        """Note that the receiver keeps none of the data so far."""
        self._n_wanted = 0

    def describe(self, item: Any, place: str, depth: int = 0) -> dict[str, Any]:
        """Return a group or a data set as a message; append data sets with numbers to `pending`."""
        self._n_objects += 1
        if self._n_objects > _MAX_OBJECTS or depth > _MAX_DEPTH:
            raise ValueError("it has too many objects, or groups are nested too deeply")
        node: dict[str, Any] = {"attrs": {name: _plain(value) for name, value in item.attrs.items()}}
        if isinstance(item, h5py.Dataset):
            return node | self._data_set(item, place)
        if not isinstance(item, h5py.Group):
            raise TypeError(f"{place} is neither a group nor a data set")
        names = [name for name in item if _is_own(item, name)]
        node["items"] = {name: self.describe(item[name], f"{place}/{name}", depth + 1) for name in names}
        return node

    def numbers(self) -> Iterator[Any]:
        """Yield the numbers of the pending data sets, in parts."""
        for data_set in self.pending:
            if not data_set.shape:
                yield np.ascontiguousarray(data_set[()])
                continue
            rows = range(data_set.shape[0])[self._rows]
            row_bytes = max(1, data_set.dtype.itemsize * int(np.prod(data_set.shape[1:], dtype=object)))
            chunk_rows = data_set.chunks[0] if data_set.chunks else 1
            n_rows = max(1, _AT_ONCE_BYTES // row_bytes // chunk_rows) * chunk_rows
            for start in range(rows.start, rows.stop, n_rows):
                yield np.ascontiguousarray(data_set[start : min(start + n_rows, rows.stop)])
        self.pending.clear()

    def _data_set(self, item: Any, place: str) -> dict[str, Any]:
        if item.is_virtual or item.external:
            raise ValueError(f"{place} is stored in another file")
        dtype, shape = item.dtype, item.shape
        if shape is None:
            raise ValueError(f"{place} has no shape")
        if shape:
            shape = (len(range(shape[0])[self._rows]), *shape[1:])
        if place in self._skip:
            return {"shape": (item.shape or ())}
        n_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        self._n_bytes -= n_bytes
        self._n_wanted += n_bytes
        if self._n_bytes < 0:
            raise ValueError(f"{place} has {n_bytes} bytes, more than the file can hold")
        if self._n_wanted > self._max_bytes:
            raise ValueError(f"{place} and the data before it have more than {self._max_bytes} bytes")
        if h5py.check_string_dtype(dtype) is not None:
            texts = item.asstr("utf-8", "replace")[self._rows] if shape else item.asstr("utf-8", "replace")[()]
            return {"shape": shape, "texts": np.asarray(texts, object).ravel().tolist()}
        if h5py.check_vlen_dtype(dtype) == np.uint8:
            return {"shape": shape, "texts": [each.tobytes() for each in item[self._rows].ravel()]}
        if dtype.kind not in _KINDS:
            raise ValueError(f"{place} is of type {dtype}")
        self.pending.append(item)
        return {"shape": shape, "dtype": dtype.str}


def _is_own(group: Any, name: str) -> bool:
    """Return whether a name is an object of this file, and not a link to another one."""
    if isinstance(group.get(name, getlink=True), h5py.HardLink):
        return True
    raise ValueError(f"{name!r} is a link")


def _plain(value: Any) -> Any:
    """Return the value of an attribute as numbers, text, bytes and lists."""
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        value = value.item()  # float64 and its like are also Python's own types, which msgspec does not accept
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, h5py.Empty):
        value = []
    if isinstance(value, np.ndarray) and (value.dtype.kind in _KINDS or value.dtype.kind in "OSU"):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    raise ValueError(f"an attribute is of type {type(value).__name__}")


def answer(request: dict[str, Any], out: IO[bytes]) -> None:
    """Answer one request."""
    path = os.fsdecode(request["path"])
    n_file_bytes = Path(path).stat().st_size
    _limit_cpu(n_file_bytes)
    with h5py.File(path, "r") as file:
        state = _File(request, n_file_bytes)
        names = [name for name in file if _is_own(file, name)]
        _send(out, {"attrs": {name: _plain(value) for name, value in file.attrs.items()}, "names": names})
        for name in request["only"] if request["only"] is not None else names:
            if request["is_each"]:
                state.release()
            _send(out, {"name": name, "node": state.describe(file[name], name)})
            for part in state.numbers():
                if part.size:
                    out.write(part.nbytes.to_bytes(8, "little"))
                    out.write(part.data.cast("B"))
    _send(out, {"end": True})


def _limit_cpu(n_file_bytes: int) -> None:
    """Limit the CPU time of a request to more than a valid file of this size needs."""
    if sys.platform != "win32":  # the signal of this timer ends the process
        signal.setitimer(signal.ITIMER_PROF, _CPU_S + n_file_bytes / _CPU_BYTES_PER_S)


def _limit_memory() -> None:
    if sys.platform != "win32":
        _lower(resource.RLIMIT_CORE, 0)
    if sys.platform != "linux":
        return
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        n_bytes = int(file.read().split()[0]) * resource.getpagesize()
    _lower(resource.RLIMIT_AS, n_bytes + _MEMORY_BYTES)


def _lower(kind: int, soft: int) -> None:
    """Set the soft limit of a resource; the hard limit is unchanged, and may be lower."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _send(out: IO[bytes], message: dict[str, Any]) -> None:
    data = msgspec.msgpack.encode(message)
    out.write(len(data).to_bytes(8, "little") + data)


def main() -> None:
    """Answer requests until the standard input ends."""
    requests, out = sys.stdin.buffer, sys.stdout.buffer
    _limit_memory()
    _send(out, {"ready": True})
    out.flush()
    while len(length := requests.read(8)) == 8:
        request = msgspec.msgpack.decode(requests.read(int.from_bytes(length, "little")))
        try:
            answer(request, out)
        except Exception as error:  # noqa: BLE001  (h5py raises many types for damaged files; the parent reports them)
            out.write(FAILED.to_bytes(8, "little"))
            _send(out, {"error": f"{type(error).__name__}: {str(error)[:300]}"})
        out.flush()


if __name__ == "__main__":
    main()
