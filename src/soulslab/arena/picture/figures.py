"""The two fighters from above. A figure's unit is its body's radius; x is ahead, y to the left."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np

from soulslab.arena.boss_file import Boss
from soulslab.arena.picture.canvas import Canvas, Colour, Pose, disc, ellipse, points, sector
from soulslab.arena.picture.motion import Arm, blow_of, boss_arm, knight_arm, sway
from soulslab.arena.player import is_invulnerable
from soulslab.arena.state import PARRIED, ROAMING, STAGGERED, THROWN, Record

STEEL: Colour = (158, 164, 176)
DARK_STEEL: Colour = (92, 98, 112)
CRIMSON: Colour = (148, 30, 34)
LEATHER: Colour = (92, 66, 44)
BLADE: Colour = (226, 232, 240)
WOOD: Colour = (94, 66, 42)
LIGHT_BLUE: Colour = (150, 215, 255)
GOLD: Colour = (255, 206, 96)

Body = Literal["halberd", "daggers", "beast"]


class Look(msgspec.Struct, frozen=True):
    """How a boss is drawn.

    Attributes:
        body: Shape and weapon.
        cloth: Main colour.
        armour: Second colour.
        glow: Colour of its eyes, and of its power in the second phase.
        tint: Colour of the ground that it fights on (see `ground.Place`).
    """

    body: Body
    cloth: Colour
    armour: Colour
    glow: Colour
    tint: tuple[float, float, float]


_LOOKS: dict[Body, Look] = {
    "halberd": Look("halberd", (58, 46, 74), (166, 128, 70), (255, 120, 40), (1.0, 0.96, 0.91)),
    "daggers": Look("daggers", (36, 70, 58), (120, 122, 104), (150, 255, 120), (0.97, 1.0, 0.92)),
    "beast": Look("beast", (128, 152, 176), (214, 230, 242), (110, 220, 255), (0.88, 0.98, 1.12)),
}
#: A body wider than this goes on four legs.
BEAST_RADIUS_M = 1.1


def look_of(boss: Boss) -> Look:
    """Return a boss's look. Boss files say what a boss does, not what it looks like, so its body follows from that."""
    if boss.radius_m > BEAST_RADIUS_M:
        return _LOOKS["beast"]
    throws = any(window.projectile is not None for move in boss.moves for window in move.windows)
    return _LOOKS["daggers" if throws else "halberd"]


# --- the knight ---------------------------------------------------------------------------------------------


def draw_knight(canvas: Canvas, d: Record, f: Record) -> None:
    """Draw the player in whatever it is doing."""
    depth = max(float(f.floor) - float(d.p_z), 0.0) if d.p_falling else 0.0
    alpha = max(1.0 - depth / 3.6, 0.15)
    body = Pose(d.p_x, d.p_y, d.p_fx, d.p_fy, float(f.p_radius) * 1.12 * (1.0 - 0.17 * depth))
    if not d.p_falling:
        canvas.fill(disc(d.p_x + 0.1, d.p_y - 0.14, body.scale * 1.35), (0, 0, 0), 0.4)
    if d.p_anim == f.rolling:
        _rolling(canvas, d, f, body)
    elif d.p_hp <= 0.0 and not d.p_falling:
        _lying(canvas, body, dark=0.45)
    elif _is_down(d, f):
        _lying(canvas, body, dark=1.0)
    else:
        _standing(canvas, d, f, body, alpha)
    if is_invulnerable(d, f) and not d.p_falling and d.p_hp > 0.0:
        canvas.line(disc(d.p_x, d.p_y, body.scale * 1.75), LIGHT_BLUE, 0.05, 0.75, is_closed=True)


def is_hurt(d: Record, f: Record) -> bool:
    """Whether the player is in the animation of a hit."""
    return any(d.p_anim == k.animation for k in f.knock_backs if k.push_ticks > 0)


def _is_down(d: Record, f: Record) -> bool:
    """Whether a hit has thrown the player on the ground; the last part of that animation is getting up."""
    thrown = any(d.p_anim == k.animation and k.invulnerable > 0 for k in f.knock_backs)
    return thrown and 6 <= d.p_ticks < 0.75 * f.animations[d.p_anim].duration


def _standing(canvas: Canvas, d: Record, f: Record, body: Pose, alpha: float) -> None:
    walks = d.p_anim == f.moving
    step = math.sin(d.tick * 0.33) * 0.4 if walks else 0.0
    breath = 0.06 * sway(int(d.tick), 2.4) + 0.5 * step
    lean = 0.0
    if is_hurt(d, f):
        # Thrown back from the blow, and slowly straight again.
        lean = 0.7 * max(1.0 - d.p_ticks / 30.0, 0.0)
        body = body.at(-lean, 0.15, 0.35 * lean)
    if d.p_falling:
        body = body.at(0.0, 0.0, 0.12 * d.p_ticks)
    for side in (1.0, -1.0):
        canvas.solid(body.place(ellipse(side * step, side * 0.5, 0.55, 0.28)), LEATHER, alpha)
    cape = points((-0.1, 0.9), (-1.2, 0.85 + breath), (-1.75, 0.35 + breath), (-1.6, -0.1), (-1.8, -0.5 + breath))
    canvas.solid(body.place(np.concatenate([cape, points((-1.15, -0.85), (-0.1, -0.9))])), CRIMSON, alpha)
    canvas.fill(body.place(points((-0.3, 0.12), (-1.5, 0.2 + breath), (-1.4, -0.12), (-0.3, -0.2))), (104, 18, 24), alpha)
    arm = knight_arm(d, f, -0.75)
    if arm.trail > 0.0:
        a = f.animations[d.p_anim]
        reach = (float(a.reach) + float(f.p_radius)) / body.scale
        _trail(canvas, body, arm, (1.2, reach), (216, 236, 255))
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
    canvas.solid(body.place(points((0.25, 0.1), (-0.5, 0.2), (-1.0, 0.0), (-0.5, -0.2), (0.25, -0.1))), (190, 44, 44), alpha)


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
    """Draw a ball of cloth and steel that turns over, and fading images of where it was."""
    a = f.animations[d.p_anim]
    moving = a.advance_from <= d.p_ticks < a.advance_to
    for back in (3, 2, 1) if moving else ():
        shift = min(0.26 * back, float(a.advance) * float(d.p_ticks))
        canvas.fill(disc(d.p_x - d.p_dx * shift, d.p_y - d.p_dy * shift, body.scale * 0.95), LIGHT_BLUE, 0.26 - 0.06 * back)
    ball = Pose(d.p_x, d.p_y, d.p_dx, d.p_dy, body.scale)
    canvas.solid(ball.place(ellipse(0.0, 0.0, 1.1, 0.95)), DARK_STEEL)
    turn = d.p_ticks / max(int(a.advance_to), 1)
    for part, colour in enumerate((CRIMSON, STEEL, (190, 44, 44), (60, 64, 78))):
        # Each band goes over the top of the ball and vanishes in front.
        place = (turn * 1.5 + part / 4.0) % 1.0 * 2.0 - 1.0
        half = 0.9 * math.sqrt(max(1.0 - place * place, 0.0))
        canvas.fill(ball.place(ellipse(place, 0.0, 0.22 * half + 0.02, half)), colour, 0.95)
    canvas.line(ball.place(points((-0.9, -0.75), (1.2, -1.05))), BLADE, 0.07)


def _lying(canvas: Canvas, body: Pose, dark: float) -> None:
    """Draw the knight flat on its back, head away from the blow."""

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


def _trail(canvas: Canvas, body: Pose, arm: Arm, radii: tuple[float, float], colour: Colour) -> None:
    """Draw the way that a weapon has gone through the air, brightest behind the weapon."""
    first, last = arm.trail_rad
    for share, alpha in ((0.0, 0.16), (0.4, 0.2), (0.7, 0.28)):
        start = first + (last - first) * share
        canvas.fill(body.place(sector(*radii, start, last)), colour, alpha * arm.trail)


# --- the boss -----------------------------------------------------------------------------------------------


def draw_boss(canvas: Canvas, d: Record, f: Record, look: Look) -> None:
    """Draw the boss in whatever it is doing."""
    body = Pose(d.b_x, d.b_y, d.b_fx, d.b_fy, float(f.b_radius))
    alpha = 0.45 if d.won else 1.0
    canvas.fill(disc(d.b_x + 0.2, d.b_y - 0.28, body.scale * 1.35), (0, 0, 0), 0.42)
    if d.phase == 2 and not d.won:
        canvas.glow(d.b_x, d.b_y, body.scale * (2.1 + 0.15 * sway(int(d.tick), 0.9)), look.glow, 0.34)
    if d.b_mode in (STAGGERED, PARRIED, THROWN):
        body = body.at(-0.12, 0.12 * sway(int(d.tick), 0.5), 0.3)
    blow = blow_of(d, f)
    rest = -0.55
    arm = boss_arm(d, blow, rest) if blow else Arm(rest + 0.04 * sway(int(d.tick), 3.0))
    if d.b_mode in (STAGGERED, PARRIED, THROWN) or d.won:
        arm = Arm(-1.9, 0.8)
    if blow and arm.trail > 0.0 and blow.window.n_projectiles == 0:
        reach = 1.0 + float(blow.window.reach) / body.scale
        _trail(canvas, body, arm, (1.1, reach), look.glow if d.phase == 2 else (255, 226, 190))
    {"halberd": _judge, "daggers": _trickster, "beast": _beast}[look.body](canvas, d, body, arm, look, alpha)
    if d.b_mode in (STAGGERED, PARRIED) and not d.won:
        _dazed(canvas, d)


def _walk(d: Record) -> float:
    """Return how far the feet are apart, -1 to 1."""
    return math.sin(d.tick * 0.2) if d.b_mode == ROAMING and d.b_wait > 0 else 0.35


def _judge(canvas: Canvas, d: Record, body: Pose, arm: Arm, look: Look, alpha: float) -> None:
    step, breath = 0.28 * _walk(d), 0.05 * sway(int(d.tick), 2.8)
    for side in (1.0, -1.0):
        canvas.solid(body.place(ellipse(0.1 + side * step, side * 0.42, 0.5, 0.22)), (40, 34, 44), alpha)
    robe = points((0.35, 0.7), (-0.5, 1.0), (-1.35, 0.8 + breath), (-1.15, 0.3), (-1.5, breath), (-1.15, -0.35))
    canvas.solid(body.place(np.concatenate([robe, points((-1.35, -0.8 - breath), (-0.5, -1.0), (0.35, -0.7))])), look.cloth, alpha)
    for y in (0.55, 0.0, -0.55):
        canvas.line(body.place(points((-0.3, y * 0.8), (-1.2, y))), (36, 28, 48), 0.05, alpha)
    _halberd(canvas, body, arm, look, alpha)
    canvas.solid(body.place(ellipse(0.0, 0.0, 0.5, 0.92)), look.cloth, alpha)
    canvas.line(body.place(points((0.35, 0.62), (0.46, 0.0), (0.35, -0.62))), look.armour, 0.08, alpha)
    for side in (1.0, -1.0):
        plate = points((0.42, 0.5), (0.3, 1.1), (-0.1, 1.28), (-0.48, 1.02), (-0.36, 0.5)) * (1.0, side)
        canvas.solid(body.place(plate), look.armour, alpha)
        canvas.fill(body.place(ellipse(0.08, side * 0.88, 0.18, 0.14)), (216, 182, 118), alpha)
    canvas.solid(body.place(disc(0.08, 0.0, 0.42)), (84, 76, 84), alpha)
    crown = [((0.42 + 0.2 * (i % 2)) * math.cos(i * math.pi / 7), (0.42 + 0.2 * (i % 2)) * math.sin(i * math.pi / 7)) for i in range(14)]
    canvas.line(body.place(points(*crown) + (0.08, 0.0)), look.armour, 0.06, alpha, is_closed=True)
    _eyes(canvas, body, (0.4, 0.14), look, alpha)


def _halberd(canvas: Canvas, body: Pose, arm: Arm, look: Look, alpha: float) -> None:
    angle = arm.angle_rad
    hand = (0.25 + 0.75 * math.cos(angle), -0.45 + 0.75 * math.sin(angle))
    for shoulder in ((0.05, -0.85), (0.05, 0.85)):
        canvas.line(body.place(points(shoulder, hand)), look.cloth, body.scale * 0.3, alpha)
    pole = body.at(*hand, angle)
    tip = -1.0 + 3.7 * arm.stretch
    shaft = points((tip - 4.2, 0.075), (tip, 0.075), (tip, -0.075), (tip - 4.2, -0.075))
    canvas.solid(pole.place(shaft), WOOD, alpha)
    axe = points((-0.75, 0.05), (-0.95, 0.5), (-0.45, 0.72), (0.02, 0.5), (-0.15, 0.05))
    canvas.solid(pole.place(axe + (tip, 0.0)), BLADE, alpha)
    canvas.solid(pole.place(points((-0.6, -0.05), (-0.45, -0.42), (-0.25, -0.05)) + (tip, 0.0)), STEEL, alpha)
    canvas.solid(pole.place(points((-0.05, 0.1), (0.75, 0.0), (-0.05, -0.1)) + (tip, 0.0)), BLADE, alpha)
    canvas.solid(pole.place(disc(0.0, 0.0, 0.19)), look.armour, alpha)


def _trickster(canvas: Canvas, d: Record, body: Pose, arm: Arm, look: Look, alpha: float) -> None:
    step, breath = 0.4 * _walk(d), 0.1 * sway(int(d.tick), 1.6)
    for side in (1.0, -1.0):
        canvas.solid(body.place(ellipse(side * step, side * 0.38, 0.48, 0.2)), (40, 34, 30), alpha)
    tails = points((0.2, 0.75), (-0.7, 0.9), (-1.7, 0.7 + breath), (-1.0, 0.2), (-1.9, -0.1 - breath), (-1.0, -0.35))
    canvas.solid(body.place(np.concatenate([tails, points((-1.6, -0.8 + breath), (-0.6, -0.9), (0.2, -0.75))])), look.cloth, alpha)
    for side in (-1.0, 1.0):
        angle = arm.angle_rad if side < 0 else -0.7 * arm.angle_rad + 0.2
        hand = (0.3 + 0.85 * math.cos(angle) * arm.stretch, side * 0.6 + 0.7 * math.sin(angle))
        canvas.line(body.place(points((0.0, side * 0.75), hand)), look.cloth, body.scale * 0.3, alpha)
        dagger = body.at(*hand, angle)
        canvas.solid(dagger.place(points((0.0, 0.13), (0.9, 0.15), (1.6, 0.0), (0.9, -0.1), (0.0, -0.1))), BLADE, alpha)
        canvas.solid(dagger.place(points((-0.05, 0.3), (0.08, 0.3), (0.08, -0.3), (-0.05, -0.3))), look.armour, alpha)
        canvas.solid(dagger.place(disc(-0.1, 0.0, 0.18)), LEATHER, alpha)
    canvas.solid(body.place(ellipse(0.0, 0.0, 0.48, 0.85)), look.cloth, alpha)
    canvas.line(body.place(points((-0.35, 0.6), (0.42, -0.4))), look.armour, 0.08, alpha)
    hood = points((0.62, 0.0), (0.3, 0.42), (-0.25, 0.45), (-0.75, 0.0), (-0.25, -0.45), (0.3, -0.42))
    canvas.solid(body.place(hood), (28, 52, 44), alpha)
    canvas.fill(body.place(ellipse(0.3, 0.0, 0.2, 0.26)), (8, 10, 10), alpha)
    _eyes(canvas, body, (0.38, 0.12), look, alpha)


def _beast(canvas: Canvas, d: Record, body: Pose, arm: Arm, look: Look, alpha: float) -> None:
    """Draw a horned beast on four legs; the paw on the blow's side strikes."""
    step, wag = 0.35 * _walk(d), 0.3 * sway(int(d.tick), 1.4)
    canvas.line(body.place(points((-1.0, 0.0), (-1.5, wag * 0.4), (-1.9, wag), (-2.2, wag * 1.8))), look.cloth, body.scale * 0.22, alpha)
    struck = 1.0 if arm.angle_rad > 0.0 else -1.0
    for ahead in (0.75, -0.75):
        for side in (1.0, -1.0):
            strikes = ahead > 0 and side == struck
            swing = arm.angle_rad * 0.5 if strikes else side * 0.5
            reach = 0.55 + (0.55 * arm.stretch if strikes else 0.15) + side * step * (1 if ahead > 0 else -1)
            _leg(canvas, body.at(ahead * 0.75, side * 0.6, swing), reach, look, alpha)
    canvas.solid(body.place(ellipse(-0.1, 0.0, 1.25, 0.8)), look.cloth, alpha)
    canvas.solid(body.place(ellipse(0.55, 0.0, 0.62, 0.78)), look.cloth, alpha)
    for x, size in ((0.7, 0.5), (0.3, 0.62), (-0.15, 0.6), (-0.55, 0.5), (-0.9, 0.36)):
        spike = points((0.2, size), (-0.35, size * 0.55), (-0.6, 0.0), (-0.35, -size * 0.55), (0.2, -size), (0.05, 0.0))
        canvas.solid(body.place(spike * (0.8, 1.0) + (x, 0.0)), look.armour, alpha)
    head = body.at(1.15, 0.0, 0.25 * arm.angle_rad)
    canvas.solid(head.place(points((-0.3, 0.42), (0.2, 0.4), (0.72, 0.2), (0.8, 0.0), (0.72, -0.2), (0.2, -0.4), (-0.3, -0.42))), look.armour, alpha)
    for side in (1.0, -1.0):
        canvas.solid(head.place(points((0.0, 0.36), (0.25, 0.8), (0.85, 0.85), (0.4, 0.62), (0.25, 0.36)) * (1.0, side)), (236, 244, 250), alpha)
    canvas.line(head.place(points((0.66, 0.1), (0.7, -0.1))), (30, 40, 56), 0.06, alpha)
    _eyes(canvas, head, (0.3, 0.2), look, alpha)


def _leg(canvas: Canvas, leg: Pose, reach: float, look: Look, alpha: float) -> None:
    canvas.line(leg.place(points((0.0, 0.0), (reach, 0.0))), look.cloth, leg.scale * 0.36, alpha)
    canvas.solid(leg.place(disc(reach, 0.0, 0.24)), look.cloth, alpha)
    for side in (0.16, 0.0, -0.16):
        canvas.line(leg.place(points((reach + 0.15, side), (reach + 0.42, side * 1.3))), BLADE, 0.06, alpha)


def _eyes(canvas: Canvas, head: Pose, place: tuple[float, float], look: Look, alpha: float) -> None:
    for side in (1.0, -1.0):
        canvas.fill(head.place(disc(place[0], side * place[1], 0.09, 12)), look.glow, alpha)


def _dazed(canvas: Canvas, d: Record) -> None:
    """Draw sparks that circle over a boss that cannot act."""
    for i in range(6):
        angle = d.tick * 0.07 + i * math.pi / 3
        x, y = d.b_x + 0.75 * math.cos(angle), d.b_y + 0.75 * math.sin(angle)
        canvas.fill(disc(x, y, 0.1, 10), GOLD, 0.9)
        canvas.fill(disc(x, y, 0.2, 14), GOLD, 0.3)
