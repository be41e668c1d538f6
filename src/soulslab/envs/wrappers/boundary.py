"""The boundary of a ground: signed distance to its edge, direction inwards, and how it is made from a recorded walk.

A boundary is one or more closed rings of corners. A point is on the ground if an odd number of rings surrounds it, so a
ring within a ring is a hole, such as a pillar. Distances are exact everywhere on the plane: they are measured to the
nearest point of the nearest edge, without a grid. Files of boundaries are TOML, which people can edit, or npz, which is
smaller.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import cv2
import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from soulslab.config.loading import read_toml
from soulslab.config.npz_file import npz_bytes, read_npz, write_atomically
from soulslab.errors import ConfigError, EnvironmentUsageError, did_you_mean, optional_imports

Points = NDArray[np.float64]

#: Points closer to an edge than this use the normal of the edge, because the direction from the edge is undefined.
_ON_EDGE_M = 1e-9
#: Points whose distances are computed at once; limits the memory that a large grid needs.
_CHUNK = 4096
#: Cells along the longer side of the grid on which the deepest points of the ground are searched.
_N_CELLS = 200
#: Factor for steps inwards, so that rounding errors do not end a step before its target.
_OVERSHOOT = 1.0 + 1e-6
_MAX_STEPS = 12
#: Format of the files.
FORMAT = 1
_DPI: Final = 110
_INK: Final = "#1b4965"
#: Most cells of the grid along one side. A larger walk is a mistake, such as positions that were read while the game
#: was loading.
_MAX_CELLS = 8000
#: OpenCV takes positions in sixteenths of a cell.
_SHIFT_BITS = 4


class Boundary:
    """The edge of a ground.

    Args:
        rings: (K, 2) corners x, y in m of each ring, in order; the last corner is joined to the first.

    Attributes:
        rings: The rings as read-only float64 arrays.
        limits_m: Smallest and largest x and y in m, (2,) each.

    Raises:
        EnvironmentUsageError: The list is empty, or a ring has fewer than three corners, no area, or a number that
            is not finite.
    """

    def __init__(self, rings: Sequence[ArrayLike]) -> None:
        self.rings = tuple(_checked_ring(ring, i) for i, ring in enumerate(rings))
        if not self.rings:
            raise EnvironmentUsageError("a boundary needs at least one ring of corners")
        self._from: Points = np.concatenate(self.rings)
        self.limits_m = self._from.min(axis=0), self._from.max(axis=0)
        self._to = np.concatenate([np.roll(ring, -1, axis=0) for ring in self.rings])
        self._along = self._to - self._from
        self._length_2 = np.maximum(np.square(self._along).sum(axis=1), np.finfo(np.float64).tiny)

    @classmethod
    def circle(cls, centre_m: ArrayLike, radius_m: float, n_corners: int = 180) -> Boundary:
        """Return a circular boundary; with 180 corners its error is less than 0.02 % of the radius."""
        angles = np.linspace(0.0, 2.0 * np.pi, n_corners, endpoint=False)
        return cls([np.asarray(centre_m) + radius_m * np.stack([np.cos(angles), np.sin(angles)], axis=1)])

    def distance(self, xy: ArrayLike) -> Any:
        """Return the distance to the edge from one position (2,) or N positions (N, 2), in m.

        It is a float or (N,) float64 in m: positive inside, negative outside.
        """
        return self.distance_and_normal(xy)[0]

    def normal(self, xy: ArrayLike) -> Points:
        """Return the directions inwards, in which `distance` increases fastest: unit vectors of the shape of `xy`."""
        return self.distance_and_normal(xy)[1]

    def distance_and_normal(self, xy: ArrayLike) -> tuple[Any, Points]:
        """Return `distance` and `normal`; faster than two calls."""
        given = np.asarray(xy, np.float64)
        if given.shape[-1:] != (2,) or given.ndim > 2:
            raise EnvironmentUsageError(f"positions must be (2,) or (N, 2) numbers x, y, not {given.shape}")
        points = given.reshape(-1, 2)
        nearest, edges, is_inside = self._find_nearest(points)
        normals = points - nearest
        lengths = np.hypot(normals[:, 0], normals[:, 1])
        sides = np.where(is_inside, 1.0, -1.0)
        distances = sides * lengths
        on_edge = lengths < _ON_EDGE_M
        if on_edge.any():
            normals[on_edge] = self._edge_normals(nearest[on_edge], edges[on_edge]) * sides[on_edge, None]
            lengths[on_edge] = 1.0
        normals *= (sides / lengths)[:, None]
        return (float(distances[0]), normals[0]) if given.ndim == 1 else (distances, normals)

    def nearest_inside(self, xy: ArrayLike, margin_m: float) -> Points:
        """Return the nearest position that is at least ``margin_m`` from every edge, (2,) in m.

        A position that is already far enough from the edges is returned unchanged. The result is exact, except at
        corners and on narrow ground, where it is the nearest position of a grid.

        Raises:
            EnvironmentUsageError: No position has this distance from the edges.
        """
        position = np.array(xy, np.float64).reshape(2)
        if self.distance(position) >= margin_m:
            return position
        # Follow the normal inwards from the nearest point of the edge. At a corner this takes a few steps.
        near: Points = self._find_nearest(position[None])[0][0] + self.normal(position) * margin_m * _OVERSHOOT
        for _ in range(_MAX_STEPS):
            distance_m, normal = self.distance_and_normal(near)
            if distance_m >= margin_m:
                return near
            near += normal * (margin_m - distance_m) * _OVERSHOOT
        cells, depths = self._depths
        deep = cells[depths >= margin_m]
        if not len(deep):
            raise EnvironmentUsageError(
                f"no position is {margin_m} m from the boundary's edges; the largest distance is {self.depth_m:.2f} m"
            )
        closest: Points = deep[np.argmin(np.square(deep - position).sum(axis=1))].copy()
        return closest

    @property
    def depth_m(self) -> float:
        """Largest distance from the edge inside, in m; accurate to 1/200 of the ground's extent."""
        return float(self._depths[1].max())

    def distance_grid(self, cell_m: float, around_m: float = 2.0) -> tuple[Points, Points, Points]:
        """Return x (W,), y (H,) and the distances (H, W) in m on a grid with a margin around the boundary."""
        low, high = self.limits_m
        x, y = (np.arange(low[i] - around_m, high[i] + around_m + cell_m, cell_m) for i in range(2))
        grid = np.stack(np.meshgrid(x, y), axis=-1)
        return x, y, self.distance(grid.reshape(-1, 2)).reshape(len(y), len(x))

    @cached_property
    def _depths(self) -> tuple[Points, Points]:
        low, high = self.limits_m
        x, y, depths = self.distance_grid(float((high - low).max()) / _N_CELLS, 0.0)
        return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), depths.ravel()

    def _find_nearest(self, points: Points) -> tuple[Points, NDArray[np.int64], NDArray[np.bool_]]:
        """Return for each point the nearest point on an edge, the index of this edge, and whether it is inside."""
        if len(points) <= _CHUNK:
            return self._find_nearest_in_chunk(points)
        parts = [self._find_nearest_in_chunk(points[i : i + _CHUNK]) for i in range(0, len(points), _CHUNK)]
        nearest, edges, is_inside = (np.concatenate(part) for part in zip(*parts, strict=True))
        return nearest, edges, is_inside

    def _find_nearest_in_chunk(self, points: Points) -> tuple[Points, NDArray[np.int64], NDArray[np.bool_]]:
        # x and y are separate (N, S) arrays, for S edges.
        (ax, ay), (dx, dy) = self._from.T, self._along.T
        rx, ry = points[:, :1] - ax, points[:, 1:] - ay
        along = np.clip((rx * dx + ry * dy) / self._length_2, 0.0, 1.0)
        edges = np.argmin(np.square(rx - along * dx) + np.square(ry - along * dy), axis=1)
        rows = np.arange(len(points))
        nearest = self._from[edges] + along[rows, edges][:, None] * self._along[edges]
        # A ray from an inner point towards larger x crosses the rings an odd number of times. The y of corners are
        # compared directly, not as differences, so that rounding cannot put a corner on different sides for its two
        # edges.
        y, to_y = points[:, 1:], self._to[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            is_crossed = ((ay > y) != (to_y > y)) & (rx < dx * ry / dy)
        return nearest, edges, is_crossed.sum(axis=1) % 2 == 1

    def _edge_normals(self, points: Points, edges: NDArray[np.int64]) -> Points:
        """Return the normals of edges, which point inwards, at points on these edges."""
        along = self._along[edges]
        across: Points = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.sqrt(self._length_2[edges])[:, None]
        low, high = self.limits_m
        step = 1e-6 * float((high - low).max())
        is_inside = self._find_nearest(points + step * across)[2]
        across[~is_inside] *= -1.0
        return across


def _checked_ring(ring: ArrayLike, index: int) -> Points:
    try:
        corners = np.array(ring, np.float64)
    except (TypeError, ValueError) as error:
        raise EnvironmentUsageError(f"rings[{index}]: corners must be pairs of numbers: {error}") from error
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3:
        raise EnvironmentUsageError(f"rings[{index}] must be (K, 2) corners, K at least 3, not {corners.shape}")
    if not np.isfinite(corners).all():
        raise EnvironmentUsageError(f"rings[{index}]: every corner must be finite")
    if len(corners) > 3 and (corners[0] == corners[-1]).all():
        corners = corners[:-1]  # the ring repeats its first corner at the end
    x, y = (corners - corners.mean(axis=0)).T
    if abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) < 1e-9:
        raise EnvironmentUsageError(f"rings[{index}] surrounds no area")
    corners.setflags(write=False)
    return corners


def save_boundary(boundary: Boundary, path: str | Path) -> None:
    """Write a boundary atomically to a file that ends in ``.toml`` or ``.npz``.

    Raises:
        ConfigError: The file cannot be written, or its name has another ending.
    """
    path = Path(path)
    if _checked_suffix(path) == ".npz":
        rings = {f"ring_{i}": ring for i, ring in enumerate(boundary.rings)}
        data = npz_bytes({"format": np.array([FORMAT]), **rings})
    else:
        lines = ["# The edge of a ground: corners x, y in m. A ring within a ring is a hole.", f"format = {FORMAT}"]
        for ring in boundary.rings:
            lines += ["", "[[rings]]", "points = [", *(f"  [{x!r}, {y!r}]," for x, y in ring.tolist()), "]"]
        data = "\n".join([*lines, ""]).encode()
    write_atomically(path, data)


def load_boundary(path: str | Path) -> Boundary:
    """Read a boundary from a file.

    A TOML file has ``format = 1`` and for each ring a table ``[[rings]]`` with ``points = [[x, y], ...]``.

    Raises:
        ConfigError: The file cannot be read, or is malformed.
    """
    path = Path(path)
    arrays = read_npz(path, partial(ConfigError, source=path)) if _checked_suffix(path) == ".npz" else _read_toml(path)
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
    with optional_imports():
        from matplotlib.figure import Figure  # noqa: PLC0415 (takes 1 s to import)
    low, high = boundary.limits_m
    extent = float((high - low).max())
    x, y, distances = boundary.distance_grid(extent / 160, 0.12 * extent)
    most = float(np.abs(distances).max())
    figure = Figure(figsize=(6.4, 5.4), dpi=_DPI, layout="constrained")
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


def _read_toml(path: Path) -> dict[str, Any]:
    data = read_toml(path)
    rings = data.get("rings", [])
    if not isinstance(rings, list) or not all(isinstance(ring, dict) and "points" in ring for ring in rings):
        raise ConfigError("must be tables with points = [[x, y], ...]", path="rings", source=path)
    return {"format": data.get("format", -1), **{f"ring_{i}": ring["points"] for i, ring in enumerate(rings)}}


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
        EnvironmentUsageError: The walk has no position, is too wide for the grid, or its positions are too far apart.
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
    if len(breaks) and len(breaks) == len(cells) - 1:
        raise EnvironmentUsageError(
            f"no two consecutive positions of the walk are within jump_m ({options.jump_m} m) of each other; record "
            f"more positions per second, or increase jump_m"
        )
    thickness = max(1, round(2 * options.reach_m / options.cell_m))
    for part in np.split(shifted, breaks):
        if len(part) == 1:  # OpenCV draws no line through one point
            part = np.repeat(part, 2, axis=0)  # noqa: PLW2901
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
