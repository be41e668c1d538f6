"""Direction of weapons in attacks, seen from above.

Angles are in rad from straight ahead, + to the left. Shares are from 0 to 1.
"""

from __future__ import annotations

import math

import msgspec

from soulslab.arena.blow import Blow, ease, half_arc
from soulslab.arena.picture.canvas import Canvas, Colour, Pose, sector
from soulslab.arena.records import Record

#: An attack with a narrower arc is drawn as a thrust, one with a wider arc as a spin.
THRUST_RAD, SPIN_RAD = 1.3, 5.5
#: Ticks for which the trail of an attack is visible.
TRAIL_TICKS = 5


class Arm(msgspec.Struct, frozen=True):
    """Position of a weapon.

    Attributes:
        angle_rad: Direction of the weapon.
        stretch: Length of the weapon relative to its length at rest.
        trail_rad: Angles that the attack has swept, from and to; equal if there is no trail.
        trail: Opacity of the trail.
    """

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


def draw_trail(canvas: Canvas, body: Pose, arm: Arm, radii: tuple[float, float], colour: Colour) -> None:
    """Draw the area that a weapon has swept, brightest behind the weapon."""
    first, last = arm.trail_rad
    for share, alpha in ((0.0, 0.16), (0.4, 0.2), (0.7, 0.28)):
        start = first + (last - first) * share
        canvas.fill(body.place(sector(*radii, start, last)), colour, alpha * arm.trail)
