"""Tensors and a JSON header in one safetensors file, written atomically.

A file is written under a temporary name, flushed to the disk and renamed, so after a crash there is either the old file
or the new one. Its metadata hold the header and a SHA-256 of header and tensors; reading verifies both. Pickle is not
used.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
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

from soulslab import version
from soulslab.config.atomic_file import replace_file
from soulslab.config.input_files import parse_json, read_bytes
from soulslab.errors import CheckpointError, CorruptCheckpointError, IncompatibleCheckpointError

Tensors = dict[str, NDArray[Any]]

_HEADER: Final = "soulslab"
_DIGEST: Final = "sha256"
_TEMPORARY: Final = re.compile(r"\..+\.(safetensors|toml|json|npz)\.\d+\.tmp")
_MAX_HEADER_BYTES: Final = 64 << 20
_MAX_FILE_BYTES: Final = 16 << 30


def write_archive(path: Path, tensors: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Write numeric or bool arrays and JSON-compatible values to a file, atomically; see `write_atomically`."""
    packed = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    text = msgspec.json.encode(header, order="sorted").decode()
    data = pack_tensors(packed, metadata={_HEADER: text, _DIGEST: _digest(packed, text)})
    write_atomically(path, data)


def read_archive(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Return the tensors and the header of a file; raises CorruptCheckpointError if it was truncated or altered."""
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
    """Read only the header of a file, without verifying the checksum; errors as in `read_archive`."""
    start = read_bytes(path, _MAX_FILE_BYTES, partial(CheckpointError, path), n_first_bytes=8 + _MAX_HEADER_BYTES)
    return _parse_header(_read_metadata(start, path).soulslab, path)


def check_format(header: Mapping[str, Any], known: str, versions: Collection[int], path: str | Path) -> None:
    """Raise IncompatibleCheckpointError if the header of a file has another format, or an unknown version of it."""
    if header.get("format") != known or header.get("version") not in versions:
        raise IncompatibleCheckpointError(
            path,
            f"has format {header.get('format')!r:.100} version {header.get('version')!r:.100}; "
            f"this soulslab reads {known!r} version {' or '.join(map(str, versions))}; "
            f"it was written by soulslab {header.get('soulslab', 'of unknown version')!s:.100}",
        )


def check_shapes(tensors: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]], path: str | Path) -> None:
    """Check that all expected tensors exist, with their shapes and types, and are finite; others are ignored.

    Raises IncompatibleCheckpointError for a missing tensor or another shape or type, CorruptCheckpointError for NaN or
    infinity.
    """
    for name, example in expected.items():
        found = tensors.get(name)
        if found is None or found.shape != example.shape:
            there = f"shape {found.shape}" if found is not None else "nothing"
            raise IncompatibleCheckpointError(
                path, f"tensor {name!r} should have shape {example.shape}, but there is {there}"
            )
        if found.dtype != example.dtype:
            raise IncompatibleCheckpointError(
                path, f"tensor {name!r} should be of type {example.dtype}, but is of type {found.dtype}"
            )
        if not np.isfinite(found).all():
            raise CorruptCheckpointError(path, f"tensor {name!r} holds NaN or infinity")


def check_n_parameters(tensors: Mapping[str, NDArray[Any]], n_expected: int, path: str | Path) -> None:
    """Check that a file holds as many parameters (``network/...``) as the network of its header has.

    This is checked before the network is built, because a network takes memory and time in proportion to its size.
    """
    n_found = sum(tensor.size for name, tensor in tensors.items() if name.startswith("network/"))
    if n_found != n_expected:
        raise IncompatibleCheckpointError(
            path, f"its header describes a network of {n_expected} parameters, but the file holds {n_found}"
        )


def join_parts(parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> Tensors:
    """Return the tensors of several parts in one table, named ``part/tensor``."""
    return {f"{name}/{key}": array for name, part in parts.items() for key, array in part.items()}


def take_part(tensors: Mapping[str, NDArray[Any]], name: str) -> Tensors:
    """Return the tensors of one part of :func:`join_parts`, without its name."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): array for key, array in tensors.items() if key.startswith(prefix)}


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it holds either the old or the new contents after a crash; see `writing`."""
    with writing(path):
        replace_file(path, data)


def remove_temporary_files(folder: Path) -> None:
    """Remove the temporary files of :func:`write_atomically` whose process was killed; other files are kept.

    No other process may write to the folder at the same time. The folder does not have to exist.
    """
    with writing(folder):
        for path in folder.glob(".*.tmp"):
            if _TEMPORARY.fullmatch(path.name):
                path.unlink()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an OSError while a file or folder is written into a CheckpointError that names it."""
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
    """Return the metadata of a safetensors file: 8 bytes with a length, then JSON with ``__metadata__``."""
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


def git_commit() -> str:
    """Return the commit of soulslab's checkout; ``+`` marks changed files, "" is an installed package."""
    package = Path(version.__file__).parent
    checkout = package.parent.parent
    git = shutil.which("git")
    # An installed package may be inside another repository, whose commit does not describe it.
    if git is None or not (checkout / ".git").exists() or package != checkout / "src" / "soulslab":
        return ""

    def ask(*arguments: str) -> str | None:
        answer = subprocess.run(  # noqa: S603  fixed program and arguments
            [git, "-C", str(checkout), *arguments], capture_output=True, text=True, check=False
        )
        return answer.stdout.strip() if answer.returncode == 0 else None

    commit = ask("rev-parse", "HEAD")
    changed = ask("status", "--porcelain", "--untracked-files=no")
    return f"{commit}{'+' if changed else ''}" if commit else ""
