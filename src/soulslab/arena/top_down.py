"""Picture of a duel from above, as returned by `ArenaEnv.render`.

x points right and y up. The picture follows the fight: it is centred between player and boss, and its scale shows both.
It is a function of the duel's record only, so equal states give equal pictures.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.blow import Blow, blow_of, ease
from soulslab.arena.boss_file import Boss
from soulslab.arena.duel_rules import replay_ticks
from soulslab.arena.picture.canvas import Canvas, Colour, Pose, disc, points, sector
from soulslab.arena.picture.fighters import draw_boss, draw_knight, is_down, is_hurt
from soulslab.arena.picture.ground_texture import cut_out
from soulslab.arena.picture.looks import BLADE, GOLD, Look, look_of
from soulslab.arena.picture.overlay import draw_hud, place_of
from soulslab.arena.records import MAX_PROJECTILES, PARRIED, THROWN, Record, Table

HEIGHT_PX = 540
#: Simulation ticks between two pictures of a film (30 frames a second).
TICKS_PER_FRAME = 2
ASPECT = 16 / 9
#: Least height of the visible ground, and the margin around both fighters.
LEAST_M, FREE_M = 11.5, 7.0
#: Height of the view's centre as a share of the image; the boss's bar covers the lower edge.
MIDDLE = 0.47

AMBER: Colour = (255, 176, 60)
RED: Colour = (255, 52, 36)
FLASH: Colour = (255, 236, 214)
BLOOD: Colour = (196, 20, 24)
SPARK_TICKS = 9


def draw_duel(
    boss: Boss, fight: Record, duel: Record, *, height_px: int = HEIGHT_PX, has_hud: bool = True
) -> NDArray[np.uint8]:
    """Draw one duel, (H, W, 3) uint8 RGB; ``height_px`` is rounded to an even number, and W is 16/9 of it."""
    height = 2 * round(height_px / 2)
    width = 2 * round(height * ASPECT / 2)
    look = look_of(boss)
    centre, px_per_m = _view(duel, height)
    middle = (width / 2, MIDDLE * height)
    from_centre = (centre[0] - float(fight.centre_x), centre[1] - float(fight.centre_y))
    image = cut_out(place_of(fight, look), from_centre, middle, px_per_m, (width, height))
    canvas = Canvas(image, centre, middle, px_per_m)
    blow = blow_of(duel, fight)
    if blow is not None and not duel.over:
        _telegraph(canvas, duel, fight, blow)
    _camera(canvas, duel)
    if is_down(duel, fight):
        draw_knight(canvas, duel, fight)
    draw_boss(canvas, duel, fight, look)
    if not is_down(duel, fight):
        draw_knight(canvas, duel, fight)
    _projectiles(canvas, duel, look)
    _sparks(canvas, duel, fight)
    if duel.lock_on and not duel.over:
        _lock_on(canvas, duel)
    if has_hud:
        draw_hud(image, boss, fight, duel, look)
    return image


def draw_step(boss: Boss, fight: Record, before: Table, after: Record, action: int) -> list[NDArray[np.uint8]]:
    """Draw a step as film frames: a picture every `TICKS_PER_FRAME` ticks; the last one shows ``after``.

    ``before`` (1,) is a copy of the duel from before the step; it is advanced in place.
    """
    n_ticks = int(after.tick - before[0].tick)
    pictures = [
        draw_duel(boss, fight, duel)
        for duel in replay_ticks(before, fight, action, n_ticks - 1)
        if duel.tick % TICKS_PER_FRAME == 0
    ]
    return [*pictures, draw_duel(boss, fight, after)]


def _view(d: Record, height: int) -> tuple[tuple[float, float], float]:
    """Return the centre of the view and the pixels per metre, so that both fighters are well inside the picture."""
    dx, dy = abs(float(d.b_x - d.p_x)), abs(float(d.b_y - d.p_y))
    shown_m = max(LEAST_M, dy + FREE_M, (dx + FREE_M) / ASPECT)
    return ((float(d.p_x + d.b_x) / 2, float(d.p_y + d.b_y) / 2), height / shown_m)


# --- the boss's attack --------------------------------------------------------------------------------------


def _telegraph(canvas: Canvas, d: Record, f: Record, blow: Blow) -> None:
    """Mark the area of the next attack: an outline that fills until the attack, and a flash while it hits."""
    if blow.stage == "recovery":
        return
    if blow.window.n_projectiles > 0:
        _fan(canvas, d, blow)
        return
    w = blow.window
    step = _way_left(d, f, blow)
    turned = math.atan2(float(w.face_sin), float(w.face_cos))
    origin = Pose(d.b_x, d.b_y, d.b_fx, d.b_fy).at(step, 0.0, turned)
    # The rules test whether the player's body overlaps this circle.
    reach = float(f.b_radius) + float(w.reach)
    area = disc(0.0, 0.0, reach, 56) if blow.half_rad > 3.1 else sector(0.0, reach, -blow.half_rad, blow.half_rad)
    if step > 0.3:
        _lane(canvas, d, f, step)
    if blow.stage == "active":
        strength = 1.0 - 0.6 * blow.share
        canvas.fill(origin.place(area), FLASH if blow.share < 0.25 else RED, 0.45 * strength)
        canvas.line(origin.place(area), FLASH, 0.07, 0.9 * strength, is_closed=True)
        return
    near = blow.share
    colour = _mix(AMBER, RED, ease(near))
    canvas.fill(origin.place(area), colour, 0.05 + 0.07 * near)
    canvas.fill(origin.place(area * near), colour, 0.10 + 0.16 * near)
    canvas.line(origin.place(area), colour, 0.045, 0.25 + 0.55 * near, is_closed=True)


def _way_left(d: Record, f: Record, blow: Blow) -> float:
    """Return how far the boss will still advance in m if the player does not move; contact ends the advance."""
    w = blow.window
    if blow.stage != "wind-up":
        return 0.0
    left = float(w.advance) * (int(w.start) - max(int(w.advance_from), int(d.b_ticks)))
    dx, dy = float(d.p_x - d.b_x), float(d.p_y - d.b_y)
    ahead, aside = dx * d.b_fx + dy * d.b_fy, abs(dx * d.b_fy - dy * d.b_fx)
    contact = float(f.p_radius + f.b_radius)
    if ahead > 0.0 and aside < contact:
        left = min(left, ahead - math.sqrt(contact**2 - aside**2))
    return max(left, 0.0)


def _lane(canvas: Canvas, d: Record, f: Record, way: float) -> None:
    """Draw the path of the boss's advance as fading chevrons."""
    body, half = Pose(d.b_x, d.b_y, d.b_fx, d.b_fy), float(f.b_radius) * 0.6
    n = max(int(way / 0.9), 1)
    for i in range(n):
        x = float(f.b_radius) + way * (i + 0.5) / n
        chevron = points((x - 0.3, half), (x + 0.1, 0.0), (x - 0.3, -half))
        canvas.line(body.place(chevron), AMBER, 0.08, 0.75 - 0.45 * i / n)


def _fan(canvas: Canvas, d: Record, blow: Blow) -> None:
    """Draw the paths of the projectiles."""
    w = blow.window
    if blow.stage == "active":
        return
    first = math.atan2(float(w.first_sin), float(w.first_cos))
    spread = math.atan2(float(w.spread_sin), float(w.spread_cos))
    far, half = float(w.speed) * int(w.life), float(w.radius)
    body = Pose(d.b_x, d.b_y, d.b_fx, d.b_fy)
    for i in range(int(w.n_projectiles)):
        line = body.at(0.0, 0.0, first + i * spread)
        lane = points((0.8, half), (far, half), (far, -half), (0.8, -half))
        canvas.fill(line.place(lane), AMBER, 0.05 + 0.10 * blow.share)
        end = 0.8 + (far - 0.8) * ease(blow.share)
        canvas.line(
            line.place(points((0.8, 0.0), (end, 0.0))), _mix(AMBER, RED, blow.share), 0.05, 0.3 + 0.4 * blow.share
        )


def _projectiles(canvas: Canvas, d: Record, look: Look) -> None:
    for i in range(MAX_PROJECTILES):
        if d.q_ticks[i] == 0:
            continue
        x, y, vx, vy = (float(v) for v in d.q_pose[i])
        speed = math.hypot(vx, vy)
        dagger = Pose(x, y, vx / speed, vy / speed)
        tail = min(8 * speed, math.hypot(x - float(d.b_x), y - float(d.b_y)))
        radius = float(d.q_radius[i])
        canvas.fill(dagger.place(points((0.0, 0.14), (-tail, 0.0), (0.0, -0.14))), look.glow, 0.4)
        canvas.fill(dagger.place(disc(0.0, 0.0, radius)), look.glow, 0.14)
        canvas.line(dagger.place(disc(0.0, 0.0, radius)), look.glow, 0.03, 0.6, is_closed=True)
        canvas.solid(dagger.place(points((-0.1, 0.09), (0.25, 0.1), (0.6, 0.0), (0.25, -0.1), (-0.1, -0.09))), BLADE)
        canvas.solid(dagger.place(points((-0.16, 0.22), (-0.08, 0.22), (-0.08, -0.22), (-0.16, -0.22))), look.armour)
        canvas.line(dagger.place(points((-0.12, 0.0), (-0.4, 0.0))), (70, 48, 34), 0.12)


# --- markers ------------------------------------------------------------------------------------------------


def _camera(canvas: Canvas, d: Record) -> None:
    """Draw the direction of the camera: two short lines ahead of the player."""
    view = Pose(d.p_x, d.p_y, d.c_fx, d.c_fy)
    alpha = 0.35 if d.lock_on else 0.6
    canvas.line(view.place(points((1.5, 0.3), (1.75, 0.0), (1.5, -0.3))), (210, 224, 255), 0.05, alpha)


def _lock_on(canvas: Canvas, d: Record) -> None:
    for radius, alpha in ((0.26, 0.35), (0.12, 0.95)):
        canvas.fill(disc(d.b_x, d.b_y, radius, 20), (250, 250, 255), alpha)


def _sparks(canvas: Canvas, d: Record, f: Record) -> None:
    """Draw the effect of a hit on the player, on the boss, or on the shield."""
    ux, uy = float(d.b_x - d.p_x), float(d.b_y - d.p_y)
    norm = max(math.hypot(ux, uy), 1e-9)
    ux, uy = ux / norm, uy / norm
    if is_hurt(d, f) and d.p_ticks < SPARK_TICKS and d.p_hp > 0.0:
        age = d.p_ticks / SPARK_TICKS
        _burst(canvas, Pose(d.p_x + 0.2 * ux, d.p_y + 0.2 * uy, ux, uy, 1.5), age, BLOOD)
        canvas.line(disc(d.p_x, d.p_y, 0.6 + 0.9 * age), RED, 0.09, 0.8 * (1 - age), is_closed=True)
    surface = (float(d.b_x) - 0.75 * float(f.b_radius) * ux, float(d.b_y) - 0.75 * float(f.b_radius) * uy)
    a = f.animations[d.p_anim]
    since = int(d.p_ticks) - int(a.active_from)
    if d.p_has_hit and 0 <= since < SPARK_TICKS + 2:
        _burst(canvas, Pose(*surface, ux, uy), since / (SPARK_TICKS + 2), FLASH)
    since = int(d.b_ticks) - int(f.riposte_hit)
    if d.b_mode == THROWN and 0 <= since < 2 * SPARK_TICKS:
        _burst(canvas, Pose(*surface, ux, uy, 1.8), since / (2 * SPARK_TICKS), BLOOD)
    if d.b_mode == PARRIED and d.b_ticks < 2 * SPARK_TICKS:
        between = Pose(d.p_x + 0.9 * ux, d.p_y + 0.9 * uy, ux, uy, 2.0)
        _burst(canvas, between, d.b_ticks / (2 * SPARK_TICKS), GOLD)


def _burst(canvas: Canvas, centre: Pose, age: float, colour: Colour) -> None:
    """Draw rays that expand; ``age`` is from 0 to 1."""
    out = 0.25 + 0.9 * ease(age)
    for i in range(9):
        ray = centre.at(0.0, 0.0, i * 2 * math.pi / 9 + 0.4)
        length = out * (1.0 if i % 2 else 0.7)
        canvas.fill(
            ray.place(points((length * age, 0.07), (length, 0.0), (length * age, -0.07))), colour, 1.0 - 0.8 * age
        )
    canvas.fill(centre.place(disc(0.0, 0.0, 0.2 * (1 - age) + 0.02)), (255, 250, 236), 0.85 * (1 - age))


def _mix(first: Colour, second: Colour, share: float) -> Colour:
    """Return a colour interpolated between two."""
    r, g, b = (round(x + (y - x) * share) for x, y in zip(first, second, strict=True))
    return (r, g, b)
