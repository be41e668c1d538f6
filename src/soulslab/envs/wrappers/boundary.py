"""Where the ground of a fight ends, as a signed distance: how far it is to the edge, and which way is back.

A boundary is one or more closed rings of corners; what an odd number of rings surrounds is ground (so a ring within a
ring is a hole, such as a pillar). Distances are exact, to the nearest point of the nearest edge, everywhere on the
plane; nothing is rounded to a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from soulslab.errors import EnvironmentUsageError

Points = NDArray[np.float64]

#: Nearer to an edge than this, the way inwards is the edge's own, not the way from it.
_ON_EDGE_M = 1e-9
#: Points whose distances are worked out at once, so that a large field needs no large memory.
_CHUNK = 4096
#: Cells along the longer side of the grid on which the depths of the ground are searched.
_N_CELLS = 200
_A_LITTLE_MORE = 1.0 + 1e-6
_MAX_STEPS = 12


class Boundary:
    """The edge of a ground.

    Args:
        rings: Each (K, 2) corners x, y in m, in order; the last is joined to the first.

    Attributes:
        rings: The same, read-only.

    Raises:
        EnvironmentUsageError: There is no ring, or one has fewer than three corners, no area, or a number that is not
            finite.
    """

    def __init__(self, rings: Sequence[ArrayLike]) -> None:
        self.rings = tuple(_checked(ring, place) for place, ring in enumerate(rings))
        if not self.rings:
            raise EnvironmentUsageError("a boundary needs at least one ring of corners")
        self._from = np.concatenate(self.rings)
        self._to = np.concatenate([np.roll(ring, -1, axis=0) for ring in self.rings])
        self._along = self._to - self._from
        self._length_2 = np.maximum(np.square(self._along).sum(axis=1), np.finfo(np.float64).tiny)

    @classmethod
    def circle(cls, centre_m: ArrayLike, radius_m: float, n_corners: int = 180) -> Boundary:
        """Return a round boundary; with 180 corners it is off by less than 0.02 % of the radius."""
        angles = np.linspace(0.0, 2.0 * np.pi, n_corners, endpoint=False)
        return cls([np.asarray(centre_m) + radius_m * np.stack([np.cos(angles), np.sin(angles)], axis=1)])

    @property
    def limits_m(self) -> tuple[Points, Points]:
        """Least and greatest x and y, (2,) each."""
        return self._from.min(axis=0), self._from.max(axis=0)

    def distance(self, xy: ArrayLike) -> Any:
        """Return how far it is to the edge.

        Args:
            xy: (2,) one place or (N, 2) places, m.

        Returns:
            A float or (N,) float64, m: positive inside, negative outside.
        """
        return self.sense(xy)[0]

    def normal(self, xy: ArrayLike) -> Points:
        """Return the way inwards: the way in which `distance` grows fastest.

        Args:
            xy: (2,) one place or (N, 2) places, m.

        Returns:
            Unit vectors of the same shape.
        """
        return self.sense(xy)[1]

    def sense(self, xy: ArrayLike) -> tuple[Any, Points]:
        """Return `distance` and `normal` for the price of one."""
        places, is_one = _places(xy)
        nearest, edges, is_inside = self._look(places)
        ways = places - nearest
        lengths = np.hypot(ways[:, 0], ways[:, 1])
        sides = np.where(is_inside, 1.0, -1.0)
        distances = sides * lengths
        on_edge = lengths < _ON_EDGE_M
        if on_edge.any():
            ways[on_edge] = self._inwards(nearest[on_edge], edges[on_edge]) * sides[on_edge, None]
            lengths[on_edge] = 1.0
        ways *= (sides / lengths)[:, None]
        return (float(distances[0]), ways[0]) if is_one else (distances, ways)

    def nearest_inside(self, xy: ArrayLike, margin_m: float) -> Points:
        """Return the nearest place that is at least ``margin_m`` from every edge, (2,) m; the place itself if it is.

        It is exact but for corners and narrow ground, where it is the nearest on a grid.

        Raises:
            EnvironmentUsageError: No place is so far from the edges.
        """
        place = np.array(xy, np.float64).reshape(2)
        if self.distance(place) >= margin_m:
            return place
        # Up the slope from the nearest point of the edge; at a corner that leads past it in a few steps.
        near: Points = self._look(place[None])[0][0] + self.normal(place) * margin_m * _A_LITTLE_MORE
        for _ in range(_MAX_STEPS):
            distance_m, way = self.sense(near)
            if distance_m >= margin_m:
                return near
            near += way * (margin_m - distance_m) * _A_LITTLE_MORE
        cells, depths = self._depths
        deep = cells[depths >= margin_m]
        if not len(deep):
            raise EnvironmentUsageError(
                f"no place is {margin_m} m from the boundary's edges; the deepest is {self.depth_m:.2f} m from them"
            )
        closest: Points = deep[np.argmin(np.square(deep - place).sum(axis=1))].copy()
        return closest

    @property
    def depth_m(self) -> float:
        """How far from the edge one can be inside, to within a 200th of the ground's extent."""
        return float(self._depths[1].max())

    def field(self, cell_m: float, around_m: float = 2.0) -> tuple[Points, Points, Points]:
        """Return the distances on a grid, for pictures.

        Args:
            cell_m: Between two places.
            around_m: How far beyond the boundary's limits.

        Returns:
            x (W,), y (H,) and the distances (H, W), all m.
        """
        low, high = self.limits_m
        x, y = (np.arange(low[i] - around_m, high[i] + around_m + cell_m, cell_m) for i in range(2))
        grid = np.stack(np.meshgrid(x, y), axis=-1)
        return x, y, self.distance(grid.reshape(-1, 2)).reshape(len(y), len(x))

    @cached_property
    def _depths(self) -> tuple[Points, Points]:
        low, high = self.limits_m
        x, y, depths = self.field(float((high - low).max()) / _N_CELLS, 0.0)
        return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), depths.ravel()

    def _look(self, places: Points) -> tuple[Points, NDArray[np.int64], NDArray[np.bool_]]:
        """Return the nearest point of the edge, which edge that is, and whether the places are inside."""
        if len(places) <= _CHUNK:
            return self._look_at(places)
        parts = [self._look_at(places[i : i + _CHUNK]) for i in range(0, len(places), _CHUNK)]
        nearest, edges, is_inside = (np.concatenate(part) for part in zip(*parts, strict=True))
        return nearest, edges, is_inside

    def _look_at(self, places: Points) -> tuple[Points, NDArray[np.int64], NDArray[np.bool_]]:
        # x and y apart: rows of (N, S) numbers, S edges.
        (ax, ay), (dx, dy) = self._from.T, self._along.T
        rx, ry = places[:, :1] - ax, places[:, 1:] - ay
        along = np.clip((rx * dx + ry * dy) / self._length_2, 0.0, 1.0)
        edges = np.argmin(np.square(rx - along * dx) + np.square(ry - along * dy), axis=1)
        rows = np.arange(len(places))
        nearest = self._from[edges] + along[rows, edges][:, None] * self._along[edges]
        # A ray towards greater x crosses the rings an odd number of times from within. Each corner's own y is compared,
        # not a difference, so that the two edges that meet there agree on which side it lies.
        y, to_y = places[:, 1:], self._to[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            is_crossed = ((ay > y) != (to_y > y)) & (rx < dx * ry / dy)
        return nearest, edges, is_crossed.sum(axis=1) % 2 == 1

    def _inwards(self, points: Points, edges: NDArray[np.int64]) -> Points:
        """Return the edges' own ways inwards at points on them."""
        along = self._along[edges]
        across: Points = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.sqrt(self._length_2[edges])[:, None]
        low, high = self.limits_m
        step = 1e-6 * float((high - low).max())
        is_inside = self._look(points + step * across)[2]
        across[~is_inside] *= -1.0
        return across


def _places(xy: ArrayLike) -> tuple[Points, bool]:
    """Return places as (N, 2), and whether there was just one."""
    places = np.asarray(xy, np.float64)
    if places.shape[-1:] != (2,) or places.ndim > 2:
        raise EnvironmentUsageError(f"places must be (2,) or (N, 2) numbers x, y, not {places.shape}")
    return places.reshape(-1, 2), places.ndim == 1


def _checked(ring: ArrayLike, place: int) -> Points:
    try:
        corners = np.array(ring, np.float64)
    except (TypeError, ValueError) as error:
        raise EnvironmentUsageError(f"rings[{place}]: corners must be pairs of numbers: {error}") from error
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3:
        raise EnvironmentUsageError(f"rings[{place}] must be (K, 2) corners, K at least 3, not {corners.shape}")
    if not np.isfinite(corners).all():
        raise EnvironmentUsageError(f"rings[{place}]: every corner must be finite")
    if len(corners) > 3 and (corners[0] == corners[-1]).all():
        corners = corners[:-1]  # closed by its own account
    x, y = (corners - corners.mean(axis=0)).T
    if abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) < 1e-9:
        raise EnvironmentUsageError(f"rings[{place}] surrounds no area")
    checked: Points = corners
    checked.setflags(write=False)
    return checked
