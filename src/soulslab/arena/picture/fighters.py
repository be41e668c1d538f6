"""Player and boss seen from above. The unit of a figure is its body's radius; x is ahead, y to the left.

Angles are in rad from straight ahead, + to the left. Shares are from 0 to 1.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from soulslab.arena.blow import Blow, blow_of, ease, half_arc, sway
from soulslab.arena.picture.canvas import Brush, Canvas, Colour, Points, Pose, arc, disc, ellipse, points, sector
from soulslab.arena.picture.looks import BLADE, CRIMSON, DARK_STEEL, GOLD, LEATHER, LIGHT_BLUE, STEEL, WOOD, Look
from soulslab.arena.player_rules import is_invulnerable
from soulslab.arena.records import PARRIED, ROAMING, STAGGERED, THROWN, Record

#: An attack with a narrower arc is drawn as a thrust, one with a wider arc as a spin.
THRUST_RAD, SPIN_RAD = 1.3, 5.5
#: Ticks for which the trail of an attack is visible.
TRAIL_TICKS = 5


class Arm(msgspec.Struct, frozen=True):
    """Direction of a weapon, its length relative to that at rest, and the swept angles and opacity of its trail."""

    angle_rad: float
    stretch: float = 1.0
    trail_rad: tuple[float, float] = (0.0, 0.0)
    trail: float = 0.0


def boss_arm(d: Record, blow: Blow, rest_rad: float) -> Arm:
    """Return the position of the boss's weapon in a move."""
    if blow.window.n_projectiles > 0 or 2 * blow.half_rad < THRUST_RAD:
        return _thrust(blow, rest_rad)
    reach = math.pi if 2 * blow.half_rad > SPIN_RAD else blow.half_rad
    start, end = blow.side * (reach + 0.25), -blow.side * (reach + 0.1)
    if blow.stage == "wind-up":
        return Arm(rest_rad + (start - rest_rad) * ease(blow.share * 1.5))
    if blow.stage == "active":
        angle = start + (end - start) * ease(0.15 + 0.85 * blow.share)
        return Arm(angle, 1.0, (start, angle), 1.0)
    after = int(d.b_ticks) - int(blow.window.end)
    angle = end + (rest_rad - end) * ease(blow.share * 1.6 - 0.3)
    return Arm(angle, 1.0, (start, end), 1.0 - after / TRAIL_TICKS)


def _thrust(blow: Blow, rest_rad: float) -> Arm:
    if blow.stage == "wind-up":
        share = ease(blow.share * 1.4)
        return Arm(rest_rad * (1.0 - share), 1.0 - 0.55 * share)
    if blow.stage == "active":
        out = ease(0.4 + 1.2 * blow.share)
        return Arm(0.0, 0.45 + 0.75 * out, (-blow.half_rad, blow.half_rad), out)
    share = ease(blow.share * 1.6 - 0.2)
    return Arm(rest_rad * share, 1.2 - 0.2 * share)


def knight_arm(d: Record, f: Record, rest_rad: float) -> Arm:
    """Return the position of the player's sword."""
    a = f.animations[d.p_anim]
    now, side = int(d.p_ticks), -1.0 if d.p_anim % 2 else 1.0
    if d.p_anim == f.riposte:
        lunge = ease((now - f.riposte_hit + 12) / 12) - ease((now - f.riposte_hit - 30) / 40)
        return Arm(0.0, 0.5 + 0.6 * lunge)
    if a.active_from < 0:
        # A heavy attack is charged in separate animations, in which the sword is only drawn back.
        return Arm(-2.5 + 0.05 * math.sin(now * 1.3), 0.9) if a.stamina > 0 and a.next >= 0 else Arm(rest_rad)
    half = half_arc(a)
    start, end = side * (half + 0.5), -side * (half + 0.3)
    if now < a.active_from:
        return Arm(rest_rad + (start - rest_rad) * ease(1.4 * now / max(int(a.active_from), 1)))
    if now < a.active_to:
        angle = start + (end - start) * ease((now - a.active_from + 1) / (a.active_to - a.active_from))
        return Arm(angle, 1.0, (start, angle), 1.0)
    after = now - int(a.active_to)
    return Arm(end + (rest_rad - end) * ease(after / 25.0 - 0.2), 1.0, (start, end), 1.0 - after / TRAIL_TICKS)


def draw_trail(body: Brush, arm: Arm, radii: tuple[float, float], colour: Colour) -> None:
    """Draw the area that a weapon has swept, brightest behind the weapon."""
    first, last = arm.trail_rad
    for share, alpha in ((0.0, 0.16), (0.4, 0.2), (0.7, 0.28)):
        start = first + (last - first) * share
        body.fill(sector(*radii, start, last), colour, alpha * arm.trail)


def draw_boss(canvas: Canvas, d: Record, f: Record, look: Look) -> None:
    """Draw the boss in its present action."""
    body = Brush(canvas, Pose(d.b_x, d.b_y, d.b_fx, d.b_fy, float(f.b_radius)), 0.45 if d.won else 1.0)
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
        draw_trail(body, arm, (1.1, reach), look.glow if d.phase == 2 else (255, 226, 190))
    {"halberd": _judge, "daggers": _trickster, "beast": _beast}[look.body](d, body, arm, look)
    if d.b_mode in (STAGGERED, PARRIED) and not d.won:
        _dazed(canvas, d)


def _walk(d: Record) -> float:
    """Return the offset of the feet in a walk, -1 to 1."""
    return math.sin(d.tick * 0.2) if d.b_mode == ROAMING and d.b_wait > 0 else 0.35


def _judge(d: Record, body: Brush, arm: Arm, look: Look) -> None:
    step, breath = 0.28 * _walk(d), 0.05 * sway(int(d.tick), 2.8)
    for side in (1.0, -1.0):
        body.solid(ellipse(0.1 + side * step, side * 0.42, 0.5, 0.22), (40, 34, 44))
    robe = points((0.35, 0.7), (-0.5, 1.0), (-1.35, 0.8 + breath), (-1.15, 0.3), (-1.5, breath), (-1.15, -0.35))
    body.solid(np.concatenate([robe, points((-1.35, -0.8 - breath), (-0.5, -1.0), (0.35, -0.7))]), look.cloth)
    for y in (0.55, 0.0, -0.55):
        body.line(points((-0.3, y * 0.8), (-1.2, y)), (36, 28, 48), 0.05)
    _halberd(body, arm, look)
    body.solid(ellipse(0.0, 0.0, 0.5, 0.92), look.cloth)
    body.line(points((0.35, 0.62), (0.46, 0.0), (0.35, -0.62)), look.armour, 0.08)
    for side in (1.0, -1.0):
        plate = points((0.42, 0.5), (0.3, 1.1), (-0.1, 1.28), (-0.48, 1.02), (-0.36, 0.5)) * (1.0, side)
        body.solid(plate, look.armour)
        body.fill(ellipse(0.08, side * 0.88, 0.18, 0.14), (216, 182, 118))
    body.solid(disc(0.08, 0.0, 0.42), (84, 76, 84))
    body.at(0.08, 0.0).line(_star(14, 0.42, 0.62), look.armour, 0.06, is_closed=True)
    _eyes(body, (0.4, 0.14), look)


def _halberd(body: Brush, arm: Arm, look: Look) -> None:
    angle = arm.angle_rad
    hand = (0.25 + 0.75 * math.cos(angle), -0.45 + 0.75 * math.sin(angle))
    for shoulder in ((0.05, -0.85), (0.05, 0.85)):
        body.line(points(shoulder, hand), look.cloth, body.scale * 0.3)
    pole = body.at(*hand, angle)
    tip = -1.0 + 3.7 * arm.stretch
    pole.solid(points((tip - 4.2, 0.075), (tip, 0.075), (tip, -0.075), (tip - 4.2, -0.075)), WOOD)
    head = pole.at(tip, 0.0)
    head.solid(points((-0.75, 0.05), (-0.95, 0.5), (-0.45, 0.72), (0.02, 0.5), (-0.15, 0.05)), BLADE)
    head.solid(points((-0.6, -0.05), (-0.45, -0.42), (-0.25, -0.05)), STEEL)
    head.solid(points((-0.05, 0.1), (0.75, 0.0), (-0.05, -0.1)), BLADE)
    pole.solid(disc(0.0, 0.0, 0.19), look.armour)


def _trickster(d: Record, body: Brush, arm: Arm, look: Look) -> None:
    step, breath = 0.4 * _walk(d), 0.1 * sway(int(d.tick), 1.6)
    for side in (1.0, -1.0):
        body.solid(ellipse(side * step, side * 0.38, 0.48, 0.2), (40, 34, 30))
    tails = points((0.2, 0.75), (-0.7, 0.9), (-1.7, 0.7 + breath), (-1.0, 0.2), (-1.9, -0.1 - breath), (-1.0, -0.35))
    body.solid(np.concatenate([tails, points((-1.6, -0.8 + breath), (-0.6, -0.9), (0.2, -0.75))]), look.cloth)
    for side in (-1.0, 1.0):
        angle = arm.angle_rad if side < 0 else -0.7 * arm.angle_rad + 0.2
        hand = (0.3 + 0.85 * math.cos(angle) * arm.stretch, side * 0.6 + 0.7 * math.sin(angle))
        body.line(points((0.0, side * 0.75), hand), look.cloth, body.scale * 0.3)
        dagger = body.at(*hand, angle)
        dagger.solid(points((0.0, 0.13), (0.9, 0.15), (1.6, 0.0), (0.9, -0.1), (0.0, -0.1)), BLADE)
        dagger.solid(points((-0.05, 0.3), (0.08, 0.3), (0.08, -0.3), (-0.05, -0.3)), look.armour)
        dagger.solid(disc(-0.1, 0.0, 0.18), LEATHER)
    body.solid(ellipse(0.0, 0.0, 0.48, 0.85), look.cloth)
    body.line(points((-0.35, 0.6), (0.42, -0.4)), look.armour, 0.08)
    hood = points((0.62, 0.0), (0.3, 0.42), (-0.25, 0.45), (-0.75, 0.0), (-0.25, -0.45), (0.3, -0.42))
    body.solid(hood, (122, 114, 118))
    body.fill(ellipse(0.3, 0.0, 0.2, 0.26), (8, 10, 10))
    _eyes(body, (0.38, 0.12), look)


def _beast(d: Record, body: Brush, arm: Arm, look: Look) -> None:
    """Draw a horned beast on three legs; its right paw holds a mace."""
    step, wag = 0.35 * _walk(d), 0.3 * sway(int(d.tick), 1.4)
    # The nose ends where the body ends in the rules; the rest extends backwards.
    _mace(body.at(-0.15, 0.0), arm, look)
    body = body.at(-0.5, 0.0, scale=0.86)
    body.line(points((-1.0, 0.0), (-1.5, wag * 0.4), (-1.9, wag), (-2.2, wag * 1.8)), look.cloth, body.scale * 0.22)
    for ahead, side in ((0.6, 1.0), (-0.6, 1.0), (-0.6, -1.0)):
        _leg(body.at(ahead, side * 0.6, side * 0.5), 0.7 + side * step * math.copysign(1.0, ahead), look)
    body.solid(ellipse(-0.1, 0.0, 1.25, 0.8), look.cloth)
    body.solid(ellipse(0.55, 0.0, 0.62, 0.78), look.cloth)
    for x, size in ((0.7, 0.5), (0.3, 0.62), (-0.15, 0.6), (-0.55, 0.5), (-0.9, 0.36)):
        spike = points((0.2, size), (-0.35, size * 0.55), (-0.6, 0.0), (-0.35, -size * 0.55), (0.2, -size), (0.05, 0.0))
        body.at(x, 0.0).solid(spike * (0.8, 1.0), look.armour)
    head = body.at(1.15, 0.0, 0.25 * arm.angle_rad)
    head.solid(
        points((-0.3, 0.42), (0.2, 0.4), (0.72, 0.2), (0.8, 0.0), (0.72, -0.2), (0.2, -0.4), (-0.3, -0.42)), look.armour
    )
    for side in (1.0, -1.0):
        head.solid(
            points((0.0, 0.36), (0.25, 0.8), (0.85, 0.85), (0.4, 0.62), (0.25, 0.36)) * (1.0, side), (236, 244, 250)
        )
    head.line(points((0.66, 0.1), (0.7, -0.1)), (30, 40, 56), 0.06)
    _eyes(head, (0.3, 0.2), look)


def _leg(leg: Brush, reach: float, look: Look) -> None:
    leg.line(points((0.0, 0.0), (reach, 0.0)), look.cloth, leg.scale * 0.36)
    leg.solid(disc(reach, 0.0, 0.24), look.cloth)
    for side in (0.16, 0.0, -0.16):
        leg.line(points((reach + 0.15, side), (reach + 0.42, side * 1.3)), BLADE, 0.06)


def _mace(body: Brush, arm: Arm, look: Look) -> None:
    angle = arm.angle_rad
    paw = (0.55 + 0.7 * math.cos(angle), -0.45 + 0.75 * math.sin(angle))
    body.line(points((0.45, -0.6), paw), look.cloth, body.scale * 0.36)
    mace = body.at(*paw, angle)
    end = 1.25 * arm.stretch
    mace.solid(points((-0.4, 0.07), (end, 0.1), (end, -0.1), (-0.4, -0.07)), (72, 78, 92))
    mace.at(end, 0.0).solid(_star(24, 0.26, 0.4), look.armour)
    mace.fill(disc(end, 0.0, 0.22, 16), (150, 190, 220))
    mace.solid(disc(0.0, 0.0, 0.22, 16), look.cloth)


def _star(n: int, inner: float, outer: float) -> Points:
    """Return a closed line of n points that alternate between two radii."""
    return arc(1.0, 0.0, 2 * math.pi, n + 1)[:-1] * np.where(np.arange(n) % 2, outer, inner)[:, None]


def _eyes(head: Brush, place: tuple[float, float], look: Look) -> None:
    for side in (1.0, -1.0):
        head.fill(disc(place[0], side * place[1], 0.09, 12), look.glow)


def _dazed(canvas: Canvas, d: Record) -> None:
    """Draw sparks that circle above a boss that cannot act."""
    for i in range(6):
        angle = d.tick * 0.07 + i * math.pi / 3
        x, y = d.b_x + 0.75 * math.cos(angle), d.b_y + 0.75 * math.sin(angle)
        canvas.fill(disc(x, y, 0.1, 10), GOLD, 0.9)
        canvas.fill(disc(x, y, 0.2, 14), GOLD, 0.3)


#: A hit with at least this many ticks without further hits throws the player on the ground.
THROWN_TICKS = 30


def draw_knight(canvas: Canvas, d: Record, f: Record) -> None:
    """Draw the player in its present action."""
    depth = max(float(f.floor) - float(d.p_z), 0.0) if d.p_falling else 0.0
    size = float(f.p_radius) * 1.12 * (1.0 - 0.17 * depth)
    body = Brush(canvas, Pose(d.p_x, d.p_y, d.p_fx, d.p_fy, size), max(1.0 - depth / 3.6, 0.15))
    if not d.p_falling:
        canvas.fill(disc(d.p_x + 0.1, d.p_y - 0.14, body.scale * 1.35), (0, 0, 0), 0.4)
    if d.p_anim == f.rolling:
        _rolling(canvas, d, f, body)
    elif d.p_hp <= 0.0 and not d.p_falling:
        body.fill(ellipse(-0.5, 0.3, 2.3, 1.7) * (1.0, 0.85), (84, 6, 8), 0.6)
        body.fill(ellipse(0.9, -0.9, 1.1, 1.3), (84, 6, 8), 0.5)
        _lying(Brush(canvas, body), dark=0.45)
    elif is_down(d, f):
        _lying(Brush(canvas, body), dark=1.0)
    else:
        _standing(d, f, body)
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


def _standing(d: Record, f: Record, body: Brush) -> None:
    step = math.sin(d.tick * 0.33) * 0.4 if d.p_anim == f.moving else 0.0
    breath = 0.06 * sway(int(d.tick), 2.4) + 0.5 * step
    if is_hurt(d, f):
        # The body leans away from the hit and slowly straightens.
        lean = 0.7 * max(1.0 - d.p_ticks / 30.0, 0.0)
        body = body.at(-lean, 0.15, 0.35 * lean)
    if d.p_falling:
        body = body.at(0.0, 0.0, 0.12 * d.p_ticks)
    for side in (1.0, -1.0):
        body.solid(ellipse(side * step, side * 0.5, 0.55, 0.28), LEATHER)
    cape = points((-0.1, 0.9), (-1.2, 0.85 + breath), (-1.75, 0.35 + breath), (-1.6, -0.1), (-1.8, -0.5 + breath))
    body.solid(np.concatenate([cape, points((-1.15, -0.85), (-0.1, -0.9))]), CRIMSON)
    body.fill(points((-0.3, 0.12), (-1.5, 0.2 + breath), (-1.4, -0.12), (-0.3, -0.2)), (104, 18, 24))
    arm = knight_arm(d, f, -0.75)
    if arm.trail > 0.0:
        a = f.animations[d.p_anim]
        reach = (float(a.reach) + float(f.p_radius)) / body.scale
        draw_trail(body, arm, (1.2, reach), (216, 236, 255))
    _sword(body, arm)
    _shield(d, f, body)
    body.solid(ellipse(0.0, 0.0, 0.6, 1.0), DARK_STEEL)
    for side in (1.0, -1.0):
        body.solid(disc(0.0, side * 0.92, 0.44), STEEL)
        body.fill(disc(0.1, side * 0.98, 0.2), (206, 212, 222))
    # The helmet with its plume.
    body.solid(ellipse(0.12, 0.0, 0.58, 0.5), STEEL)
    body.fill(ellipse(0.05, 0.12, 0.3, 0.2), (208, 214, 224))
    body.line(points((0.5, 0.3), (0.58, 0.0), (0.5, -0.3)), (20, 20, 26), 0.07)
    body.solid(points((0.25, 0.1), (-0.5, 0.2), (-1.0, 0.0), (-0.5, -0.2), (0.25, -0.1)), (190, 44, 44))


def _sword(body: Brush, arm: Arm) -> None:
    angle = arm.angle_rad
    hand = (0.35 + 0.95 * math.cos(angle) * arm.stretch, -0.62 + 0.75 * math.sin(angle))
    body.line(points((0.0, -0.9), hand), DARK_STEEL, body.scale * 0.42)
    sword = body.at(*hand, angle)
    sword.solid(points((0.0, 0.13), (2.9, 0.11), (3.45, 0.0), (2.9, -0.11), (0.0, -0.13)), BLADE)
    sword.line(points((0.1, 0.0), (2.8, 0.0)), (150, 158, 172), 0.03)
    sword.solid(points((-0.08, 0.5), (0.12, 0.5), (0.12, -0.5), (-0.08, -0.5)), (176, 140, 70))
    sword.solid(disc(-0.25, 0.0, 0.24), LEATHER)


def _shield(d: Record, f: Record, body: Brush) -> None:
    a = f.animations[d.p_anim]
    swing = 0.0
    if d.p_anim == f.parrying:
        raised = min(d.p_ticks / max(int(a.parry_from), 1), 1.0)
        swing = max(raised - max(d.p_ticks - int(a.parry_to), 0) / 30.0, 0.0)
    shield = body.at(0.75 + 0.55 * swing, 0.95 - 0.8 * swing, 0.55 - 0.75 * swing)
    outline = points((0.2, 0.72), (0.34, 0.0), (0.2, -0.72), (-0.04, -0.62), (0.06, 0.0), (-0.04, 0.62))
    if d.p_anim == f.parrying and a.parry_from <= d.p_ticks < a.parry_to:
        body.fill(sector(1.3, 2.5, -0.9, 0.9), GOLD, 0.4)
        body.line(sector(2.4, 2.5, -0.9, 0.9), (255, 240, 190), 0.05, 0.9, is_closed=True)
    shield.solid(outline * 1.15, (70, 84, 128))
    shield.line(outline[:3] * 1.05, (200, 176, 110), 0.05)


def _rolling(canvas: Canvas, d: Record, f: Record, body: Pose) -> None:
    """Draw a turning ball of cloth and steel, and fading images at its previous positions."""
    a = f.animations[d.p_anim]
    for back in (3, 2, 1) if a.advance_from <= d.p_ticks < a.advance_to else ():
        shift = min(0.26 * back, float(a.advance) * float(d.p_ticks))
        past = disc(d.p_x - d.p_dx * shift, d.p_y - d.p_dy * shift, body.scale * 0.95)
        canvas.fill(past, LIGHT_BLUE, 0.26 - 0.06 * back)
    ball = Brush(canvas, Pose(d.p_x, d.p_y, d.p_dx, d.p_dy, body.scale))
    ball.solid(ellipse(0.0, 0.0, 1.1, 0.95), DARK_STEEL)
    turn = d.p_ticks / max(int(a.advance_to), 1)
    for part, colour in enumerate((CRIMSON, STEEL, (190, 44, 44), (60, 64, 78))):
        # Each band moves over the top of the ball and disappears at the front.
        place = (turn * 1.5 + part / 4.0) % 1.0 * 2.0 - 1.0
        half = 0.9 * math.sqrt(max(1.0 - place * place, 0.0))
        ball.fill(ellipse(place, 0.0, 0.22 * half + 0.02, half), colour, 0.95)
    ball.line(points((-0.9, -0.75), (1.2, -1.05)), BLADE, 0.07)


def _lying(body: Brush, dark: float) -> None:
    """Draw the knight flat on its back, with the head away from the hit."""

    def shade(colour: Colour) -> Colour:
        return (int(colour[0] * dark), int(colour[1] * dark), int(colour[2] * dark))

    cape = points((-0.6, 1.05), (1.0, 0.95), (1.5, 0.3), (1.2, -0.7), (-0.5, -1.1), (-1.2, 0.0))
    body.solid(cape, shade(CRIMSON))
    for side in (1.0, -1.0):
        body.solid(ellipse(1.45, side * 0.42, 0.75, 0.26), shade(LEATHER))
        body.solid(ellipse(-0.1, side * 1.15, 0.3, 0.62), shade(DARK_STEEL))
    body.solid(ellipse(0.1, 0.0, 0.95, 0.68), shade(STEEL))
    body.solid(disc(-1.15, 0.0, 0.48), shade(STEEL))
    body.line(points((-1.45, 0.26), (-1.5, 0.0), (-1.45, -0.26)), (20, 20, 26), 0.06)
    blade = body.at(-0.2, -1.7, 0.5)
    blade.solid(points((0.0, 0.1), (2.6, 0.1), (3.0, 0.0), (2.6, -0.1), (0.0, -0.1)), shade(BLADE))
