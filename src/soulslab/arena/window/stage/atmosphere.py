"""Atmosphere of each boss's ground: light, air and weather."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from soulslab.arena.boss_file import Boss
from soulslab.arena.picture.looks import Body, look_of

Rgb: TypeAlias = tuple[float, float, float]
Weather: TypeAlias = Literal["ash", "snow", "petals"]


class Atmosphere(msgspec.Struct, frozen=True, kw_only=True):
    """Light, air and weather; colours are from 0 to 1.

    Attributes:
        zenith: Colour of the upper sky.
        horizon: Colour of the lower sky, and of distant objects.
        abyss: Colour of the depth below the cliff.
        glow: Colour of sun or moon.
        glow_rad: Direction of sun or moon, to the left of the direction of the cliff.
        glow_height_rad: Elevation of sun or moon.
        glow_size_rad: Angular radius of its disc.
        clouds: Share of the sky with clouds, 0 to 1.
        stone: Colour of all stone.
        shade: How much darker the floor's rim is than its centre, 0 to 1.
        fire: Colour of the braziers.
        moss: Colour of the moss in the joints.
        fill: Light on the fighters from the side away from sun or moon.
        weather: Kind of falling specks.
        flake: Colour of the specks.
        fall_m_s: Speed at which they fall.
        wind_m_s: Speed at which they drift.
    """

    zenith: Rgb
    horizon: Rgb
    abyss: Rgb
    glow: Rgb
    glow_rad: float = 0.3
    glow_height_rad: float
    glow_size_rad: float
    clouds: float
    stone: Rgb
    shade: float
    fire: Rgb = (1.0, 0.62, 0.22)
    moss: Rgb
    fill: Rgb
    weather: Weather
    flake: Rgb
    fall_m_s: float
    wind_m_s: float


ATMOSPHERES: dict[Body, Atmosphere] = {
    # A setting sun over a graveyard in the mountains.
    "halberd": Atmosphere(
        zenith=(0.16, 0.17, 0.27),
        horizon=(0.80, 0.52, 0.34),
        abyss=(0.42, 0.32, 0.30),
        glow=(1.0, 0.78, 0.45),
        glow_height_rad=0.11,
        glow_size_rad=0.055,
        clouds=0.55,
        stone=(0.86, 0.74, 0.66),
        shade=0.35,
        moss=(0.40, 0.38, 0.26),
        fill=(0.62, 0.50, 0.50),
        weather="ash",
        flake=(0.95, 0.75, 0.55),
        fall_m_s=0.5,
        wind_m_s=0.7,
    ),
    # A snow-covered cloister under a white sky.
    "beast": Atmosphere(
        zenith=(0.36, 0.46, 0.58),
        horizon=(0.78, 0.85, 0.90),
        abyss=(0.70, 0.78, 0.85),
        glow=(0.95, 0.98, 1.0),
        glow_rad=0.9,
        glow_height_rad=0.2,
        glow_size_rad=0.03,
        clouds=0.9,
        stone=(0.74, 0.85, 0.96),
        shade=0.22,
        fire=(0.45, 0.80, 1.0),
        moss=(0.92, 0.96, 1.0),
        fill=(0.66, 0.70, 0.75),
        weather="snow",
        flake=(1.0, 1.0, 1.0),
        fall_m_s=1.7,
        wind_m_s=1.2,
    ),
    # A palace court at night, with the moon above the cliff.
    "daggers": Atmosphere(
        zenith=(0.03, 0.04, 0.11),
        horizon=(0.30, 0.29, 0.47),
        abyss=(0.13, 0.13, 0.25),
        glow=(0.92, 0.93, 1.0),
        glow_rad=-0.25,
        glow_height_rad=0.15,
        glow_size_rad=0.085,
        clouds=0.4,
        stone=(0.60, 0.62, 0.82),
        shade=0.40,
        fire=(1.0, 0.66, 0.30),
        moss=(0.30, 0.36, 0.34),
        fill=(0.55, 0.50, 0.66),
        weather="petals",
        flake=(0.88, 0.72, 0.86),
        fall_m_s=0.7,
        wind_m_s=0.9,
    ),
}


def atmosphere_of(boss: Boss) -> Atmosphere:
    """Return the atmosphere of a boss's ground; it is derived from the boss's appearance (see `look_of`)."""
    return ATMOSPHERES[look_of(boss).body]
