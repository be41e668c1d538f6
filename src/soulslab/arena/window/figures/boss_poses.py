"""Builds of the bosses, and their poses as a pure function of the records."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from soulslab.arena.blow import Blow, blow_of, ease, half_arc
from soulslab.arena.boss_file import Boss, Move, Window
from soulslab.arena.boss_rules import (
    TURN_LEFT_90,
    TURN_LEFT_180,
    TURN_RIGHT_90,
    TURN_RIGHT_180,
    WALK_BACK,
    WALK_FRONT,
    WALK_LEFT,
    WALK_RIGHT,
)
from soulslab.arena.live_fight import Stage
from soulslab.arena.picture.looks import BEAST_RADIUS_M, Body, look_of
from soulslab.arena.records import PARRIED, STAGGERED, THROWN, Record
from soulslab.arena.window.figures.pose import (
    Pose,
    PosePattern,
    Row,
    blend,
    breathe,
    key,
    play,
    read_patterns,
    shifted,
    walk,
)
from soulslab.arena.window.figures.rig import Build
from soulslab.arena.window.figures.strikes import Strike, Style, active_pose, strike_patterns, wind_up_pose
from soulslab.config.loading import read_toml

#: Arcs below the first are thrusts, below the second overhead strikes, and above the third spins.
THRUST_RAD, OVERHEAD_RAD, SPIN_RAD = 0.85, 1.35, 5.5
#: An advance faster than this is drawn as running.
RUN_M_S = 11.0
#: Duration of the last part of a wind-up, in which the weapon moves forward, and of the pause after an attack.
RELEASE_TICKS, HOLD_TICKS = 6, 7
#: Height of a leap as a share of its length, and its upper bound.
LEAP_RISE, MOST_RISE = 0.16, 0.65
DEATH_TICKS = 110
_WAYS = {WALK_FRONT: 0.0, WALK_LEFT: math.pi / 2, WALK_RIGHT: -math.pi / 2, WALK_BACK: math.pi}
_TURNS = {TURN_LEFT_90: 1.0, TURN_LEFT_180: 1.0, TURN_RIGHT_90: -1.0, TURN_RIGHT_180: -1.0}


class Figure(msgspec.Struct, frozen=True):
    """Appearance and posture of a boss; the stride of its walk is in units of its scale.

    ``styles`` has the strike style of each window of each move.
    """

    body: Body
    build: Build
    rest: Pose
    styles: tuple[tuple[Style, ...], ...]
    stride: float
    breath_s: float


@cache
def _facts() -> dict[str, dict[str, Any]]:
    return read_toml(Path(__file__).parent / "boss_builds.toml")


def figure_of(boss: Boss) -> Figure:
    """Return a boss's figure, derived from its size and moves, as boss files do not describe appearance."""
    # Reading the files takes some hundredths of a second, which would delay a picture of the fight. In lockstep, a
    # thread that computes for so long may count as one that waits, and the next step then ends before its ticks.
    _patterns()
    strike_patterns()
    body = look_of(boss).body
    facts = _facts()[body]
    build = msgspec.convert(facts["build"], Build)
    build = msgspec.structs.replace(build, scale_m=build.scale_m * (boss.radius_m / facts["radius_m"]))
    styles = tuple(tuple(_style(boss, move, window) for window in move.windows) for move in boss.moves)
    return Figure(body, build, key(**facts["rest"]), styles, facts["stride"], facts["breath_s"])


def _style(boss: Boss, move: Move, window: Window) -> Style:
    """Return the style of an attack; a beast charges on its hands and cannot use its weapon in it."""
    if window.projectile is not None:
        return "throw"
    style: Style | None = _facts()["styles"].get(move.id)
    if style is None:
        style = "burst" if move.id == boss.phase_two.move else _style_by_numbers(window)
    return "ram" if style == "charge" and boss.radius_m > BEAST_RADIUS_M else style


def _style_by_numbers(window: Window) -> Style:
    if window.arc_rad > SPIN_RAD:
        return "spin"
    if window.advance_m / window.advance_s > RUN_M_S:
        return "charge"
    if window.arc_rad < THRUST_RAD:
        return "thrust"
    return "overhead" if window.arc_rad < OVERHEAD_RAD else "sweep"


def boss_pose(figure: Figure, d: Record, f: Record, stage: Stage, stage_ticks: int) -> Pose:
    """Return the boss's pose."""
    tick = int(d.tick)
    idle = breathe(figure.rest, tick, figure.breath_s, 1.6)
    if stage == "won":
        return _dying(figure, stage_ticks)
    found = strike_now(figure, d, f)
    if found is not None:
        return _striking(figure, *found, d, f)
    ticks = int(d.b_ticks)
    if d.b_mode == STAGGERED:
        back, slump = _patterns()["thrown_back"].of(figure.rest), _slumped(figure, tick)
        length = int(f.stagger)
        return play([(0, back), (10, back), (34, slump), (length - 24, slump), (length, idle)], ticks)
    if d.b_mode == PARRIED:
        back, slump = _patterns()["thrown_back"].of(figure.rest), _slumped(figure, tick)
        length = int(f.parried)
        return play([(0, idle), (6, back), (24, back), (48, slump), (length - 16, slump), (length, idle)], ticks)
    if d.b_mode == THROWN:
        return _riposted(figure, f, ticks, tick)
    return _roaming(figure, d, f, idle)


def strike_now(figure: Figure, d: Record, f: Record) -> tuple[Blow, Strike] | None:
    """Return the boss's present attack and its strike, or None if it is not in a move."""
    blow = blow_of(d, f)
    if blow is None:
        return None
    styles = figure.styles[int(d.b_move)]
    return blow, _strike_of(figure.build, styles[min(int(d.b_window), len(styles) - 1)], blow, f)


def _strike_of(build: Build, style: Style, blow: Blow, f: Record) -> Strike:
    """Return the strike of an attack, in the axes and units of the boss's build."""
    window = blow.window
    radius = (float(f.b_radius) + float(window.reach)) / build.scale_m
    face = math.atan2(float(window.face_sin), float(window.face_cos))
    return Strike(style, face, blow.half_rad, radius, blow.side)


def _striking(figure: Figure, blow: Blow, strike: Strike, d: Record, f: Record) -> Pose:
    build, rest = figure.build, figure.rest
    now, start, end = int(d.b_ticks), int(blow.window.start), int(blow.window.end)
    if blow.stage == "active":
        return active_pose(build, rest, strike, (now - start) / max(end - start - 1, 1))
    if blow.stage == "recovery":
        last = active_pose(build, rest, strike, 1.0)
        until = int(f.moves[d.b_move].duration)
        back = [
            (end, last),
            (end + HOLD_TICKS, shifted(last, chest_turn=(0.0, 0.06, 0.0))),
            (max(0.85 * (until - end) + end, end + 12), rest),
        ]
        return play(back, now)
    first, before = rest, 0
    if d.b_window:
        # The wind-up begins at the end of the previous attack of this move.
        window = f.windows[f.moves[d.b_move].first_window + int(d.b_window) - 1]
        earlier = Blow("recovery", 1.0, window, half_arc(window), -blow.side)
        style = figure.styles[int(d.b_move)][int(d.b_window) - 1]
        first, before = active_pose(build, rest, _strike_of(build, style, earlier, f), 1.0), int(window.end)
    return _winding_up(figure, strike, first, (before, start, now), blow)


def _winding_up(figure: Figure, strike: Strike, first: Pose, times: tuple[int, int, int], blow: Blow) -> Pose:
    """Return the pose in the wind-up: back early, held with a tremble, forward at the end."""
    before, start, now = times
    build, rest = figure.build, figure.rest
    wound = wind_up_pose(rest, strike)
    release = max(start - RELEASE_TICKS, before + 0.6 * (start - before))
    raised = before + 0.55 * (release - before)
    swing = active_pose(build, rest, strike, 0.0)
    deep = shifted(wound, chest_turn=(0.12 * strike.side, 0.0, 0.0), hips=(0.0, -0.03, -0.03))
    pose = play([(before, first), (raised, wound), (release, deep), (start, swing)], now)
    advance_from = int(blow.window.advance_from)
    way = float(blow.window.advance) * (start - advance_from) / build.scale_m
    if way > 1.2 and now >= advance_from:
        pose = _coming(figure, pose, strike, (now - advance_from) / max(start - advance_from, 1), way)
    elif way > 1.2 and now >= advance_from - 14:
        crouch = ease((now - advance_from + 14) / 10.0)
        pose = shifted(pose, hips=(0.0, 0.0, -0.14 * crouch), chest_turn=(0.0, 0.25 * crouch, 0.0))
    if raised <= now < release:
        shake = 0.006 * math.sin(2.1 * now)
        pose = shifted(pose, right_hand=(shake, 0.0, shake))
    return pose


def _coming(figure: Figure, pose: Pose, strike: Strike, share: float, way: float) -> Pose:
    """Return a pose that approaches the player: in the air for a leap, otherwise running."""
    if strike.style == "leap":
        pose = pose.copy()
        pose[Row.TUMBLE, 2] += min(LEAP_RISE * way, MOST_RISE) * 4.0 * share * (1.0 - share)
        tuck = math.sin(math.pi * share)
        pose[Row.RIGHT_FOOT] += (0.0, -0.1 * tuck, 0.25 * tuck)
        pose[Row.LEFT_FOOT] += (0.0, 0.1 * tuck, 0.3 * tuck)
        pose[Row.EXTRA, 1] += 0.8 * tuck
        return pose
    running = walk(pose, share * way / (1.5 * figure.stride), 0.0, 1.5 * figure.stride, lift=0.2)
    running[Row.CHEST_TURN, 1] += 0.2
    if figure.body == "beast":
        _paw(running, share * way / (1.5 * figure.stride))
    return blend(pose, running, ease(5.0 * share) * ease(6.0 * (1.0 - share)))


def _paw(pose: Pose, phase: float) -> None:
    """Change a pose so that a beast runs on its hands as well."""
    swing = 2.0 * math.pi * phase
    pose[Row.LEFT_HAND] = (-0.55, 0.55 + 0.3 * math.cos(swing), 0.08 + 0.2 * max(math.sin(swing), 0.0))
    pose[Row.RIGHT_HAND] = (0.6, 0.5 - 0.3 * math.cos(swing), 0.25 + 0.2 * max(-math.sin(swing), 0.0))
    pose[Row.WEAPON] = (-2.2, -0.1, 0.0)


def _roaming(figure: Figure, d: Record, f: Record, idle: Pose) -> Pose:
    number = int(d.b_anim)
    if number in _WAYS:
        way = math.hypot(float(d.b_x - d.p_x), float(d.b_y - d.p_y))
        is_run = number == WALK_FRONT and way > float(f.run_beyond)
        stride = figure.stride * (1.7 if is_run else 1.0)
        speed = float(f.b_run if is_run else f.b_walk) / figure.build.scale_m
        phase = int(d.tick) * speed / stride
        pose = walk(idle, phase, _WAYS[number], stride, lift=0.1)
        if figure.body == "beast":
            swing = 2.0 * math.pi * phase
            pose[Row.LEFT_HAND] += (0.0, 0.22 * math.cos(swing), 0.14 * max(math.sin(swing), 0.0))
        return blend(idle, pose, 0.3 + 0.7 * ease(int(d.b_anim_ticks) / 12.0))
    if number in _TURNS:
        pose = walk(idle, int(d.tick) / 40.0, 0.5 * math.pi * _TURNS[number], 0.35, lift=0.09)
        pose[Row.CHEST_TURN, 0] += 0.25 * _TURNS[number]
        return pose
    return idle


@cache
def _patterns() -> dict[str, PosePattern]:
    return read_patterns("boss_poses.toml", "poses")


def _slumped(figure: Figure, tick: int) -> Pose:
    pose = _patterns()["slumped"].of(figure.rest, math.sin(tick * 0.13))
    pose[Row.HIPS, 2] = 0.6 * figure.rest[Row.HIPS, 2]
    return pose


def _riposted(figure: Figure, f: Record, ticks: int, tick: int) -> Pose:
    hit, end = int(f.riposte_hit), int(f.animations[f.riposte].duration)
    slump, back = _slumped(figure, tick), _patterns()["thrown_back"].of(figure.rest)
    pierced = shifted(slump, chest_turn=(0.0, -0.35, 0.15), head_turn=(0.0, -0.7, 0.0), hips=(0.0, -0.1, 0.04))
    keys = [(0, slump), (hit - 4, slump), (hit + 3, pierced), (hit + 50, pierced), (hit + 62, back), (hit + 90, slump)]
    return play([*keys, (end - 30, slump), (end, figure.rest)], ticks)


def _dying(figure: Figure, ticks: int) -> Pose:
    back, slump = _patterns()["thrown_back"].of(figure.rest), _slumped(figure, 0)
    fallen = _patterns()["fallen"].of(figure.rest)
    fallen[Row.TUMBLE] = (1.1, 0.15, -0.3) if figure.body == "beast" else (1.5, 0.15, -0.42)
    fallen[Row.HIPS] = (0.0, -0.1, float(figure.rest[Row.HIPS, 2]))
    return play([(0, back), (14, back), (46, slump), (68, slump), (DEATH_TICKS, fallen)], ticks)
