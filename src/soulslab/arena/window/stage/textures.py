"""Textures of stone and sky, painted by formulas at the start of the game and cached on disk."""

from __future__ import annotations

import functools
import hashlib
import logging
import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.geometry import angle_between
from soulslab.arena.kernel import cache_folder
from soulslab.arena.window.stage.atmosphere import Atmosphere
from soulslab.arena.window.stage.baked_mesh import Floats

P = ParamSpec("P")
Picture = NDArray[np.uint8]
_log = logging.getLogger(__name__)


def cached_picture(paint: Callable[P, Picture]) -> Callable[P, Picture]:
    """Cache the picture (H, W, 3) uint8 of a painting function in memory, and in a file for later processes.

    The file's name has a digest of the arguments and of the painting module. A damaged or missing file is written
    again; if it cannot be written, each process paints.
    """
    source = Path(paint.__code__.co_filename)

    @functools.wraps(paint)
    def read_or_paint(*arguments: P.args, **named: P.kwargs) -> Picture:
        digest = hashlib.sha256(f"{np.__version__} {arguments} {named}".encode() + source.read_bytes())
        path = cache_folder() / "pictures" / f"{paint.__name__}-{digest.hexdigest()[:16]}.npy"
        try:
            with path.open("rb") as file:
                picture = np.lib.format.read_array(file, allow_pickle=False)
            if picture.dtype == np.uint8 and picture.ndim == 3:
                picture.setflags(write=False)
                return picture
        except (OSError, ValueError) as error:
            _log.debug("%s has to be painted: %s", path, error)
        picture = paint(*arguments, **named)
        _keep(picture, path)
        picture.setflags(write=False)
        return picture

    remembered: Any = functools.cache(read_or_paint)
    result: Callable[P, Picture] = remembered
    return result


def _keep(picture: Picture, path: Path) -> None:
    """Write a picture atomically, so that other processes read all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            np.save(file, picture, allow_pickle=False)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        _log.debug("%s cannot be written: %s", path, error)


SLAB_PX = 512
MEDALLION_PX = 512
BRICK_PX = 256
#: Panorama: the full circle, from below the horizon to above it.
SKY_PX = (2048, 512)
SKY_LOW_RAD, SKY_HIGH_RAD = -0.9, 0.9


def noise(shape: tuple[int, int], seed: int, slope: float = 1.5, stretch: float = 1.0) -> Floats:
    """Return smooth, seamlessly repeating noise (H, W) with mean 0 and variance 1.

    A larger ``slope``, the decrease of the amplitudes with frequency, gives smoother noise; ``stretch`` is the ratio of
    the grains' width to their height.
    """
    rng = np.random.default_rng(seed)
    white = np.fft.rfft2(rng.standard_normal(shape).astype(np.float32))
    fy = np.fft.fftfreq(shape[0])[:, None] * shape[0]
    fx = np.fft.rfftfreq(shape[1])[None, :] * shape[0] * stretch
    frequency = np.hypot(fx, fy)
    frequency[0, 0] = 1.0
    field = np.fft.irfft2(white / frequency**slope, s=shape).astype(np.float32)
    field -= field.mean()
    return np.asarray(field / field.std())


@cached_picture
def slabs(atmosphere: Atmosphere) -> NDArray[np.uint8]:
    """Return worn flagstones, (H, W, 3): two rows of two, each row offset by half a stone."""
    n = SLAB_PX
    v, u = np.mgrid[0:n, 0:n].astype(np.float32) / n
    rough, fine = noise((n, n), 1, 1.5), noise((n, n), 2, 0.9)
    u, v = u + 0.006 * rough, v + 0.006 * noise((n, n), 3, 1.5)
    row = np.floor(v * 2) % 2
    along = u * 2 + 0.5 * row
    stone = np.floor(along) % 2 + 2 * row
    edge = np.minimum(0.5 - np.abs(along % 1 - 0.5), 0.5 - np.abs(v * 2 % 1 - 0.5))
    light = np.array([0.80, 0.72, 0.76, 0.84])[stone.astype(int)] + 0.035 * rough + 0.045 * fine
    # There are cracks where two noise fields cross zero.
    crack = np.clip(1 - np.abs(noise((n, n), 4, 1.7)) / 0.02, 0, 1) * (rough > 0.2)
    light = light * (1 - 0.35 * crack)
    joint = np.clip((edge - 0.012 - 0.004 * fine) / 0.02, 0, 1)
    bevel = np.clip(1 - np.abs(edge - 0.04) / 0.02, 0, 1)
    light = light * (0.42 + 0.58 * joint) + 0.05 * bevel
    grown = np.clip(1.1 - edge / 0.07 + 0.45 * rough, 0, 1) * np.clip(0.55 + 0.5 * noise((n, n), 5, 1.6), 0, 1)
    return _stone(light, atmosphere, np.clip(grown, 0, 0.75))


@cached_picture
def medallion(atmosphere: Atmosphere) -> NDArray[np.uint8]:
    """Return the medallion at the floor's centre, (H, W, 3): rings, and a sun of sixteen rays, in worn brass."""
    n = MEDALLION_PX
    y, x = np.mgrid[-1.0 : 1.0 : n * 1j, -1.0 : 1.0 : n * 1j].astype(np.float32)
    r, angle = np.hypot(x, y), np.arctan2(y, x)
    rough, fine = noise((n, n), 11, 1.5), noise((n, n), 12, 0.9)
    light = 0.76 + 0.05 * rough + 0.045 * fine
    # Two rings of sixteen stones with joints.
    for inner, outer, turn in ((0.34, 0.66, 0.0), (0.66, 1.0, 0.5)):
        wedge = (angle / math.tau * 16 + turn) % 1
        across = (0.5 - np.abs(wedge - 0.5)) * math.tau * r / 16
        gap = np.minimum(across, np.minimum(np.abs(r - inner), np.abs(r - outer)))
        inside = (r >= inner) & (r < outer)
        shade = 0.05 * np.sin(np.floor(angle / math.tau * 16 + turn) * 12.9)
        light = np.where(inside, (light + shade) * (0.45 + 0.55 * np.clip(gap / 0.012, 0, 1)), light)
    light = np.where(r > 0.985, 0.30, light)
    picture = _stone(light, atmosphere, np.clip(0.3 * rough - 0.1, 0, 0.5)).astype(np.float32)
    beat = np.abs((angle / math.tau * 16) % 1 - 0.5) * 2
    ray = np.clip((0.34 + 0.30 * beat - r) * 40, 0, 1) * np.clip((r - 0.20) * 60, 0, 1)
    rings = np.clip(1 - np.abs(np.abs(r - 0.80) - 0.045) / 0.012, 0, 1) + np.clip(1 - np.abs(r - 0.965) / 0.016, 0, 1)
    glyphs = (np.abs(r - 0.80) < 0.03) & (np.sin(angle * 48) * np.sin(angle * 18 + 1.0) > 0.15)
    brass = np.clip(ray + rings + 0.8 * glyphs, 0, 1) * np.clip(0.72 + 0.3 * rough, 0, 0.95)
    metal = np.array([196.0, 158.0, 92.0]) * (0.80 + 0.10 * fine[..., None]) * np.array(atmosphere.stone)
    return _bytes(picture * (1 - brass[..., None]) + metal * brass[..., None])


@cached_picture
def bricks(atmosphere: Atmosphere) -> NDArray[np.uint8]:
    """Return masonry, (H, W, 3), with four courses."""
    n = BRICK_PX
    v, u = np.mgrid[0:n, 0:n].astype(np.float32) / n
    rough, fine = noise((n, n), 21, 1.4), noise((n, n), 22, 0.9)
    u, v = u + 0.008 * rough, v + 0.006 * noise((n, n), 23, 1.4)
    row = np.floor(v * 4) % 4
    along = u * 2 + 0.5 * (row % 2) + 0.13 * row
    shade = np.sin((np.floor(along) % 2) * 7.1 + row * 3.7)
    edge = np.minimum((0.5 - np.abs(along % 1 - 0.5)) * 2, 0.5 - np.abs(v * 4 % 1 - 0.5))
    light = 0.70 + 0.09 * shade + 0.05 * rough + 0.06 * fine
    light *= 0.45 + 0.55 * np.clip((edge - 0.03) / 0.06, 0, 1)
    return _stone(light, atmosphere, np.clip(0.35 * rough - 0.15, 0, 0.5))


@cached_picture
def sky(atmosphere: Atmosphere, cliff_rad: float) -> NDArray[np.uint8]:
    """Return the panorama, (H, W, 3): column 0 is along x, columns continue to the left; row 0 is the highest."""
    width, height = SKY_PX
    azimuth = np.arange(width, dtype=np.float32) / width * math.tau
    elevation = np.linspace(SKY_HIGH_RAD, SKY_LOW_RAD, height, dtype=np.float32)[:, None]
    colours = (atmosphere.zenith, atmosphere.horizon, atmosphere.abyss)
    zenith, horizon, abyss = (np.array(colour, np.float32) for colour in colours)
    up = np.clip(elevation / SKY_HIGH_RAD, 0, 1) ** 0.55
    picture = (horizon * (1 - up[..., None]) + zenith * up[..., None]) * np.ones((1, width, 1), np.float32)
    picture = _clouds(picture, atmosphere, elevation)
    picture = _glow(picture, atmosphere, azimuth - cliff_rad, elevation)
    for layer, (height_rad, jag, near) in enumerate(((0.10, 0.035, 0.25), (0.055, 0.03, 0.5), (0.015, 0.022, 0.75))):
        picture = _ridge(picture, atmosphere, elevation, (layer, height_rad, jag, near))
    depth = np.clip(-(elevation + 0.02) / 0.30, 0, 1) ** 0.7
    mist = noise((height, width), 35, 1.7, 4.0)
    sea = abyss * (1.0 + 0.07 * mist[..., None]) * (1 - 0.45 * np.clip(-elevation / 0.9, 0, 1)[..., None])
    cover = np.clip(depth * 1.6 + 0.25 * mist * depth, 0, 1)[..., None]
    return _bytes((picture * (1 - cover) + sea * cover) * 255)


def _clouds(picture: Floats, atmosphere: Atmosphere, elevation: Floats) -> Floats:
    height, width = SKY_PX[1], SKY_PX[0]
    field = noise((height, width), 31, 1.6, 3.5)
    cover = np.clip((field + 2.2 * atmosphere.clouds - 1.3) * 0.7, 0, 1) * np.clip(elevation / 0.12, 0, 1)
    edge = np.clip(1 - np.abs(field + 2.2 * atmosphere.clouds - 1.2) / 0.5, 0, 1)[..., None]
    colours = (atmosphere.zenith, atmosphere.horizon, atmosphere.glow)
    zenith, horizon, glow = (np.array(colour, np.float32) for colour in colours)
    colour = (0.55 * zenith + 0.45 * horizon) * 0.95 + 0.16 * edge * glow
    share = 0.65 * cover[..., None]
    return np.asarray(picture * (1 - share) + colour * share)


def _glow(picture: Floats, atmosphere: Atmosphere, azimuth: Floats, elevation: Floats) -> Floats:
    """Add sun or moon, and its glow in the air around it."""
    aside = angle_between(azimuth, atmosphere.glow_rad).astype(np.float32)[None, :]
    away = np.hypot(aside * np.cos(elevation), elevation - atmosphere.glow_height_rad)
    size = atmosphere.glow_size_rad
    disc = np.clip((size - away) / 0.006 + 0.5, 0, 1)
    spots = 1 - 0.10 * np.clip(noise((SKY_PX[1], SKY_PX[0]), 33, 1.2), 0, 2)
    halo = 0.50 * np.exp(-away / (1.6 * size)) + 0.30 * np.exp(-((away / 0.55) ** 2))
    glow = np.array(atmosphere.glow, np.float32)
    picture = picture + glow * (0.85 * halo)[..., None]
    return np.asarray(picture * (1 - disc[..., None]) + (glow * spots[..., None]) * disc[..., None])


def _ridge(
    picture: Floats, atmosphere: Atmosphere, elevation: Floats, layer: tuple[int, float, float, float]
) -> Floats:
    """Paint a range of mountains with spires; nearer ranges are darker and less hazy."""
    number, height_rad, jag, near = layer
    width = SKY_PX[0]
    line = height_rad + jag * noise((8, width), 40 + number, 1.25, 1 / 200)[0]
    rng = np.random.default_rng(50 + number)
    for middle in rng.integers(0, width, 7):
        half, tall = int(rng.integers(3, 9)), float(rng.uniform(0.03, 0.09)) * (1.3 - near)
        for offset in range(-half, half + 1):
            roof = tall * (1.35 - 0.9 * abs(offset) / half)
            column = (middle + offset) % width
            line[column] = max(line[column], height_rad + roof)
    horizon, zenith = np.array(atmosphere.horizon, np.float32), np.array(atmosphere.zenith, np.float32)
    rock = (0.65 * zenith + 0.35 * horizon) * 0.75
    # The foot of the range is hazy.
    depth = np.clip((line[None, :] - elevation) / 0.16, 0, 1)[..., None]
    colour = rock * near + horizon * (1 - near)
    colour = colour * (1 - 0.75 * depth) + horizon * 0.92 * (0.75 * depth)
    inside = np.clip((line[None, :] - elevation) / 0.0035 + 0.5, 0, 1)[..., None]
    return np.asarray(picture * (1 - inside) + colour * inside)


def _stone(light: Floats, atmosphere: Atmosphere, grown: Floats) -> NDArray[np.uint8]:
    """Colour a brightness field as stone, with moss where ``grown`` is high."""
    grey = light[..., None] * np.array(atmosphere.stone, np.float32)
    moss = (0.35 + 0.65 * light[..., None]) * np.array(atmosphere.moss, np.float32)
    return _bytes((grey * (1 - grown[..., None]) + moss * grown[..., None]) * 255)


def _bytes(picture: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)
