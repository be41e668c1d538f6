"""A boundary and its distances as a picture, to see whether it is what one walked."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.boundary_file import write_whole
from soulslab.errors import MissingDependencyError

_DPI: Final = 110
_INK: Final = "#1b4965"


def draw_boundary(boundary: Boundary, path: str | Path, walk: ArrayLike | None = None, title: str = "") -> None:
    """Draw the distances, the edge, and the ways inwards.

    Args:
        boundary: What to draw.
        path: The PNG to write.
        walk: (N, 2) or (N, 3) positions that it was made from.
        title: Stands above it.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ConfigError: The picture cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (a second to import)
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "learn") from error
    low, high = boundary.limits_m
    extent = float((high - low).max())
    x, y, distances = boundary.field(extent / 160, 0.12 * extent)
    most = float(np.abs(distances).max())
    figure = Figure(figsize=(6.4, 5.4), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    shades = axes.contourf(x, y, distances, levels=np.linspace(-most, most, 25), cmap="RdBu")
    axes.contour(x, y, distances, levels=[0.0], colors=_INK, linewidths=2.0)
    step = max(1, len(x) // 18)
    grid = np.stack(np.meshgrid(x[::step], y[::step]), axis=-1)
    ways = boundary.normal(grid.reshape(-1, 2)).reshape(grid.shape)
    axes.quiver(grid[..., 0], grid[..., 1], ways[..., 0], ways[..., 1], color=_INK, alpha=0.45, width=0.0025)
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
    write_whole(Path(path), picture.getvalue())
