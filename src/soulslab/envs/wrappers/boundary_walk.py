"""A boundary from where somebody walked: along the edge, or all over the ground."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from soulslab.envs.wrappers.boundary import Boundary, Points
from soulslab.errors import EnvironmentUsageError, MissingDependencyError, did_you_mean

#: A grid of more cells than this on a side is a mistake: a position in other units, or one that was read while loading.
_MOST_CELLS = 8000


class WalkOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a walk becomes ground.

    Attributes:
        reach_m: So far to either side of the walk is ground as well.
        bridge_m: Gaps between strips of the walk that are narrower than this are ground, too; so an edge that was not
            walked quite round is closed.
        jump_m: Two points in a row that are farther apart are not joined: a teleport.
        cell_m: Of the grid on which it is worked out; also how far the edge may be off.
        hole_m2: Places within that were never walked on are holes if they are at least so large; smaller ones are
            ground. The default knows no holes: walking once round the edge is enough.
    """

    reach_m: float = 0.5
    bridge_m: float = 1.5
    jump_m: float = 3.0
    cell_m: float = 0.1
    hole_m2: float = float("inf")

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that makes no sense."""
        for name in ("reach_m", "jump_m", "cell_m", "hole_m2"):
            if not getattr(self, name) > 0.0:
                raise EnvironmentUsageError(f"{name} must be greater than 0, not {getattr(self, name)}")
        if not self.bridge_m >= 0.0:
            raise EnvironmentUsageError(f"bridge_m must be 0 or more, not {self.bridge_m}")


def boundary_of_walk(walk: ArrayLike, options: WalkOptions | None = None) -> Boundary:
    """Return the edge of where somebody walked.

    Of several grounds that the walk does not join, the largest counts.

    Args:
        walk: (N, 2) or (N, 3) positions x, y (and height, which is not used) in the order of the walk, m. Positions
            that are not finite are left out.
        options: How it becomes ground.

    Raises:
        EnvironmentUsageError: There is no walk, or it is too wide for the grid.
    """
    options = options or WalkOptions()
    options.check()
    points = _points(walk)
    margin_m = options.reach_m + options.bridge_m + 2 * options.cell_m
    low = points.min(axis=0) - margin_m
    extent = points.max(axis=0) + margin_m - low
    if extent.max() / options.cell_m > _MOST_CELLS:
        raise EnvironmentUsageError(
            f"the walk is {extent[0]:.0f} x {extent[1]:.0f} m wide, too much for cells of {options.cell_m} m; "
            f"use larger ones, or look for positions that are wrong"
        )
    ground = _ground((points - low) / options.cell_m, extent, options)
    return Boundary([ring * options.cell_m + low for ring in _rings(ground)])


def boundary_of_recording(
    path: str | Path,
    attributes: Sequence[str] = ("player.position",),
    axes: str = "xzy",
    options: WalkOptions | None = None,
) -> Boundary:
    """Return the edge of where somebody walked in a recording (``soulslab siphon record``).

    Args:
        path: The recording.
        attributes: One attribute of three numbers, or two of one: x and y.
        axes: What the one attribute holds, in order, as in the profile's ``[duel]`` table; z is the height.
        options: How it becomes ground.

    Raises:
        RecordingError: It cannot be read.
        EnvironmentUsageError: It has no such attribute, or see `boundary_of_walk`.
    """
    try:
        from soulslab.siphon.recording.reading import read_recording  # noqa: PLC0415 (needs h5py)
    except ImportError as error:
        raise MissingDependencyError("h5py", "siphon") from error
    recording = read_recording(Path(path), with_frames=False)
    for name in attributes:
        if name not in recording.attributes:
            raise EnvironmentUsageError(
                f"{path} has no attribute {name!r}{did_you_mean(name, list(recording.attributes))}"
            )
    columns = [np.asarray(recording.attributes[name], np.float64) for name in attributes]
    if len(columns) == 1 and sorted(axes) == ["x", "y", "z"] and columns[0].ndim == 2 and columns[0].shape[1] == 3:
        walk = columns[0][:, [axes.index("x"), axes.index("y")]]
    elif len(columns) == 2 and all(column.ndim == 1 for column in columns):
        walk = np.stack(columns, axis=1)
    else:
        raise EnvironmentUsageError(
            f"attributes must be one of three numbers, with axes such as 'xzy', or two of one number, not "
            f"{', '.join(f'{name} {column.shape}' for name, column in zip(attributes, columns, strict=True))}"
        )
    lost = np.any([recording.unreadable[name] for name in attributes], axis=0)
    return boundary_of_walk(walk[~lost], options)


def _points(walk: ArrayLike) -> Points:
    points = np.asarray(walk, np.float64)
    if points.ndim != 2 or points.shape[1] not in {2, 3}:
        raise EnvironmentUsageError(f"a walk must be (N, 2) or (N, 3) positions, not {points.shape}")
    points = points[np.isfinite(points).all(axis=1), :2]
    if not len(points):
        raise EnvironmentUsageError("the walk has no position that can be used")
    return points


def _ground(cells: Points, extent: Points, options: WalkOptions) -> NDArray[np.uint8]:
    """Return the ground as a picture, 1 where it is; ``cells`` are the walk's positions in it."""
    width, height = (int(np.ceil(side / options.cell_m)) + 1 for side in extent)
    picture = np.zeros((height, width), np.uint8)
    n_fine = 16  # sixteenths of a cell, which OpenCV calls a shift of 4
    fine = np.round(cells * n_fine).astype(np.int32)
    breaks = np.flatnonzero(np.hypot(*np.diff(cells, axis=0).T) * options.cell_m > options.jump_m) + 1
    thickness = max(1, round(2 * options.reach_m / options.cell_m))
    for part in np.split(fine, breaks):
        cv2.polylines(picture, [part.reshape(-1, 1, 2)], False, 1, thickness, cv2.LINE_8, 4)
    return _bridged(picture, options)


def _bridged(walked: NDArray[np.uint8], options: WalkOptions) -> NDArray[np.uint8]:
    """Return the ground with its gaps closed: grown by half a gap, filled, and shrunk again."""
    half = 0.5 * options.bridge_m / options.cell_m
    grown = (_distances(1 - walked) <= half).astype(np.uint8)
    contours, _ = cv2.findContours(grown, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(walked)
    cv2.drawContours(filled, [max(contours, key=cv2.contourArea)], 0, 1, cv2.FILLED)
    ground = (_distances(filled) > half).astype(np.uint8)
    holes = ground & (_distances(grown) <= half)
    n_parts, parts, facts, _ = cv2.connectedComponentsWithStats(holes.astype(np.uint8))
    for part in range(1, n_parts):
        if facts[part, cv2.CC_STAT_AREA] * options.cell_m**2 >= options.hole_m2:
            ground[parts == part] = 0
    return ground


def _distances(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return how far each cell is from the nearest 0, in cells."""
    return cv2.distanceTransform(picture, cv2.DIST_L2, cv2.DIST_MASK_PRECISE).astype(np.float32)


def _rings(ground: NDArray[np.uint8]) -> list[Points]:
    """Return the outer edge of the largest part, and those of its holes."""
    contours, families = cv2.findContours(ground, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    parents = families[0][:, 3]
    outer = max((i for i in range(len(contours)) if parents[i] < 0), key=lambda i: cv2.contourArea(contours[i]))
    holes = [i for i in range(len(contours)) if parents[i] == outer]
    # Half a cell is what the grid does not know anyway; without it each stair would be a corner.
    smooth = [cv2.approxPolyDP(contours[i], 0.75, True).reshape(-1, 2).astype(np.float64) for i in (outer, *holes)]
    return [ring for ring in smooth if len(ring) >= 3]
