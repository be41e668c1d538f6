"""Saving, loading and drawing boundaries. Files are TOML, which people can edit, or npz, which is smaller."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from soulslab.config.loading import read_toml
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.npz_file import npz_bytes, read_npz, write_atomically
from soulslab.errors import ConfigError, EnvironmentUsageError, MissingDependencyError

FORMAT = 1
_DPI: Final = 110
_INK: Final = "#1b4965"


def save_boundary(boundary: Boundary, path: str | Path) -> None:
    """Write a boundary to a file atomically.

    Args:
        boundary: The boundary.
        path: File that ends in ``.toml`` or ``.npz``.

    Raises:
        ConfigError: The file cannot be written, or its name has another ending.
    """
    path = Path(path)
    if _checked_suffix(path) == ".npz":
        rings = {f"ring_{i}": ring for i, ring in enumerate(boundary.rings)}
        data = npz_bytes({"format": np.array([FORMAT]), **rings})
    else:
        data = _to_toml(boundary).encode()
    write_atomically(path, data)


def load_boundary(path: str | Path) -> Boundary:
    """Read a boundary from a file.

    A TOML file has ``format = 1`` and for each ring a table ``[[rings]]`` with ``points = [[x, y], ...]``.

    Raises:
        ConfigError: The file cannot be read, or is malformed.
    """
    path = Path(path)
    arrays = read_npz(path) if _checked_suffix(path) == ".npz" else _read_toml(path)
    if np.ravel(arrays.pop("format", -1)).tolist() != [FORMAT]:
        raise ConfigError(f"is not a boundary of format {FORMAT}", path="format", source=path)
    try:
        return Boundary(list(arrays.values()))
    except EnvironmentUsageError as error:
        raise ConfigError(str(error), source=path) from error


def draw_boundary(boundary: Boundary, path: str | Path, walk: ArrayLike | None = None, title: str = "") -> None:
    """Draw the edge, the signed distance to it, and the directions inwards.

    Args:
        boundary: The boundary.
        path: PNG file to write.
        walk: (N, 2) or (N, 3) positions in m from which the boundary was made, drawn as a line.
        title: Title of the picture.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ConfigError: The file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (takes 1 s to import)
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "learn") from error
    low, high = boundary.limits_m
    extent = float((high - low).max())
    x, y, distances = boundary.distance_grid(extent / 160, 0.12 * extent)
    most = float(np.abs(distances).max())
    figure = Figure(figsize=(6.4, 5.4), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    shades = axes.contourf(x, y, distances, levels=np.linspace(-most, most, 25), cmap="RdBu")
    axes.contour(x, y, distances, levels=[0.0], colors=_INK, linewidths=2.0)
    step = max(1, len(x) // 18)
    grid = np.stack(np.meshgrid(x[::step], y[::step]), axis=-1)
    normals = boundary.normal(grid.reshape(-1, 2)).reshape(grid.shape)
    axes.quiver(grid[..., 0], grid[..., 1], normals[..., 0], normals[..., 1], color=_INK, alpha=0.45, width=0.0025)
    if walk is not None:
        walked = np.asarray(walk, np.float64)
        axes.plot(walked[:, 0], walked[:, 1], color="black", linewidth=0.8, linestyle=":", label="walk")
        axes.legend(loc="upper right", fontsize=8)
    axes.set_aspect("equal")
    axes.set_xlabel("x (m)")
    axes.set_ylabel("y (m)")
    figure.colorbar(shades, ax=axes, label="distance to the edge (m), inside positive", shrink=0.85)
    if title:
        axes.set_title(title, fontsize=11)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(Path(path), picture.getvalue())


def _checked_suffix(path: Path) -> str:
    if path.suffix not in {".toml", ".npz"}:
        raise ConfigError("a boundary's file has to end in .toml or .npz", source=path)
    return path.suffix


def _to_toml(boundary: Boundary) -> str:
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
