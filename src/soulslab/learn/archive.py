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
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as pack_tensors

from soulslab.errors import CheckpointError, CorruptCheckpointError, IncompatibleCheckpointError

Tensors = dict[str, NDArray[Any]]

_HEADER: Final = "soulslab"
_DIGEST: Final = "sha256"
_TEMPORARY: Final = re.compile(r"\..+\.(safetensors|toml|json)\.\d+\.tmp")
_LARGEST_HEADER: Final = 2**28  # a length beyond this is that of no file of ours


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
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror}") from error
    try:
        metadata = _metadata(data)
        text, digest = metadata[_HEADER], metadata[_DIGEST]
        tensors: Tensors = parse_tensors(data)
    except (SafetensorError, msgspec.MsgspecError, KeyError, ValueError) as error:
        raise CorruptCheckpointError(path, f"is truncated or no checkpoint of soulslab ({error})") from error
    if _digest(tensors, text) != digest:
        raise CorruptCheckpointError(path, "has been altered: its SHA-256 does not match its contents")
    return tensors, msgspec.json.decode(text, type=dict[str, Any])


def read_archive_header(path: Path) -> dict[str, Any]:
    """Read the header of a file alone, without checking what follows.

    Args:
        path: A file from :func:`write_archive`.

    Raises:
        CheckpointError: There is no such file, or it cannot be read.
        CorruptCheckpointError: It is truncated, or no file of soulslab.
    """
    try:
        with path.open("rb") as file:
            length = file.read(8)
            data = length + file.read(min(int.from_bytes(length, "little"), _LARGEST_HEADER))
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror}") from error
    try:
        return msgspec.json.decode(_metadata(data)[_HEADER], type=dict[str, Any])
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        raise CorruptCheckpointError(path, f"is truncated or no checkpoint of soulslab ({error})") from error


def check_shapes(tensors: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]], path: str | Path) -> None:
    """Check that all tensors that are expected are there, in their shapes.

    Args:
        tensors: The tensors by name; others may be among them.
        expected: Tensors of the right shapes, by name.
        path: Where the tensors come from, for the message.

    Raises:
        IncompatibleCheckpointError: A tensor is missing or has another shape.
    """
    for name, example in expected.items():
        if name not in tensors or tensors[name].shape != example.shape:
            found = f"shape {tensors[name].shape}" if name in tensors else "nothing"
            raise IncompatibleCheckpointError(
                path, f"tensor {name!r} should have shape {example.shape}, but there is {found}"
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


def _metadata(data: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file: 8 bytes of length, then JSON with ``__metadata__``."""
    n_bytes = int.from_bytes(data[:8], "little")
    header = msgspec.json.decode(data[8 : 8 + n_bytes], type=dict[str, Any])
    return msgspec.convert(header["__metadata__"], dict[str, str])


def _digest(tensors: Mapping[str, NDArray[Any]], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\0{name}\0{tensor.dtype.str}\0{tensor.shape}\0".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()
