"""Rectangles on a screen."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

Rectangle: TypeAlias = tuple[int, int, int, int]
"""Left, top, width and height in pixels; width and height 0 if it is empty."""


def overlap(one: Rectangle, other: Rectangle) -> Rectangle:
    """Return the intersection of two rectangles; its width or height is 0 if it is empty."""
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right, bottom = min(one[0] + one[2], other[0] + other[2]), min(one[1] + one[3], other[1] + other[3])
    return (left, top, max(right - left, 0), max(bottom - top, 0))


def contains(outer: Rectangle, inner: Rectangle) -> bool:
    """Return whether one rectangle contains another."""
    return overlap(outer, inner) == inner


def bounds(parts: Collection[Rectangle]) -> Rectangle:
    """Return the smallest rectangle around all; an empty one around none."""
    if not parts:
        return (0, 0, 0, 0)
    left, top = min(part[0] for part in parts), min(part[1] for part in parts)
    right, bottom = max(part[0] + part[2] for part in parts), max(part[1] + part[3] for part in parts)
    return (left, top, right - left, bottom - top)


def around(width_px: int, height_px: int) -> tuple[Rectangle, ...]:
    """Return four rectangles that cover the plane except a screen of this size."""
    far = 1 << 16  # beyond X's coordinates
    return (
        (-far, -far, far, 3 * far),
        (width_px, -far, far, 3 * far),
        (-far, -far, 3 * far, far),
        (-far, height_px, 3 * far, far),
    )
