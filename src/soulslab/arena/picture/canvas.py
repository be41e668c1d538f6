"""Drawing in metres: antialiased, translucent shapes at sub-pixel positions.

Positions are arrays (K, 2) of x (right) and y (up) in metres; colours are (red, green, blue), 0 to 255.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

Image: TypeAlias = NDArray[np.uint8]
Points: TypeAlias = NDArray[np.float64]
Colour: TypeAlias = tuple[int, int, int]

#: Fractional bits of OpenCV's fixed-point pixel coordinates.
_SHIFT = 4
_OUTLINE: Colour = (14, 12, 16)


class Canvas:
    """An image (H, W, 3) uint8, drawn on in place; ``centre_m`` of the ground is at the pixel ``middle_px``."""

    def __init__(
        self, image: Image, centre_m: tuple[float, float], middle_px: tuple[float, float], px_per_m: float
    ) -> None:
        self.image = image
        self.px_per_m = px_per_m
        self._scale = np.array([px_per_m, -px_per_m])
        self._zero = np.array(middle_px) - np.array(centre_m) * self._scale

    def fill(self, points: Points, colour: Colour, alpha: float = 1.0) -> None:
        """Fill a polygon; ``alpha`` is its opacity, 0 to 1."""
        self._draw(self._pixels(points), colour, alpha, 0, is_closed=True)

    def line(
        self, points: Points, colour: Colour, width_m: float, alpha: float = 1.0, *, is_closed: bool = False
    ) -> None:
        """Draw a line through the points, at least one pixel wide."""
        width_px = max(round(width_m * self.px_per_m), 1)
        self._draw(self._pixels(points), colour, alpha, width_px, is_closed=is_closed)

    def solid(self, points: Points, colour: Colour, alpha: float = 1.0) -> None:
        """Fill a polygon and draw a dark outline, for a piece of armour or a limb."""
        self.fill(points, colour, alpha)
        self.line(points, _OUTLINE, 0.035, alpha * 0.9, is_closed=True)

    def glow(self, x: float, y: float, radius: float, colour: Colour, alpha: float) -> None:
        """Draw a soft round glow."""
        for share in (1.0, 0.72, 0.45):
            self.fill(disc(x, y, radius * share), colour, alpha * 0.45)

    def _pixels(self, points: Points) -> NDArray[np.int32]:
        pixels = (points * self._scale + self._zero) * (1 << _SHIFT)
        return np.rint(pixels).astype(np.int32)

    def _draw(self, pixels: NDArray[np.int32], colour: Colour, alpha: float, width_px: int, *, is_closed: bool) -> None:
        if alpha <= 0.0:
            return
        height, width = self.image.shape[:2]
        margin = width_px + 2
        left, top = (pixels.min(axis=0) >> _SHIFT) - margin
        right, bottom = (pixels.max(axis=0) >> _SHIFT) + margin
        left, top, right, bottom = max(left, 0), max(top, 0), min(right, width), min(bottom, height)
        if left >= right or top >= bottom:
            return
        # Only the part of the image that the shape covers is blended, which keeps a picture fast.
        piece = self.image[top:bottom, left:right]
        drawn = piece if alpha >= 1.0 else piece.copy()
        shifted = [pixels - np.array([left << _SHIFT, top << _SHIFT], np.int32)]
        if width_px == 0:
            cv2.fillPoly(drawn, shifted, colour, cv2.LINE_AA, _SHIFT)
        else:
            cv2.polylines(drawn, shifted, is_closed, colour, width_px, cv2.LINE_AA, _SHIFT)
        if alpha < 1.0:
            cv2.addWeighted(drawn, alpha, piece, 1.0 - alpha, 0.0, dst=piece)


class Pose:
    """Position (m) and direction (unit vector) of a figure with units of ``scale`` metres."""

    def __init__(self, x: float, y: float, fx: float, fy: float, scale: float = 1.0) -> None:
        self.x, self.y, self.fx, self.fy, self.scale = x, y, fx, fy, scale
        self._turn = np.array([[fx, fy], [-fy, fx]]) * scale

    def place(self, points: Points) -> Points:
        """Convert points (K, 2) of the figure, x ahead and y to the left, to positions on the ground."""
        placed: Points = points @ self._turn + (self.x, self.y)
        return placed

    def at(self, ahead: float, left: float, angle_rad: float = 0.0, scale: float = 1.0) -> Pose:
        """Return the pose of a part that is offset within the figure, turned to the left, and scaled."""
        x, y = self.place(np.array([[ahead, left]]))[0]
        c, s = math.cos(angle_rad), math.sin(angle_rad)
        return Pose(x, y, self.fx * c - self.fy * s, self.fx * s + self.fy * c, scale * self.scale)


class Brush(Pose):
    """A pose whose parts are drawn on a canvas, with the opacity ``alpha`` unless another one above 0 is given."""

    def __init__(self, canvas: Canvas, pose: Pose, alpha: float = 1.0) -> None:
        super().__init__(pose.x, pose.y, pose.fx, pose.fy, pose.scale)
        self._canvas, self._alpha = canvas, alpha

    def at(self, ahead: float, left: float, angle_rad: float = 0.0, scale: float = 1.0) -> Brush:
        """Return the brush of a part; see `Pose.at`."""
        return Brush(self._canvas, super().at(ahead, left, angle_rad, scale), self._alpha)

    def solid(self, shape: Points, colour: Colour) -> None:
        """Fill a polygon (K, 2) of the figure and draw a dark outline."""
        self._canvas.solid(self.place(shape), colour, self._alpha)

    def fill(self, shape: Points, colour: Colour, alpha: float = 0.0) -> None:
        """Fill a polygon (K, 2) of the figure."""
        self._canvas.fill(self.place(shape), colour, alpha or self._alpha)

    def line(self, shape: Points, colour: Colour, width_m: float, alpha: float = 0.0, **how: bool) -> None:
        """Draw a line through points (K, 2) of the figure; see `Canvas.line`."""
        self._canvas.line(self.place(shape), colour, width_m, alpha or self._alpha, **how)


def points(*pairs: tuple[float, float]) -> Points:
    """Return pairs of numbers as (K, 2)."""
    return np.array(pairs, dtype=np.float64)


def ellipse(x: float, y: float, half_x: float, half_y: float, n: int = 28) -> Points:
    """Return an ellipse around (x, y) as (n, 2)."""
    angle = np.linspace(0.0, 2.0 * math.pi, n, endpoint=False)
    return np.stack([x + half_x * np.cos(angle), y + half_y * np.sin(angle)], axis=1)


def disc(x: float, y: float, radius: float, n: int = 32) -> Points:
    """Return a circle around (x, y) as (n, 2)."""
    return ellipse(x, y, radius, radius, n)


def arc(radius: float, from_rad: float, to_rad: float, n: int = 32) -> Points:
    """Return a circular arc around (0, 0), from one angle (0 is ahead, + is left) to another, as (n, 2)."""
    angle = np.linspace(from_rad, to_rad, n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def sector(inner: float, outer: float, from_rad: float, to_rad: float) -> Points:
    """Return the area between two circles around (0, 0) and two angles."""
    return np.concatenate([arc(outer, from_rad, to_rad), arc(inner, to_rad, from_rad)])
