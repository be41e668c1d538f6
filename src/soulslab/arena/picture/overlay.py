"""Overlay of the picture from above: bars, names, the clock, a map, and the result of the fight."""

from __future__ import annotations

import math

import cv2
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.blow import blow_of
from soulslab.arena.boss_file import Boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.picture.canvas import Canvas, Colour, Image, Pose, disc, points, sector
from soulslab.arena.picture.ground_texture import Place
from soulslab.arena.picture.looks import Look
from soulslab.arena.records import PARRIED, STAGGERED, THROWN, TICKS_PER_S, Record

_SERIF, _SANS = cv2.FONT_HERSHEY_COMPLEX, cv2.FONT_HERSHEY_SIMPLEX
PALE: Colour = (226, 220, 206)
FAINT: Colour = (156, 150, 138)
_STAGES: dict[str, Colour] = {"wind-up": (255, 190, 70), "active": (255, 70, 50), "recovery": (120, 200, 130)}
_PLAIN_MODES = {STAGGERED: "staggered", PARRIED: "parried", THROWN: "riposte"}


def draw_hud(image: Image, boss: Boss, f: Record, d: Record, look: Look) -> None:
    """Draw the overlay; all sizes scale with the height of the picture."""
    unit = image.shape[0] / 540
    _darken(image, 0, round(64 * unit))
    _darken(image, image.shape[0] - round(88 * unit), image.shape[0])
    _player_bars(image, f, d, unit)
    _boss_bar(image, boss, f, d, unit)
    seconds = d.tick / TICKS_PER_S
    clock = f"{int(seconds) // 60}:{seconds % 60:04.1f}"
    _text(image, clock, (image.shape[1] - 24 * unit, 36 * unit), Ink(0.62 * unit, PALE, align=1.0))
    _map(image, f, d, look, unit)
    if d.over:
        _last_word(image, d, unit)


def place_of(f: Record, look: Look) -> Place:
    """Return the ground of a fight."""
    # In the rules, the cosine of a cliff of width 0 is greater than 1.
    width = 2 * math.acos(float(f.cliff_cos)) if f.cliff_cos <= 1.0 else 0.0
    return Place(float(f.radius), math.atan2(float(f.cliff_y), float(f.cliff_x)), width, look.tint)


def _darken(image: Image, top: int, bottom: int) -> None:
    """Darken a strip at the upper or lower edge, more towards the edge, so that text on it is readable."""
    share = np.linspace(0.0, 1.0, bottom - top, dtype=np.float32)
    factor = 0.35 + 0.65 * (share if top == 0 else share[::-1])
    _multiply(image[top:bottom], factor)


def _multiply(strip: Image, factor: NDArray[np.float32]) -> None:
    """Multiply each row of a strip of the picture by its factor (H,)."""
    np.multiply(strip, factor[:, None, None], out=strip, casting="unsafe")


class Ink(msgspec.Struct, frozen=True):
    """Text style: size in OpenCV's units, colour, font, and the share of the text's width left of its position."""

    size: float
    colour: Colour
    font: int = _SERIF
    align: float = 0.0


def _text(image: Image, text: str, at: tuple[float, float], ink: Ink) -> float:
    """Write text on a baseline at a pixel position, with a shadow; return its width in pixels."""
    (width, _), _ = cv2.getTextSize(text, ink.font, ink.size, 1)
    x, y = round(at[0] - ink.align * width), round(at[1])
    cv2.putText(image, text, (x + 1, y + 1), ink.font, ink.size, (0, 0, 0), 1, cv2.LINE_AA)
    cv2.putText(image, text, (x, y), ink.font, ink.size, ink.colour, 1, cv2.LINE_AA)
    return float(width)


def _bar(image: Image, box: tuple[float, float, float, float], share: float, colour: Colour) -> None:
    """Draw a bar in a thin frame; ``box`` is (left, top, width, height) in pixels."""
    left, top, width, height = (round(v) for v in box)
    right, bottom = left + width, top + height
    cv2.rectangle(image, (left - 2, top - 2), (right + 1, bottom + 1), (96, 88, 72), 1, cv2.LINE_AA)
    cv2.rectangle(image, (left - 1, top - 1), (right, bottom), (16, 12, 12), -1)
    end = left + round(width * min(max(share, 0.0), 1.0))
    if end > left:
        cv2.rectangle(image, (left, top), (end - 1, bottom - 1), colour, -1)
        light = tuple(min(c + 46, 255) for c in colour)
        cv2.rectangle(image, (left, top), (end - 1, top + max(height // 4, 1) - 1), light, -1)


def _player_bars(image: Image, f: Record, d: Record, unit: float) -> None:
    # The length is proportional to the maximum of the value.
    per_point = 0.52 * unit
    hp, sp = float(d.p_hp), float(d.p_sp)
    _bar(image, (26 * unit, 22 * unit, float(f.p_max_hp) * per_point, 11 * unit), hp / f.p_max_hp, (158, 26, 28))
    _bar(image, (26 * unit, 40 * unit, float(f.p_max_sp) * 1.6 * unit, 8 * unit), sp / f.p_max_sp, (62, 132, 66))
    name = load_knight().animations[d.p_anim]
    _text(image, f"{hp:.0f}", (34 * unit + f.p_max_hp * per_point, 32 * unit), Ink(0.4 * unit, FAINT, _SANS))
    _text(image, name, (34 * unit + f.p_max_sp * 1.6 * unit, 48 * unit), Ink(0.36 * unit, FAINT, _SANS))


def _boss_bar(image: Image, boss: Boss, f: Record, d: Record, unit: float) -> None:
    height, width = image.shape[:2]
    left, bar = 0.18 * width, 0.64 * width
    top = height - 36 * unit
    _text(image, boss.name, (left, top - 9 * unit), Ink(0.62 * unit, PALE))
    colour = (150, 24, 26) if d.phase == 1 else (176, 60, 20)
    _bar(image, (left, top, bar, 11 * unit), float(d.b_hp / f.b_max_hp), colour)
    mark = round(left + bar * float(f.phase_two_hp / f.b_max_hp))
    low, high = round(top - 4 * unit), round(top + 15 * unit)
    cv2.line(image, (mark, low), (mark, high), (216, 190, 120), max(round(unit), 1), cv2.LINE_AA)
    # One diamond per phase; that of the present phase is bright.
    for phase in (1, 2):
        canvas = Canvas(image, (0.0, 0.0), (left + bar + (4 + 16 * phase) * unit, top + 5 * unit), unit)
        diamond = points((5.5, 0.0), (0.0, 5.5), (-5.5, 0.0), (0.0, -5.5))
        canvas.fill(diamond, (232, 196, 110) if d.phase == phase else (54, 48, 42))
        canvas.line(diamond, (150, 130, 90), 1.0, is_closed=True)
    _text(image, f"{d.b_hp:.0f}", (left - 10 * unit, top + 10 * unit), Ink(0.4 * unit, FAINT, _SANS, 1.0))
    _move_name(image, boss, f, d, (left + bar, top - 10 * unit, unit))


def _move_name(image: Image, boss: Boss, f: Record, d: Record, place: tuple[float, float, float]) -> None:
    """Write the boss's present move and draw the progress of its part."""
    right, baseline, unit = place
    blow = blow_of(d, f)
    if d.over:
        return
    if blow is None:
        text = _PLAIN_MODES.get(int(d.b_mode), "")
        _text(image, text, (right, baseline), Ink(0.44 * unit, (232, 196, 110), _SANS, 1.0))
        return
    colour = _STAGES[blow.stage]
    text = boss.moves[d.b_move].id.replace("_", " ")
    width = _text(image, text, (right - 22 * unit, baseline), Ink(0.48 * unit, PALE, _SANS, 1.0))
    _text(image, blow.stage, (right - 30 * unit - width, baseline), Ink(0.38 * unit, colour, _SANS, 1.0))
    dial = Canvas(image, (0.0, 0.0), (right - 9 * unit, baseline - 5 * unit), unit)
    dial.line(disc(0.0, 0.0, 7.0), colour, 1.0, 0.8, is_closed=True)
    dial.fill(sector(0.0, 6.5, math.pi / 2, math.pi / 2 - 2 * math.pi * min(blow.share + 0.02, 1.0)), colour, 0.9)


def _map(image: Image, f: Record, d: Record, look: Look, unit: float) -> None:
    """Draw a map of the whole floor with the cliff, both fighters and the direction of the camera."""
    size = 38 * unit
    middle = (image.shape[1] - 24 * unit - size, 52 * unit + size)
    floor = Canvas(image, (float(f.centre_x), float(f.centre_y)), middle, size / float(f.radius))
    centre = Pose(float(f.centre_x), float(f.centre_y), float(f.cliff_x), float(f.cliff_y), float(f.radius))
    floor.fill(centre.place(disc(0.0, 0.0, 1.0, 48)), (12, 12, 14), 0.5)
    half = place_of(f, look).cliff_width_rad / 2
    rim = [(math.cos(a), math.sin(a)) for a in np.linspace(half, 2 * math.pi - half, 48)]
    floor.line(centre.place(points(*rim)), (170, 164, 150), 0.0, 0.9)
    x, y = float(d.p_x), float(d.p_y)
    view = Pose(x, y, float(d.c_fx), float(d.c_fy))
    floor.fill(view.place(sector(0.0, 9.0, -0.5, 0.5)), (200, 220, 255), 0.22)
    floor.fill(disc(float(d.b_x), float(d.b_y), 1.9, 16), (206, 60, 44))
    floor.fill(disc(x, y, 1.4, 16), (220, 232, 250))


def _last_word(image: Image, d: Record, unit: float) -> None:
    height, width = image.shape[:2]
    words = (
        ("VICTORY", (240, 206, 112)) if d.won else ("TIME IS UP", PALE) if d.truncated else ("YOU DIED", (172, 26, 26))
    )
    text, colour = words
    band = image[round(0.64 * height) : round(0.84 * height)]
    middle = np.linspace(-1.0, 1.0, band.shape[0], dtype=np.float32)
    _multiply(band, 0.12 + 0.88 * middle**4)
    _text(image, " ".join(text), (0.5 * width, 0.77 * height), Ink(1.9 * unit, colour, align=0.5))
