"""Tensors and a JSON header in one safetensors file that is whole or not there.

A file is written beside its place, flushed to the disk and renamed, so a crash leaves the old one or the new
one. Its metadata holds the header and a SHA-256 over header and tensors; reading checks both. No pickle is
involved.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as pack_tensors

from soulslab.config.input_files import parse_json, read_bytes
from soulslab.errors import CheckpointError, CorruptCheckpointError, IncompatibleCheckpointError

Tensors = dict[str, NDArray[Any]]

_HEADER: Final = "soulslab"
_DIGEST: Final = "sha256"
_TEMPORARY: Final = re.compile(r"\..+\.(safetensors|toml|json)\.\d+\.tmp")
_MAX_HEADER_BYTES: Final = 64 << 20
_MAX_FILE_BYTES: Final = 16 << 30


def write_archive(path: Path, tensors: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Write a file atomically.

    Args:
        path: The file; an older one is replaced only when the new one is safely on the disk.
        tensors: Numeric or bool arrays by name.
        header: Anything that JSON can say.

    Raises:
        CheckpointError: The disk is full or the folder cannot be written; an older file is untouched.
    """
    packed = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    text = msgspec.json.encode(header, order="sorted").decode()
    data = pack_tensors(packed, metadata={_HEADER: text, _DIGEST: _digest(packed, text)})
    write_atomically(path, data)


def read_archive(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Read a file and check that it is exactly what was written.

    Args:
        path: A file from :func:`write_archive`.

    Returns:
        The tensors by name, and the header.

    Raises:
        CheckpointError: There is no such file, or it cannot be read.
        CorruptCheckpointError: It is truncated, altered, or no file of soulslab.
    """
    data = read_bytes(path, _MAX_FILE_BYTES, partial(CheckpointError, path))
    metadata = _read_metadata(data, path)
    try:
        tensors: Tensors = parse_tensors(data)
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise CorruptCheckpointError(path, f"is truncated or not a checkpoint of soulslab ({error})") from error
    if _digest(tensors, metadata.soulslab) != metadata.sha256:
        raise CorruptCheckpointError(path, "has been altered: its SHA-256 does not match its contents")
    return tensors, _parse_header(metadata.soulslab, path)


def read_archive_header(path: Path) -> dict[str, Any]:
    """Read the header of a file alone, without checking what follows.

    Args:
        path: A file from :func:`write_archive`.

    Raises:
        CheckpointError: There is no such file, or it cannot be read.
        CorruptCheckpointError: It is truncated, or no file of soulslab.
    """
    start = read_bytes(path, _MAX_FILE_BYTES, partial(CheckpointError, path), n_first_bytes=8 + _MAX_HEADER_BYTES)
    return _parse_header(_read_metadata(start, path).soulslab, path)


def check_shapes(tensors: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]], path: str | Path) -> None:
    """Check that all tensors that are expected are there, in their shapes and types, without NaN or infinity.

    Args:
        tensors: The tensors by name; others may be among them.
        expected: Tensors of the right shapes and types, by name.
        path: Where the tensors come from, for the message.

    Raises:
        CorruptCheckpointError: A number is NaN or infinite.
        IncompatibleCheckpointError: A tensor is missing or has another shape or type.
    """
    for name, example in expected.items():
        if name not in tensors or tensors[name].shape != example.shape:
            found = f"shape {tensors[name].shape}" if name in tensors else "nothing"
            raise IncompatibleCheckpointError(
                path, f"tensor {name!r} should have shape {example.shape}, but there is {found}"
            )
        if tensors[name].dtype != example.dtype:
            raise IncompatibleCheckpointError(
                path, f"tensor {name!r} should be of type {example.dtype}, but is of type {tensors[name].dtype}"
            )
        if not np.isfinite(tensors[name]).all():
            raise CorruptCheckpointError(path, f"tensor {name!r} holds NaN or infinity")


def check_n_parameters(tensors: Mapping[str, NDArray[Any]], n_expected: int, path: str | Path) -> None:
    """Check that a file holds as many parameters of a network as its header describes.

    This comes before the network is built, which takes memory and time in proportion to what the header says.

    Args:
        tensors: The tensors by name; the names of the parameters begin with ``network/``.
        n_expected: Number of parameters of the network that the header describes.
        path: Where the tensors come from, for the message.

    Raises:
        IncompatibleCheckpointError: The file holds more or fewer.
    """
    n_found = sum(tensor.size for name, tensor in tensors.items() if name.startswith("network/"))
    if n_found != n_expected:
        raise IncompatibleCheckpointError(
            path, f"its header describes a network of {n_expected} parameters, but the file holds {n_found}"
        )


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old contents or the new ones.

    Args:
        path: The file.
        data: All of its contents.

    Raises:
        CheckpointError: The disk is full or the folder cannot be written; an older file is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:  # an interrupt too must leave nothing behind
            temporary.unlink(missing_ok=True)
            raise


def remove_temporary_files(folder: Path) -> None:
    """Remove what :func:`write_atomically` left in a folder when its process was killed.

    No other process may write to the folder meanwhile. Other hidden files are kept.

    Args:
        folder: The folder; nothing happens if it does not exist.

    Raises:
        CheckpointError: A file cannot be removed.
    """
    with writing(folder):
        for path in folder.glob(".*.tmp"):
            if _TEMPORARY.fullmatch(path.name):
                path.unlink()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the system while a file or folder is written into one that names it.

    Args:
        path: What is written.

    Raises:
        CheckpointError: The disk is full, or the place cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            path, f"could not be written: {error.strerror or error}; free some space or choose another folder"
        ) from error


class _Metadata(msgspec.Struct, frozen=True):
    """Values of `_HEADER` and `_DIGEST`."""

    soulslab: str
    sha256: str


class _SafetensorsHeader(msgspec.Struct, frozen=True):
    metadata: _Metadata = msgspec.field(name="__metadata__")


def _read_metadata(data: bytes, path: Path) -> _Metadata:
    """Return the metadata of a safetensors file: 8 bytes of length, then JSON with ``__metadata__``."""
    n_bytes = int.from_bytes(data[:8], "little")
    if n_bytes > min(len(data) - 8, _MAX_HEADER_BYTES):
        raise CorruptCheckpointError(path, "is truncated or not a checkpoint of soulslab (its header is too long)")
    return parse_json(data[8 : 8 + n_bytes], _SafetensorsHeader, partial(_not_an_archive, path)).metadata


def _parse_header(text: str, path: Path) -> dict[str, Any]:
    return parse_json(text, dict[str, Any], partial(_not_an_archive, path))


def _not_an_archive(path: Path, problem: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(path, f"is truncated or not a checkpoint of soulslab: {problem}")


def _digest(tensors: Mapping[str, NDArray[Any]], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\0{name}\0{tensor.dtype.str}\0{tensor.shape}\0".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()
