"""Reading and writing npz files without pickle, with limits for files that others have written."""

from __future__ import annotations

import io
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from soulslab.config.atomic_file import replace_file
from soulslab.config.input_files import read_bytes
from soulslab.errors import ConfigError

_MAX_BYTES: Final = 64 << 20
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
