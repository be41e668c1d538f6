"""What a duel's record says about motion: how far a blow is, and where that puts a weapon.

Angles are in rad from straight ahead, + to the left. Shares go from 0 to 1.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from soulslab.arena.picture.canvas import Canvas, Colour, Pose, sector
from soulslab.arena.state import ATTACKING, TICKS_PER_S, Record

Stage = Literal["wind-up", "active", "recovery"]

#: Blows narrower than this go straight ahead; wider than the other one, all around.
THRUST_RAD, SPIN_RAD = 1.3, 5.5
#: Ticks that the trail of a blow stays.
TRAIL_TICKS = 5


class Arm(msgspec.Struct, frozen=True):
    """Where a weapon is.

    Attributes:
        angle_rad: Of the weapon.
        stretch: How far it is reached out, 1 is the length that it has at rest.
        trail_rad: The angles that a blow has gone through, from and to; equal if there is no trail.
        trail: Strength of the trail.
    """

    angle_rad: float
    stretch: float = 1.0
    trail_rad: tuple[float, float] = (0.0, 0.0)
    trail: float = 0.0


class Blow(msgspec.Struct, frozen=True):
    """The part of a boss's move that is under way.

    Attributes:
        stage: Which.
        share: How much of that stage is over.
        window: Row of the fight's windows; that of the last blow during recovery.
        half_rad: Half the window's arc.
        side: +1 if the blow comes from the left, -1 from the right.
    """

    stage: Stage
    share: float
    window: Record
    half_rad: float
    side: float


def ease(share: float) -> float:
    """Return a share with a soft start and end."""
    share = min(max(share, 0.0), 1.0)
    return share * share * (3.0 - 2.0 * share)


def blow_of(d: Record, f: Record) -> Blow | None:
    """Return what the boss's move is at, None if it is in none."""
    if d.b_mode != ATTACKING:
        return None
    move = f.moves[d.b_move]
    place = min(int(d.b_window), int(move.n_windows) - 1)
    window = f.windows[move.first_window + place]
    before = int(f.windows[move.first_window + place - 1].end) if place > 0 else 0
    half = _half(window)
    side = 1.0 if (int(d.b_move) + place) % 2 else -1.0
    now = int(d.b_ticks)
    stage: Stage
    if d.b_window >= move.n_windows or now >= window.end:
        stage, since, until = "recovery", int(window.end), int(move.duration)
    elif now < window.start:
        stage, since, until = "wind-up", before, int(window.start)
    else:
        stage, since, until = "active", int(window.start), int(window.end)
    return Blow(stage, (now - since) / max(until - since, 1), window, half, side)


def _half(row: Record) -> float:
    """Return half the arc of a blow; the cosine of a full circle is less than any."""
    return math.acos(max(min(float(row.cos_half), 1.0), -1.0))


def boss_arm(d: Record, blow: Blow, rest_rad: float) -> Arm:
    """Return where the boss's weapon is in a move."""
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
    """Return where the player's sword is."""
    a = f.animations[d.p_anim]
    now, side = int(d.p_ticks), -1.0 if d.p_anim % 2 else 1.0
    if d.p_anim == f.riposte:
        lunge = ease((now - f.riposte_hit + 12) / 12) - ease((now - f.riposte_hit - 30) / 40)
        return Arm(0.0, 0.5 + 0.6 * lunge)
    if a.active_from < 0:
        # A heavy blow is charged in animations of its own, in which the sword is only drawn back.
        return Arm(-2.5 + 0.05 * math.sin(now * 1.3), 0.9) if a.stamina > 0 and a.next >= 0 else Arm(rest_rad)
    half = _half(a)
    start, end = side * (half + 0.5), -side * (half + 0.3)
    if now < a.active_from:
        return Arm(rest_rad + (start - rest_rad) * ease(1.4 * now / max(int(a.active_from), 1)))
    if now < a.active_to:
        angle = start + (end - start) * ease((now - a.active_from + 1) / (a.active_to - a.active_from))
        return Arm(angle, 1.0, (start, angle), 1.0)
    after = now - int(a.active_to)
    return Arm(end + (rest_rad - end) * ease(after / 25.0 - 0.2), 1.0, (start, end), 1.0 - after / TRAIL_TICKS)


def sway(tick: int, period_s: float) -> float:
    """Return a slow breath, -1 to 1."""
    return math.sin(tick * 2.0 * math.pi / (period_s * TICKS_PER_S))


def draw_trail(canvas: Canvas, body: Pose, arm: Arm, radii: tuple[float, float], colour: Colour) -> None:
    """Draw the way that a weapon has gone through the air, brightest behind the weapon."""
    first, last = arm.trail_rad
    for share, alpha in ((0.0, 0.16), (0.4, 0.2), (0.7, 0.28)):
        start = first + (last - first) * share
        canvas.fill(body.place(sector(*radii, start, last)), colour, alpha * arm.trail)
