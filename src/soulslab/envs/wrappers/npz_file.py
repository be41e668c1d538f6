"""Reading and writing npz files without pickle, with limits for files that others have written."""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.config.input_files import read_bytes
from soulslab.errors import ConfigError

_MAX_BYTES: Final = 64 << 20
_NPY_HEADERS: Final[dict[tuple[int, int], Callable[[Any], Any]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_DAMAGE: Final = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    KeyError,
    IndexError,
    TypeError,
    SyntaxError,
    OverflowError,
    zlib.error,
    zipfile.BadZipFile,
)
"""Errors that zipfile and numpy raise for a damaged file."""


def npz_bytes(arrays: dict[str, Any]) -> bytes:
    """Return arrays as the contents of an npz file."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def read_npz(path: Path) -> dict[str, Any]:
    """Return the arrays of an npz file. Damaged files and files with Python objects raise `ConfigError`."""
    fail = partial(ConfigError, source=path)
    data = read_bytes(path, _MAX_BYTES, fail)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
                raise fail("cannot be read: it uses a compression method that numpy does not use")
            if sum(member.file_size for member in members) > _MAX_BYTES:
                raise fail(f"is too large: its arrays have more than {_MAX_BYTES} bytes")
            return {member.filename.removesuffix(".npy"): _parse_npy(archive.read(member)) for member in members}
    except _DAMAGE as error:
        raise fail(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _parse_npy(data: bytes) -> NDArray[Any]:
    """Return the array of an npy file; the size in its header must equal the size of the data."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version not in _NPY_HEADERS:
        raise ValueError(f"version {version} of npy is not known")
    shape, is_fortran, dtype = _NPY_HEADERS[version](file)
    n_bytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read")
    if min(shape, default=0) < 0 or n_bytes != len(data) - file.tell():
        raise ValueError(f"an array of shape {shape} and type {dtype} does not follow its header")
    array = np.frombuffer(data, dtype, offset=file.tell())
    return array.reshape(shape, order="F" if is_fortran else "C").copy()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that other processes see either the old contents or the new ones. Raises `ConfigError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(f"cannot be written: {error.strerror}", source=path) from error
