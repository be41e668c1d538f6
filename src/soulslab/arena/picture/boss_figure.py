"""Bosses seen from above. The unit of a figure is its body's radius; x is ahead, y to the left."""

from __future__ import annotations

import math

import numpy as np

from soulslab.arena.blow import blow_of, sway
from soulslab.arena.picture.canvas import Canvas, Pose, arc, disc, ellipse, points
from soulslab.arena.picture.looks import BLADE, GOLD, LEATHER, STEEL, WOOD, Look
from soulslab.arena.picture.weapon_position import Arm, boss_arm, draw_trail
from soulslab.arena.records import PARRIED, ROAMING, STAGGERED, THROWN, Record


def draw_boss(canvas: Canvas, d: Record, f: Record, look: Look) -> None:
    """Draw the boss in its present action."""
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
        draw_trail(canvas, body, arm, (1.1, reach), look.glow if d.phase == 2 else (255, 226, 190))
    {"halberd": _judge, "daggers": _trickster, "beast": _beast}[look.body](canvas, d, body, arm, look, alpha)
    if d.b_mode in (STAGGERED, PARRIED) and not d.won:
        _dazed(canvas, d)


def _walk(d: Record) -> float:
    """Return the offset of the feet in a walk, -1 to 1."""
    return math.sin(d.tick * 0.2) if d.b_mode == ROAMING and d.b_wait > 0 else 0.35


def _judge(canvas: Canvas, d: Record, body: Pose, arm: Arm, look: Look, alpha: float) -> None:
    step, breath = 0.28 * _walk(d), 0.05 * sway(int(d.tick), 2.8)
    for side in (1.0, -1.0):
        canvas.solid(body.place(ellipse(0.1 + side * step, side * 0.42, 0.5, 0.22)), (40, 34, 44), alpha)
    robe = points((0.35, 0.7), (-0.5, 1.0), (-1.35, 0.8 + breath), (-1.15, 0.3), (-1.5, breath), (-1.15, -0.35))
    canvas.solid(
        body.place(np.concatenate([robe, points((-1.35, -0.8 - breath), (-0.5, -1.0), (0.35, -0.7))])),
        look.cloth,
        alpha,
    )
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
    crown = [
        ((0.42 + 0.2 * (i % 2)) * math.cos(i * math.pi / 7), (0.42 + 0.2 * (i % 2)) * math.sin(i * math.pi / 7))
        for i in range(14)
    ]
    canvas.line(body.at(0.08, 0.0).place(points(*crown)), look.armour, 0.06, alpha, is_closed=True)
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
    head = pole.at(tip, 0.0)
    canvas.solid(head.place(axe), BLADE, alpha)
    canvas.solid(head.place(points((-0.6, -0.05), (-0.45, -0.42), (-0.25, -0.05))), STEEL, alpha)
    canvas.solid(head.place(points((-0.05, 0.1), (0.75, 0.0), (-0.05, -0.1))), BLADE, alpha)
    canvas.solid(pole.place(disc(0.0, 0.0, 0.19)), look.armour, alpha)


def _trickster(canvas: Canvas, d: Record, body: Pose, arm: Arm, look: Look, alpha: float) -> None:
    step, breath = 0.4 * _walk(d), 0.1 * sway(int(d.tick), 1.6)
    for side in (1.0, -1.0):
        canvas.solid(body.place(ellipse(side * step, side * 0.38, 0.48, 0.2)), (40, 34, 30), alpha)
    tails = points((0.2, 0.75), (-0.7, 0.9), (-1.7, 0.7 + breath), (-1.0, 0.2), (-1.9, -0.1 - breath), (-1.0, -0.35))
    canvas.solid(
        body.place(np.concatenate([tails, points((-1.6, -0.8 + breath), (-0.6, -0.9), (0.2, -0.75))])),
        look.cloth,
        alpha,
    )
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
    canvas.solid(body.place(hood), (122, 114, 118), alpha)
    canvas.fill(body.place(ellipse(0.3, 0.0, 0.2, 0.26)), (8, 10, 10), alpha)
    _eyes(canvas, body, (0.38, 0.12), look, alpha)


def _beast(canvas: Canvas, d: Record, body: Pose, arm: Arm, look: Look, alpha: float) -> None:
    """Draw a horned beast on three legs; its right paw holds a mace."""
    step, wag = 0.35 * _walk(d), 0.3 * sway(int(d.tick), 1.4)
    # The nose ends where the body ends in the rules; the rest extends backwards.
    _mace(canvas, body.at(-0.15, 0.0), arm, look, alpha)
    back = body.at(-0.5, 0.0)
    body = Pose(back.x, back.y, back.fx, back.fy, 0.86 * back.scale)
    canvas.line(
        body.place(points((-1.0, 0.0), (-1.5, wag * 0.4), (-1.9, wag), (-2.2, wag * 1.8))),
        look.cloth,
        body.scale * 0.22,
        alpha,
    )
    for ahead, side in ((0.6, 1.0), (-0.6, 1.0), (-0.6, -1.0)):
        _leg(canvas, body.at(ahead, side * 0.6, side * 0.5), 0.7 + side * step * math.copysign(1.0, ahead), look, alpha)
    canvas.solid(body.place(ellipse(-0.1, 0.0, 1.25, 0.8)), look.cloth, alpha)
    canvas.solid(body.place(ellipse(0.55, 0.0, 0.62, 0.78)), look.cloth, alpha)
    for x, size in ((0.7, 0.5), (0.3, 0.62), (-0.15, 0.6), (-0.55, 0.5), (-0.9, 0.36)):
        spike = points((0.2, size), (-0.35, size * 0.55), (-0.6, 0.0), (-0.35, -size * 0.55), (0.2, -size), (0.05, 0.0))
        canvas.solid(body.at(x, 0.0).place(spike * (0.8, 1.0)), look.armour, alpha)
    head = body.at(1.15, 0.0, 0.25 * arm.angle_rad)
    canvas.solid(
        head.place(points((-0.3, 0.42), (0.2, 0.4), (0.72, 0.2), (0.8, 0.0), (0.72, -0.2), (0.2, -0.4), (-0.3, -0.42))),
        look.armour,
        alpha,
    )
    for side in (1.0, -1.0):
        canvas.solid(
            head.place(points((0.0, 0.36), (0.25, 0.8), (0.85, 0.85), (0.4, 0.62), (0.25, 0.36)) * (1.0, side)),
            (236, 244, 250),
            alpha,
        )
    canvas.line(head.place(points((0.66, 0.1), (0.7, -0.1))), (30, 40, 56), 0.06, alpha)
    _eyes(canvas, head, (0.3, 0.2), look, alpha)


def _leg(canvas: Canvas, leg: Pose, reach: float, look: Look, alpha: float) -> None:
    canvas.line(leg.place(points((0.0, 0.0), (reach, 0.0))), look.cloth, leg.scale * 0.36, alpha)
    canvas.solid(leg.place(disc(reach, 0.0, 0.24)), look.cloth, alpha)
    for side in (0.16, 0.0, -0.16):
        canvas.line(leg.place(points((reach + 0.15, side), (reach + 0.42, side * 1.3))), BLADE, 0.06, alpha)


def _mace(canvas: Canvas, body: Pose, arm: Arm, look: Look, alpha: float) -> None:
    angle = arm.angle_rad
    paw = (0.55 + 0.7 * math.cos(angle), -0.45 + 0.75 * math.sin(angle))
    canvas.line(body.place(points((0.45, -0.6), paw)), look.cloth, body.scale * 0.36, alpha)
    mace = body.at(*paw, angle)
    end = 1.25 * arm.stretch
    canvas.solid(mace.place(points((-0.4, 0.07), (end, 0.1), (end, -0.1), (-0.4, -0.07))), (72, 78, 92), alpha)
    spikes = arc(1.0, 0.0, 2 * math.pi, 25)[:-1] * np.where(np.arange(24) % 2, 0.4, 0.26)[:, None]
    canvas.solid(mace.at(end, 0.0).place(spikes), look.armour, alpha)
    canvas.fill(mace.place(disc(end, 0.0, 0.22, 16)), (150, 190, 220), alpha)
    canvas.solid(mace.place(disc(0.0, 0.0, 0.22, 16)), look.cloth, alpha)


def _eyes(canvas: Canvas, head: Pose, place: tuple[float, float], look: Look, alpha: float) -> None:
    for side in (1.0, -1.0):
        canvas.fill(head.place(disc(place[0], side * place[1], 0.09, 12)), look.glow, alpha)


def _dazed(canvas: Canvas, d: Record) -> None:
    """Draw sparks that circle above a boss that cannot act."""
    for i in range(6):
        angle = d.tick * 0.07 + i * math.pi / 3
        x, y = d.b_x + 0.75 * math.cos(angle), d.b_y + 0.75 * math.sin(angle)
        canvas.fill(disc(x, y, 0.1, 10), GOLD, 0.9)
        canvas.fill(disc(x, y, 0.2, 14), GOLD, 0.3)
