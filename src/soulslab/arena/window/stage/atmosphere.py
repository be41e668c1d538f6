"""Atmosphere of each boss's ground: light, air and weather."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from soulslab.arena.boss_file import Boss
from soulslab.arena.picture.looks import Body, look_of
from soulslab.config.loading import read_toml

Rgb: TypeAlias = tuple[float, float, float]
Weather: TypeAlias = Literal["ash", "snow", "petals"]


class Atmosphere(msgspec.Struct, frozen=True, kw_only=True):
    """Light, air and weather; colours are from 0 to 1.

    Attributes:
        horizon: Colour of the lower sky, and of distant objects; ``abyss`` is that of the depth below the cliff.
        glow: Colour of sun or moon; ``glow_rad`` is its direction, to the left of the direction of the cliff.
        clouds: Share of the sky with clouds, 0 to 1.
        shade: How much darker the floor's rim is than its centre, 0 to 1.
        fill: Light on the fighters from the side away from sun or moon.
        flake: Colour of the falling specks.
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


@cache
def _atmospheres() -> dict[Body, Atmosphere]:
    return msgspec.convert(read_toml(Path(__file__).parent / "atmospheres.toml"), dict[Body, Atmosphere])


def atmosphere_of(boss: Boss) -> Atmosphere:
    """Return the atmosphere of a boss's ground; it is derived from the boss's appearance (see `look_of`)."""
    return _atmospheres()[look_of(boss).body]
