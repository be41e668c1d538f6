"""Reading and writing npz files without pickle, with limits for files that others have written."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from soulslab.config.atomic_file import replace_file
from soulslab.config.input_files import Fail, read_bytes
from soulslab.errors import ConfigError

_MAX_BYTES: Final = 64 << 20
_MAX_ARRAYS: Final = 10_000
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
    MemoryError,
    zlib.error,
    zipfile.BadZipFile,
)
"""Errors that zipfile and numpy raise for a damaged file."""


def npz_bytes(arrays: dict[str, Any]) -> bytes:
    """Return arrays as the contents of an npz file."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def read_npz(path: Path, fail: Fail, max_array_bytes: int = _MAX_BYTES) -> dict[str, Any]:
    """Return the arrays of an npz file; damaged files and files with Python objects are refused."""
    data = read_bytes(path, _MAX_BYTES, fail)
    if data.count(b"PK\1\2") > _MAX_ARRAYS:  # each array has an entry with this signature
        raise fail(f"has more than {_MAX_ARRAYS} arrays")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
                raise fail("cannot be read: it uses a compression method that numpy does not use")
            if sum(member.file_size for member in members) > max_array_bytes:
                raise fail(f"is too large: its arrays have more than {max_array_bytes} bytes")
            # Without pickle, numpy refuses Python objects.
            return {
                member.filename.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(member)))
                for member in members
            }
    except _DAMAGE as error:
        raise fail(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that other processes see either the old contents or the new ones. Raises `ConfigError`."""
    try:
        replace_file(path, data)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", source=path) from error
