"""Boundaries on the disk: TOML, which people can write, or npz, which is small. No pickle in either."""

from __future__ import annotations

import io
import os
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from soulslab.envs.wrappers.boundary import Boundary
from soulslab.errors import ConfigError, EnvironmentUsageError

FORMAT = 1


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
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file.items())
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", source=path) from error


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
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", source=path) from error
    rings = data.get("rings", [])
    if not isinstance(rings, list) or not all(isinstance(ring, dict) and "points" in ring for ring in rings):
        raise ConfigError("must be tables with points = [[x, y], ...]", path="rings", source=path)
    return {"format": data.get("format", -1), **{f"ring_{i}": ring["points"] for i, ring in enumerate(rings)}}
