"""Boundaries on the disk: TOML, which people can write, or npz, which is small. No pickle in either."""

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
from soulslab.config.loading import read_toml
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.errors import ConfigError, EnvironmentUsageError

FORMAT = 1
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
"""What zipfile and numpy raise for a file that is not what it should be."""


def save_boundary(boundary: Boundary, path: str | Path) -> None:
    """Write a boundary; the file is whole or not there.

    Args:
        boundary: What to write.
        path: Ends in ``.toml`` or ``.npz``.

    Raises:
        ConfigError: It cannot be written there, or is called neither.
    """
    path = Path(path)
    if _kind(path) == ".npz":
        rings = {f"ring_{i}": ring for i, ring in enumerate(boundary.rings)}
        data = npz_bytes({"format": np.array([FORMAT]), **rings})
    else:
        data = _toml(boundary).encode()
    write_whole(path, data)


def load_boundary(path: str | Path) -> Boundary:
    """Read a boundary.

    A TOML file has ``format = 1`` and for each ring a table ``[[rings]]`` with ``points = [[x, y], ...]``.

    Raises:
        ConfigError: There is none, or it is malformed.
    """
    path = Path(path)
    arrays = read_npz(path) if _kind(path) == ".npz" else _read_toml(path)
    if np.ravel(arrays.pop("format", -1)).tolist() != [FORMAT]:
        raise ConfigError(f"is no boundary of format {FORMAT}", path="format", source=path)
    try:
        return Boundary(list(arrays.values()))
    except EnvironmentUsageError as error:
        raise ConfigError(str(error), source=path) from error


def npz_bytes(arrays: dict[str, Any]) -> bytes:
    """Return arrays as the contents of an npz file."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def read_npz(path: Path) -> dict[str, Any]:
    """Return the arrays of an npz file; one that holds objects is refused.

    Raises:
        ConfigError: It cannot be read, or is damaged.
    """
    fail = partial(ConfigError, source=path)
    data = read_bytes(path, _MAX_BYTES, fail)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
                raise fail("cannot be read: it is compressed in a way that numpy does not use")
            if sum(member.file_size for member in members) > _MAX_BYTES:
                raise fail(f"is too large: its arrays have more than {_MAX_BYTES} bytes")
            return {member.filename.removesuffix(".npy"): _parse_npy(archive.read(member)) for member in members}
    except _DAMAGE as error:
        raise fail(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _parse_npy(data: bytes) -> NDArray[Any]:
    """Return the array of an npy file, whose header must describe no more than follows it.

    Raises:
        ValueError, SyntaxError, OverflowError: It is damaged, or holds objects.
    """
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


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that whoever looks finds the old one or the new one, never a part.

    Raises:
        ConfigError: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(f"cannot be written: {error.strerror}", source=path) from error


def _kind(path: Path) -> str:
    if path.suffix not in {".toml", ".npz"}:
        raise ConfigError("a boundary's file has to end in .toml or .npz", source=path)
    return path.suffix


def _toml(boundary: Boundary) -> str:
    lines = ["# The edge of a ground: corners x, y in m. A ring within a ring is a hole.", f"format = {FORMAT}"]
    for ring in boundary.rings:
        lines += ["", "[[rings]]", "points = [", *(f"  [{x!r}, {y!r}]," for x, y in ring.tolist()), "]"]
    return "\n".join(lines) + "\n"


def _read_toml(path: Path) -> dict[str, Any]:
    data = read_toml(path)
    rings = data.get("rings", [])
    if not isinstance(rings, list) or not all(isinstance(ring, dict) and "points" in ring for ring in rings):
        raise ConfigError("must be tables with points = [[x, y], ...]", path="rings", source=path)
    return {"format": data.get("format", -1), **{f"ring_{i}": ring["points"] for i, ring in enumerate(rings)}}
