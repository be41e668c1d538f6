"""Texture of the ground: paved floor, wall with torches, and the cliff; painted once and cut out for each picture."""

from __future__ import annotations

import math
from functools import cache
from threading import Lock
from typing import Any

import cv2
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.geometry import angle_between
from soulslab.arena.picture.canvas import Image

PX_PER_M = 22
#: Width of the painted ground around the floor.
MARGIN_M = 9.0
WALL_M = 1.5
#: Gap between floor and wall: the player's centre stops at the floor's radius, its body at the wall.
WALL_GAP_M = 0.45
_BAND_PX = 32
#: Threads that draw the first pictures of a place wait for one of them, instead of painting the same ground.
_PAINTING = Lock()
_RING_M, _SLAB_M, _MORTAR_M = 1.9, 2.5, 0.045
N_TORCHES = 9

_Field = NDArray[np.floating[Any]]


class Place(msgspec.Struct, frozen=True):
    """Parameters of the texture of the ground; ``tint`` are factors for red, green and blue."""

    radius_m: float
    cliff_rad: float
    cliff_width_rad: float
    tint: tuple[float, float, float]


def cut_out(
    place: Place, centre_m: tuple[float, float], middle_px: tuple[float, float], px_per_m: float, size: tuple[int, int]
) -> Image:
    """Cut out the part of the ground that a picture (W, H) shows, (H, W, 3) uint8.

    ``centre_m``, relative to the floor's centre, is shown at the pixel ``middle_px``.
    """
    ground = texture(place)
    scale = px_per_m / PX_PER_M
    half = ground.shape[0] / 2
    origin_x, origin_y = half + centre_m[0] * PX_PER_M, half - centre_m[1] * PX_PER_M
    matrix = np.array([[scale, 0.0, middle_px[0] - origin_x * scale], [0.0, scale, middle_px[1] - origin_y * scale]])
    # A cutout of four channels is twice as fast as one of three.
    picture = cv2.warpAffine(ground, matrix, size, flags=cv2.INTER_LINEAR)
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGBA2RGB), np.uint8)


def texture(place: Place) -> Image:
    """Return the whole ground, (n, n, 4) with an unused fourth channel, ``PX_PER_M`` pixels per metre; read-only."""
    with _PAINTING:
        return _texture(place)


@cache
def _texture(place: Place) -> Image:
    """Paint the ground in bands of rows, whose fields fit in the processor's cache."""
    n = 2 * round((place.radius_m + MARGIN_M) * PX_PER_M)
    axis = (np.arange(n, dtype=np.float32) + 0.5 - n / 2) / PX_PER_M
    rough, fine, light = _noise(n, 12, 3), _noise(n, 110, 5), _torch_light(place, axis)
    painted = np.full((n, n, 4), 255, np.uint8)
    for top in range(0, n, _BAND_PX):
        rows = slice(top, top + _BAND_PX)
        x, y = np.meshgrid(axis, -axis[rows])
        r, angle = np.hypot(x, y), np.arctan2(y, x)
        picture = _ground(place, r, angle, rough[rows], fine[rows])
        picture += light[rows, :, None] * _colour(1.0, 0.62, 0.28)
        picture *= _fade(place, r)[..., None]
        painted[rows, :, :3] = np.clip(picture, 0, 255)
    painted.setflags(write=False)
    return painted


def _ground(place: Place, r: _Field, angle: _Field, rough: _Field, fine: _Field) -> _Field:
    """Return the colours of the ground without torches, (*r.shape, 3); each part is computed only where it is seen."""
    # The broken edge varies by about 10 cm.
    beyond = r - place.radius_m
    off_cliff = np.abs(angle_between(angle, place.cliff_rad)) - place.cliff_width_rad / 2
    is_cliff = off_cliff * place.radius_m < 0.25 * fine
    edge = np.where(is_cliff, _step(beyond - 0.35 * (fine + 0.6 * rough)), _step(beyond - WALL_GAP_M))
    is_seen = _fade(place, r) > 0.0
    picture = np.zeros((*r.shape, 3), np.float32)
    seen = is_seen & (edge < 1)
    floor = _floor(place, r[seen], angle[seen], rough[seen], fine[seen])
    picture[seen] = floor * (1 - edge[seen])[:, None]
    for part, paint in ((is_cliff, _abyss), (~is_cliff, _outside)):
        seen = is_seen & part & (edge > 0)
        picture[seen] += paint(beyond[seen], angle[seen], rough[seen], fine[seen]) * edge[seen][:, None]
    return picture


def _fade(place: Place, r: _Field) -> _Field:
    """Return the brightness at a distance from the floor's centre; the corners of the texture are black."""
    return np.clip(1.15 - (r / (place.radius_m + MARGIN_M)) ** 6, 0.0, 1.0)


def _step(field: _Field) -> _Field:
    """Return 0 inside and 1 outside, with a transition of one pixel."""
    return np.clip(field * PX_PER_M + 0.5, 0.0, 1.0)


def _noise(n: int, cells: int, seed: int) -> _Field:
    """Return smooth, reproducible noise (n, n), about -1 to 1, with about ``cells`` grains across."""
    rng = np.random.default_rng(seed)
    total = np.zeros((n, n), np.float32)
    for octave in range(3):
        grains = rng.standard_normal((cells << octave, cells << octave)).astype(np.float32)
        total += cv2.resize(grains, (n, n), interpolation=cv2.INTER_CUBIC) * np.float32(0.5**octave)
    return np.clip(total / 1.6, -1.5, 1.5)


def _colour(red: float, green: float, blue: float) -> NDArray[np.float32]:
    return np.array([red, green, blue], dtype=np.float32)


def _floor(place: Place, r: _Field, angle: _Field, rough: _Field, fine: _Field) -> _Field:
    """Paint rings of slabs of slightly different shades, worn and mossy, around an inlaid sun."""
    ring = np.floor(r / _RING_M)
    n_slabs = np.maximum(np.round(2 * math.pi * (ring + 0.5) * _RING_M / _SLAB_M), 6)
    # Each ring is turned by a different part of a slab.
    along = (angle / (2 * math.pi) + 0.5) * n_slabs + ring * 0.37
    slab = np.floor(along) % n_slabs
    across_m = np.minimum(r - ring * _RING_M, (ring + 1) * _RING_M - r)
    along_m = (0.5 - np.abs(along - np.floor(along) - 0.5)) * 2 * math.pi * r / n_slabs
    joint = np.minimum(across_m, along_m) - _MORTAR_M - 0.02 * fine
    shade = np.sin(ring * 12.9898 + slab * 78.233) * 43758.5453
    shade = (shade - np.floor(shade)).astype(np.float32)
    light = 98 + 24 * (shade - 0.5) + 7 * rough + 6 * fine
    # A bright upper edge and a dark lower edge make the slabs look solid.
    light += 10 * np.clip(1 - np.abs(joint - 0.06) / 0.06, 0, 1)
    light *= 0.52 + 0.48 * np.clip(joint / 0.05, 0, 1)
    light *= 1.08 - 0.30 * (r / place.radius_m) ** 2
    light *= 1 - 0.35 * np.clip(1 - np.abs(r - place.radius_m) / 1.2, 0, 1)
    stone = light[..., None] * np.asarray(place.tint, np.float32)
    moss = np.clip((rough - 0.25) * 1.6, 0, 0.4) * np.clip(1 - joint / 0.25, 0.25, 1)
    stone = stone * (1 - moss[..., None]) + light[..., None] * _colour(0.62, 0.82, 0.5) * moss[..., None]
    inlay = _inlay(r, angle) * np.clip(0.75 + 0.35 * fine, 0, 1)
    return np.asarray(stone * (1 - inlay[..., None]) + _colour(168, 134, 78) * inlay[..., None])


def _inlay(r: _Field, angle: _Field) -> _Field:
    """Return the strength of the brass inlay at the floor's centre: two rings and a sun of sixteen rays."""
    lines = np.minimum(np.abs(r - 5.7), np.abs(r - 3.8))
    beat = np.abs(((angle / (2 * math.pi) * 16) % 1) - 0.5) * 2
    ray = (beat - (r - 1.0) / 2.7) * r * 0.2
    inside = (r > 1.2) & (r < 3.65)
    strength = 0.75 * np.clip((0.09 - lines) * PX_PER_M + 0.5, 0, 1)
    return np.asarray(np.where(inside, np.maximum(strength, 0.5 * np.clip(ray * PX_PER_M, 0, 1)), strength))


def _outside(beyond: _Field, angle: _Field, rough: _Field, fine: _Field) -> _Field:
    """Paint the top of the wall with its blocks, and the dark ground behind it."""
    depth = beyond - WALL_GAP_M
    along = (angle / (2 * math.pi) + 0.5) * 96
    gap_m = (0.5 - np.abs(along % 1 - 0.5)) * 1.7
    joint = np.minimum(np.minimum(gap_m, depth), WALL_M - depth)
    light = (104 + 10 * fine + 8 * rough) * (0.55 + 0.45 * np.clip(joint / 0.09, 0, 1))
    # Merlons: every other block is higher and brighter.
    light *= np.where(np.floor(along) % 2 == 0, 1.14, 0.9)
    light *= 0.6 + 0.4 * np.clip((depth - 0.05) / 0.25, 0, 1)
    wall = light[..., None] * _colour(0.92, 0.9, 0.96)
    ground = (20 + 5 * rough + 4 * fine)[..., None] * _colour(0.8, 0.95, 0.85)
    ground *= (0.35 + 0.65 * np.clip((depth - WALL_M) / 1.5, 0, 1))[..., None]
    return np.asarray(np.where((depth < WALL_M)[..., None], wall, ground))


def _abyss(beyond: _Field, angle: _Field, rough: _Field, fine: _Field) -> _Field:
    """Paint the cliff: a bright edge, falling rock, and mist far below."""
    streaks = np.sin(angle * 150 + 2.5 * fine) * 0.5 + np.sin(angle * 61 + 4 * rough) * 0.5
    # Lower ledges are darker and look smaller.
    drop = np.clip(beyond / 3.4, 0, 1)
    ledge = np.floor((drop + 0.05 * streaks) * 5) / 5
    rock = (76 + 15 * streaks + 9 * fine) * (1 - 0.86 * np.clip(ledge + 0.25 * drop, 0, 1))
    rock *= 0.72 + 0.28 * np.clip(np.abs((drop + 0.05 * streaks) * 5 % 1) * 4, 0, 1)
    mist = 26 + 24 * np.clip(rough + 0.35 * fine + 0.2, 0, 1.3) * np.clip((beyond - 2.2) / 3.0, 0, 1)
    fade = np.clip((beyond - 1.6) / 1.9, 0, 1)[..., None]
    picture = rock[..., None] * _colour(0.95, 0.84, 0.74) * (1 - fade)
    picture += mist[..., None] * _colour(0.62, 0.86, 1.2) * fade
    picture += (58 * np.clip(1 - np.abs(beyond - 0.1) / 0.16, 0, 1))[..., None] * _colour(1.0, 0.94, 0.82)
    return np.asarray(picture)


def torches(place: Place) -> list[tuple[float, float]]:
    """Return the positions of the torches on the wall, relative to the floor's centre, in m."""
    free = 2 * math.pi - place.cliff_width_rad
    first = place.cliff_rad + place.cliff_width_rad / 2
    angles = [first + free * (i + 0.5) / N_TORCHES for i in range(N_TORCHES)]
    radius = place.radius_m + WALL_GAP_M + 0.15
    return [(radius * math.cos(a), radius * math.sin(a)) for a in angles]


def _torch_light(place: Place, axis: _Field) -> _Field:
    """Return the strength of the light of all torches, (n, n), for the columns ``axis`` and the rows ``-axis`` in m."""
    light = np.zeros((len(axis), len(axis)), np.float32)
    x, y = np.array(torches(place), np.float32).T[:, :, None] - np.stack((axis, -axis))[:, None]
    # The light of a torch is a Gaussian, which is the product of one for x and one for y.
    for strength, width in ((46, 14.0), (190, 0.06)):
        light += strength * np.exp(-(y**2) / width).T @ np.exp(-(x**2) / width)
    return light
