"""The player seen from above. The unit of the figure is its body's radius; x is ahead, y to the left."""

from __future__ import annotations

import math

import numpy as np

from soulslab.arena.blow import sway
from soulslab.arena.picture.canvas import Canvas, Colour, Pose, disc, ellipse, points, sector
from soulslab.arena.picture.looks import BLADE, CRIMSON, DARK_STEEL, GOLD, LEATHER, LIGHT_BLUE, STEEL
from soulslab.arena.picture.weapon_position import Arm, draw_trail, knight_arm
from soulslab.arena.player_rules import is_invulnerable
from soulslab.arena.records import Record

#: A hit with at least this many ticks without further hits throws the player on the ground.
THROWN_TICKS = 30


def draw_knight(canvas: Canvas, d: Record, f: Record) -> None:
    """Draw the player in its present action."""
    depth = max(float(f.floor) - float(d.p_z), 0.0) if d.p_falling else 0.0
    alpha = max(1.0 - depth / 3.6, 0.15)
    body = Pose(d.p_x, d.p_y, d.p_fx, d.p_fy, float(f.p_radius) * 1.12 * (1.0 - 0.17 * depth))
    if not d.p_falling:
        canvas.fill(disc(d.p_x + 0.1, d.p_y - 0.14, body.scale * 1.35), (0, 0, 0), 0.4)
    if d.p_anim == f.rolling:
        _rolling(canvas, d, f, body)
    elif d.p_hp <= 0.0 and not d.p_falling:
        canvas.fill(body.place(ellipse(-0.5, 0.3, 2.3, 1.7) * (1.0, 0.85)), (84, 6, 8), 0.6)
        canvas.fill(body.place(ellipse(0.9, -0.9, 1.1, 1.3)), (84, 6, 8), 0.5)
        _lying(canvas, body, dark=0.45)
    elif is_down(d, f):
        _lying(canvas, body, dark=1.0)
    else:
        _standing(canvas, d, f, body, alpha)
    if is_invulnerable(d, f) and not d.p_falling and d.p_hp > 0.0:
        canvas.line(disc(d.p_x, d.p_y, body.scale * 1.75), LIGHT_BLUE, 0.05, 0.75, is_closed=True)


def is_hurt(d: Record, f: Record) -> bool:
    """Return whether the player is in the animation of a hit."""
    knock_backs = f.knock_backs
    return bool(((knock_backs["animation"] == d.p_anim) & (knock_backs["push_ticks"] > 0)).any())


def is_down(d: Record, f: Record) -> bool:
    """Return whether the player is on the ground: thrown by a hit, until it is up again, or dead."""
    if d.p_hp <= 0.0:
        return True
    knock_backs = f.knock_backs
    throws = (knock_backs["animation"] == d.p_anim) & (knock_backs["invulnerable"] >= THROWN_TICKS)
    return bool(throws.any()) and 6 <= d.p_ticks < 0.75 * f.animations[d.p_anim].duration


def _standing(canvas: Canvas, d: Record, f: Record, body: Pose, alpha: float) -> None:
    walks = d.p_anim == f.moving
    step = math.sin(d.tick * 0.33) * 0.4 if walks else 0.0
    breath = 0.06 * sway(int(d.tick), 2.4) + 0.5 * step
    lean = 0.0
    if is_hurt(d, f):
        # The body leans away from the hit and slowly straightens.
        lean = 0.7 * max(1.0 - d.p_ticks / 30.0, 0.0)
        body = body.at(-lean, 0.15, 0.35 * lean)
    if d.p_falling:
        body = body.at(0.0, 0.0, 0.12 * d.p_ticks)
    for side in (1.0, -1.0):
        canvas.solid(body.place(ellipse(side * step, side * 0.5, 0.55, 0.28)), LEATHER, alpha)
    cape = points((-0.1, 0.9), (-1.2, 0.85 + breath), (-1.75, 0.35 + breath), (-1.6, -0.1), (-1.8, -0.5 + breath))
    canvas.solid(body.place(np.concatenate([cape, points((-1.15, -0.85), (-0.1, -0.9))])), CRIMSON, alpha)
    canvas.fill(
        body.place(points((-0.3, 0.12), (-1.5, 0.2 + breath), (-1.4, -0.12), (-0.3, -0.2))), (104, 18, 24), alpha
    )
    arm = knight_arm(d, f, -0.75)
    if arm.trail > 0.0:
        a = f.animations[d.p_anim]
        reach = (float(a.reach) + float(f.p_radius)) / body.scale
        draw_trail(canvas, body, arm, (1.2, reach), (216, 236, 255))
    _sword(canvas, body, arm, alpha)
    _shield(canvas, d, f, body, alpha)
    canvas.solid(body.place(ellipse(0.0, 0.0, 0.6, 1.0)), DARK_STEEL, alpha)
    for side in (1.0, -1.0):
        canvas.solid(body.place(disc(0.0, side * 0.92, 0.44)), STEEL, alpha)
        canvas.fill(body.place(disc(0.1, side * 0.98, 0.2)), (206, 212, 222), alpha)
    _helmet(canvas, body, alpha)


def _helmet(canvas: Canvas, body: Pose, alpha: float) -> None:
    canvas.solid(body.place(ellipse(0.12, 0.0, 0.58, 0.5)), STEEL, alpha)
    canvas.fill(body.place(ellipse(0.05, 0.12, 0.3, 0.2)), (208, 214, 224), alpha)
    canvas.line(body.place(points((0.5, 0.3), (0.58, 0.0), (0.5, -0.3))), (20, 20, 26), 0.07, alpha)
    canvas.solid(
        body.place(points((0.25, 0.1), (-0.5, 0.2), (-1.0, 0.0), (-0.5, -0.2), (0.25, -0.1))), (190, 44, 44), alpha
    )


def _sword(canvas: Canvas, body: Pose, arm: Arm, alpha: float) -> None:
    angle = arm.angle_rad
    hand = (0.35 + 0.95 * math.cos(angle) * arm.stretch, -0.62 + 0.75 * math.sin(angle))
    canvas.line(body.place(points((0.0, -0.9), hand)), DARK_STEEL, body.scale * 0.42, alpha)
    sword = body.at(*hand, angle)
    blade = points((0.0, 0.13), (2.9, 0.11), (3.45, 0.0), (2.9, -0.11), (0.0, -0.13))
    canvas.solid(sword.place(blade), BLADE, alpha)
    canvas.line(sword.place(points((0.1, 0.0), (2.8, 0.0))), (150, 158, 172), 0.03, alpha)
    canvas.solid(sword.place(points((-0.08, 0.5), (0.12, 0.5), (0.12, -0.5), (-0.08, -0.5))), (176, 140, 70), alpha)
    canvas.solid(sword.place(disc(-0.25, 0.0, 0.24)), LEATHER, alpha)


def _shield(canvas: Canvas, d: Record, f: Record, body: Pose, alpha: float) -> None:
    a = f.animations[d.p_anim]
    swing = 0.0
    if d.p_anim == f.parrying:
        swing = min(d.p_ticks / max(int(a.parry_from), 1), 1.0) - max(d.p_ticks - int(a.parry_to), 0) / 30.0
    swing = max(swing, 0.0)
    shield = body.at(0.75 + 0.55 * swing, 0.95 - 0.8 * swing, 0.55 - 0.75 * swing)
    outline = points((0.2, 0.72), (0.34, 0.0), (0.2, -0.72), (-0.04, -0.62), (0.06, 0.0), (-0.04, 0.62))
    if d.p_anim == f.parrying and a.parry_from <= d.p_ticks < a.parry_to:
        canvas.fill(body.place(sector(1.3, 2.5, -0.9, 0.9)), GOLD, 0.4)
        canvas.line(body.place(sector(2.4, 2.5, -0.9, 0.9)), (255, 240, 190), 0.05, 0.9, is_closed=True)
    canvas.solid(shield.place(outline * 1.15), (70, 84, 128), alpha)
    canvas.line(shield.place(outline[:3] * 1.05), (200, 176, 110), 0.05, alpha)


def _rolling(canvas: Canvas, d: Record, f: Record, body: Pose) -> None:
    """Draw a turning ball of cloth and steel, and fading images at its previous positions."""
    a = f.animations[d.p_anim]
    moving = a.advance_from <= d.p_ticks < a.advance_to
    for back in (3, 2, 1) if moving else ():
        shift = min(0.26 * back, float(a.advance) * float(d.p_ticks))
        canvas.fill(
            disc(d.p_x - d.p_dx * shift, d.p_y - d.p_dy * shift, body.scale * 0.95), LIGHT_BLUE, 0.26 - 0.06 * back
        )
    ball = Pose(d.p_x, d.p_y, d.p_dx, d.p_dy, body.scale)
    canvas.solid(ball.place(ellipse(0.0, 0.0, 1.1, 0.95)), DARK_STEEL)
    turn = d.p_ticks / max(int(a.advance_to), 1)
    for part, colour in enumerate((CRIMSON, STEEL, (190, 44, 44), (60, 64, 78))):
        # Each band moves over the top of the ball and disappears at the front.
        place = (turn * 1.5 + part / 4.0) % 1.0 * 2.0 - 1.0
        half = 0.9 * math.sqrt(max(1.0 - place * place, 0.0))
        canvas.fill(ball.place(ellipse(place, 0.0, 0.22 * half + 0.02, half)), colour, 0.95)
    canvas.line(ball.place(points((-0.9, -0.75), (1.2, -1.05))), BLADE, 0.07)


def _lying(canvas: Canvas, body: Pose, dark: float) -> None:
    """Draw the knight flat on its back, with the head away from the hit."""

    def shade(colour: Colour) -> Colour:
        return (int(colour[0] * dark), int(colour[1] * dark), int(colour[2] * dark))

    cape = points((-0.6, 1.05), (1.0, 0.95), (1.5, 0.3), (1.2, -0.7), (-0.5, -1.1), (-1.2, 0.0))
    canvas.solid(body.place(cape), shade(CRIMSON))
    for side in (1.0, -1.0):
        canvas.solid(body.place(ellipse(1.45, side * 0.42, 0.75, 0.26)), shade(LEATHER))
        canvas.solid(body.place(ellipse(-0.1, side * 1.15, 0.3, 0.62)), shade(DARK_STEEL))
    canvas.solid(body.place(ellipse(0.1, 0.0, 0.95, 0.68)), shade(STEEL))
    canvas.solid(body.place(disc(-1.15, 0.0, 0.48)), shade(STEEL))
    canvas.line(body.place(points((-1.45, 0.26), (-1.5, 0.0), (-1.45, -0.26))), (20, 20, 26), 0.06)
    blade = body.at(-0.2, -1.7, 0.5)
    canvas.solid(blade.place(points((0.0, 0.1), (2.6, 0.1), (3.0, 0.0), (2.6, -0.1), (0.0, -0.1))), shade(BLADE))
