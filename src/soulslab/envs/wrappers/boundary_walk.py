"""Making a boundary from a recorded walk along the edge of a ground, or all over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from soulslab.envs.wrappers.boundary import Boundary, Points
from soulslab.errors import EnvironmentUsageError, did_you_mean, optional_imports

#: Most cells of the grid along one side. A larger walk is a mistake, such as positions that were read while the game
#: was loading.
_MAX_CELLS = 8000
#: OpenCV takes positions in sixteenths of a cell.
_SHIFT_BITS = 4


class WalkOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options for making a boundary from a walk.

    Attributes:
        reach_m: Ground extends this far to either side of the walk.
        bridge_m: Gaps between strips of the walk that are narrower than this become ground. This also closes a walk
            round the edge that does not quite end where it began.
        jump_m: Two consecutive positions that are farther apart are not joined; the player was teleported.
        cell_m: Cell size of the grid, which is also the accuracy of the edge.
        hole_m2: Smallest area without a walk that becomes a hole; smaller areas become ground. By default there are no
            holes, so one walk round the edge is enough.
    """

    reach_m: float = 0.5
    bridge_m: float = 1.5
    jump_m: float = 3.0
    cell_m: float = 0.1
    hole_m2: float = float("inf")

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is out of range."""
        for name in ("reach_m", "jump_m", "cell_m", "hole_m2"):
            if not getattr(self, name) > 0.0:
                raise EnvironmentUsageError(f"{name} must be greater than 0, not {getattr(self, name)}")
        if not self.bridge_m >= 0.0:
            raise EnvironmentUsageError(f"bridge_m must be 0 or more, not {self.bridge_m}")


def boundary_of_walk(walk: ArrayLike, options: WalkOptions | None = None) -> Boundary:
    """Return the boundary of the ground on which a player walked.

    If the walk has several separate parts, the largest one is used.

    Args:
        walk: (N, 2) or (N, 3) positions x, y (and height, which is ignored) in m, in the order of the walk. Positions
            that are not finite are ignored.
        options: Widths, gaps and grid; None uses the defaults.

    Raises:
        EnvironmentUsageError: The walk has no position, or is too wide for the grid.
    """
    options = options or WalkOptions()
    options.check()
    points = _points(walk)
    margin_m = options.reach_m + options.bridge_m + 2 * options.cell_m
    low = points.min(axis=0) - margin_m
    extent = points.max(axis=0) + margin_m - low
    if extent.max() / options.cell_m > _MAX_CELLS:
        raise EnvironmentUsageError(
            f"the walk is {extent[0]:.0f} x {extent[1]:.0f} m wide, too much for cells of {options.cell_m} m; "
            f"increase cell_m, or remove wrong positions"
        )
    ground = _draw_ground((points - low) / options.cell_m, extent, options)
    return Boundary([ring * options.cell_m + low for ring in _rings(ground)])


def boundary_of_recording(
    path: str | Path,
    attributes: Sequence[str] = ("player.position",),
    axes: str = "xzy",
    options: WalkOptions | None = None,
) -> Boundary:
    """Return the boundary of the ground on which a player walked in a recording (``soulslab siphon record``).

    Args:
        path: The recording.
        attributes: One attribute with three numbers, or the two attributes of x and y.
        axes: Order of the three numbers, as in the profile's ``[duel]`` table; z is the height.
        options: See `boundary_of_walk`.

    Raises:
        RecordingError: The recording cannot be read.
        EnvironmentUsageError: An attribute is missing or has another shape, or the walk has no position or is too
            wide.
    """
    with optional_imports():
        from soulslab.siphon.recording.reading import read_recording  # noqa: PLC0415 (needs h5py)
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
            f"attributes must be one with three numbers and axes such as 'xzy', or two with one number each, not "
            f"{', '.join(f'{name} {column.shape}' for name, column in zip(attributes, columns, strict=True))}"
        )
    is_unreadable = np.any([recording.unreadable[name] for name in attributes], axis=0)
    return boundary_of_walk(walk[~is_unreadable], options)


def _points(walk: ArrayLike) -> Points:
    points = np.asarray(walk, np.float64)
    if points.ndim != 2 or points.shape[1] not in {2, 3}:
        raise EnvironmentUsageError(f"a walk must be (N, 2) or (N, 3) positions, not {points.shape}")
    points = points[np.isfinite(points).all(axis=1), :2]
    if not len(points):
        raise EnvironmentUsageError("the walk has no finite position")
    return points


def _draw_ground(cells: Points, extent: Points, options: WalkOptions) -> NDArray[np.uint8]:
    """Return the ground as a picture, 1 on the ground and 0 elsewhere, given the walk in cells and the extent in m."""
    width, height = (int(np.ceil(side / options.cell_m)) + 1 for side in extent)
    picture = np.zeros((height, width), np.uint8)
    shifted = np.round(cells * (1 << _SHIFT_BITS)).astype(np.int32)
    breaks = np.flatnonzero(np.hypot(*np.diff(cells, axis=0).T) * options.cell_m > options.jump_m) + 1
    thickness = max(1, round(2 * options.reach_m / options.cell_m))
    for part in np.split(shifted, breaks):
        cv2.polylines(picture, [part.reshape(-1, 1, 2)], False, 1, thickness, cv2.LINE_8, _SHIFT_BITS)
    return _close_gaps(picture, options)


def _close_gaps(walked: NDArray[np.uint8], options: WalkOptions) -> NDArray[np.uint8]:
    """Return the ground with closed gaps: grown by half a gap, filled, and shrunk by half a gap."""
    half = 0.5 * options.bridge_m / options.cell_m
    grown = (_distances_to_zero(1 - walked) <= half).astype(np.uint8)
    contours, _ = cv2.findContours(grown, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(walked)
    cv2.drawContours(filled, [max(contours, key=cv2.contourArea)], 0, 1, cv2.FILLED)
    ground = (_distances_to_zero(filled) > half).astype(np.uint8)
    holes = ground & (_distances_to_zero(grown) <= half)
    n_parts, parts, statistics, _ = cv2.connectedComponentsWithStats(holes.astype(np.uint8))
    for part in range(1, n_parts):
        if statistics[part, cv2.CC_STAT_AREA] * options.cell_m**2 >= options.hole_m2:
            ground[parts == part] = 0
    return ground


def _distances_to_zero(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the distance from each cell to the nearest cell with 0, in cells."""
    return cv2.distanceTransform(picture, cv2.DIST_L2, cv2.DIST_MASK_PRECISE).astype(np.float32)


def _rings(ground: NDArray[np.uint8]) -> list[Points]:
    """Return the outer edge of the largest part, and the edges of its holes, in cells."""
    contours, hierarchy = cv2.findContours(ground, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    parents = hierarchy[0][:, 3]
    outer = max((i for i in range(len(contours)) if parents[i] < 0), key=lambda i: cv2.contourArea(contours[i]))
    holes = [i for i in range(len(contours)) if parents[i] == outer]
    # Smooth by less than a cell, the accuracy of the grid; otherwise each step of the contour would be a corner.
    smooth = [cv2.approxPolyDP(contours[i], 0.75, True).reshape(-1, 2).astype(np.float64) for i in (outer, *holes)]
    return [ring for ring in smooth if len(ring) >= 3]
