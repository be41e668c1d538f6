"""Conversion of a boss, the knight and the options of a fight to the arrays that the rules read."""

from __future__ import annotations

import math

import numpy as np

from soulslab.arena import records as st
from soulslab.arena.boss_file import Boss, Projectile, Window
from soulslab.arena.knight_file import Attack, Knight
from soulslab.arena.records import Record, Table
from soulslab.arena.vocabulary import BOSS_ANIMATIONS, UNKNOWN_ANIMATION

#: Ticks after its start in which an attack still turns to its target.
AIM_TICKS = 12
PUSH_TICKS = 12
#: Ticks after a projectile hit in which further projectiles miss: a fan at close range counts as one hit.
HIT_GRACE_TICKS = 9
#: A player this far below the floor dies.
FALL_DEPTH_M = 3.5


def ticks(seconds: float) -> int:
    """Return the first tick at or after a time; a small margin cancels rounding errors such as that of 0.1 * 60."""
    return math.ceil(seconds * st.TICKS_PER_S - 1e-6)


def fight_table(boss: Boss, knight: Knight) -> Table:
    """Return the `FIGHT` record of a boss and a knight as a (1,) array; options are 0 (see `Simulator`)."""
    table = np.zeros(1, st.FIGHT)
    fight = table[0]
    _player(fight, knight)
    _animations(fight.animations, knight)
    _knock_backs(fight.knock_backs, knight)
    write_boss(fight, boss, knight)
    return table


def write_boss(fight: Record, boss: Boss, knight: Knight) -> None:
    """Write a boss and its ground into a `FIGHT` record that has the player's rules, instead of any other boss."""
    for name in ("poses", "moves", "windows", "follow_ups"):
        fight[name][:] = np.zeros((), fight[name].dtype)
    _place(fight, boss)
    _boss(fight, boss)
    _moves(fight, boss, list(knight.knock_backs))


def _animations(table: Table, knight: Knight) -> None:
    for i, (attack_s, roll_s, move_s) in enumerate(knight.locks_s.values()):
        row = table[i]
        row.attack_lock, row.roll_lock, row.move_lock = ticks(attack_s), ticks(roll_s), ticks(move_s)
        row.duration = max(row.attack_lock, row.roll_lock, row.move_lock)
        row.next = row.active_from = row.invulnerable_from = row.parry_from = row.advance_from = -1
        row.light, row.heavy = knight.number(knight.openers.light), knight.number(knight.openers.heavy)
    for name, attack in knight.attacks.items():
        _attack(table[knight.number(name)], attack, knight)
    roll = table[knight.number(knight.roll.animation)]
    roll.stamina = knight.roll.stamina
    roll.invulnerable_from, roll.invulnerable_to = map(ticks, knight.roll.invulnerable_s)
    # The first tick of an animation is tick 1.
    roll.advance_from, roll.advance_to = (max(ticks(moment_s), 1) for moment_s in knight.roll.moving_s)
    roll.advance = knight.roll.distance_m / (roll.advance_to - roll.advance_from)
    roll.duration += ticks(knight.roll.tail_s)
    roll.light = knight.number("AttackRightLightStep")
    parry = table[knight.number(knight.parry.animation)]
    parry.stamina = knight.parry.stamina
    parry.parry_from, parry.parry_to = map(ticks, knight.parry.active_s)
    riposte = table[knight.number(knight.riposte.animation)]
    riposte.invulnerable_from, riposte.invulnerable_to = 0, riposte.duration


def _attack(row: Record, attack: Attack, knight: Knight) -> None:
    row.stamina, row.damage, row.poise_damage = attack.stamina, attack.damage, attack.poise_damage
    row.reach, row.cos_half = attack.reach_m, _arc_cos(attack.arc_rad)
    row.duration += ticks(attack.tail_s)
    row.aim_to = AIM_TICKS
    if attack.active_s is not None:
        row.active_from, row.active_to = map(ticks, attack.active_s)
        # The step forward ends when the attack hits.
        row.advance_from, row.advance_to = max(row.active_from - AIM_TICKS, 0), row.active_from
        row.advance = attack.advance_m / max(row.advance_to - row.advance_from, 1)
    for name in ("next", "light", "heavy"):
        if (follower := getattr(attack, name)) is not None:
            setattr(row, name, knight.number(follower))


def _knock_backs(table: Table, knight: Knight) -> None:
    for row, knock_back in zip(table, knight.knock_backs.values(), strict=False):
        row.animation = knight.number(knock_back.animation)
        row.push_ticks, row.push = PUSH_TICKS, knock_back.push_m / PUSH_TICKS
        row.invulnerable = max(ticks(knock_back.invulnerable_s), HIT_GRACE_TICKS)


def _moves(fight: Record, boss: Boss, knock_backs: list[str]) -> None:
    ids = [move.id for move in boss.moves]
    fight.n_moves = len(ids)
    n_windows = n_follow_ups = 0
    for row, move in zip(fight.moves, boss.moves, strict=False):
        known = move.animation in BOSS_ANIMATIONS
        row.animation = BOSS_ANIMATIONS.index(move.animation) if known else UNKNOWN_ANIMATION
        row.duration, row.cooldown = ticks(move.duration_s), ticks(move.cooldown_s)
        row.phases, row.weight = _phase_bits(move.phases), move.weight
        row.range_low, row.range_high = move.range_m
        # The cosine decreases with the bearing. The limits 0 and pi include all bearings in spite of rounding.
        nearest, farthest = move.bearing_rad
        row.cos_high = math.cos(nearest) if nearest > 0 else 2.0
        row.cos_low = math.cos(farthest) if farthest < 3.1415 else -2.0
        row.first_window, row.n_windows = n_windows, len(move.windows)
        for window in move.windows:
            _window(fight.windows[n_windows], window, knock_backs)
            n_windows += 1
        row.first_follow_up, row.n_follow_ups = n_follow_ups, len(move.follow_ups)
        for follow_up in move.follow_ups:
            follow = fight.follow_ups[n_follow_ups]
            follow.move, follow.phases = ids.index(follow_up.move), _phase_bits(follow_up.phases)
            follow.probability, follow.within = follow_up.probability, follow_up.within_m
            n_follow_ups += 1


def _phase_bits(phases: tuple[int, ...]) -> int:
    return sum(1 << phase for phase in set(phases))


def _window(row: Record, window: Window, knock_backs: list[str]) -> None:
    # The first tick of a move is tick 1.
    row.start = max(ticks(window.start_s), 1)
    row.end = max(ticks(window.end_s), row.start + 1)
    row.knock_back, row.parry = knock_backs.index(window.knock_back), window.parry
    row.aim_to = row.start - ticks(window.aim_s)
    row.damage, row.reach, row.cos_half = window.damage, window.reach_m, _arc_cos(window.arc_rad)
    row.face_cos, row.face_sin = math.cos(window.facing_rad), math.sin(window.facing_rad)
    row.turn_cos, row.turn_sin = _turn(window.tracking_rad_s)
    row.advance_from = max(row.start - ticks(window.advance_s), 1)
    row.advance = window.advance_m / max(row.start - row.advance_from, 1)
    if window.projectile is not None:
        _projectile(row, window.projectile)


def _projectile(row: Record, projectile: Projectile) -> None:
    row.n_projectiles, row.life = projectile.count, ticks(projectile.lifetime_s)
    row.speed, row.radius = projectile.speed_m_s / st.TICKS_PER_S, projectile.radius_m
    first = -projectile.spread_rad * (projectile.count - 1) / 2
    row.first_cos, row.first_sin = math.cos(first), math.sin(first)
    row.spread_cos, row.spread_sin = math.cos(projectile.spread_rad), math.sin(projectile.spread_rad)


def _arc_cos(arc_rad: float) -> float:
    """Return the least cosine within an arc of this full width; a full circle contains every direction."""
    return math.cos(arc_rad / 2) if arc_rad < 6.283 else -2.0


def _turn(rad_s: float) -> tuple[float, float]:
    """Return cosine and sine of the turn of one tick."""
    return math.cos(rad_s / st.TICKS_PER_S), math.sin(rad_s / st.TICKS_PER_S)


def _player(fight: Record, knight: Knight) -> None:
    vitals, speed = knight.vitals, knight.speed
    fight.p_max_hp, fight.p_max_sp, fight.p_radius = vitals.hp, vitals.sp, vitals.radius_m
    fight.sp_regen, fight.sp_pause = vitals.sp_regen_per_s / st.TICKS_PER_S, ticks(vitals.sp_pause_s)
    fight.p_turn_cos, fight.p_turn_sin = _turn(speed.turn_rad_s)
    diagonal_forward = (speed.forward_m_s + speed.side_m_s) / 2
    diagonal_backward = (speed.backward_m_s + speed.side_m_s) / 2
    forward, side, backward = speed.forward_m_s, speed.side_m_s, speed.backward_m_s
    right_half = [forward, diagonal_forward, side, diagonal_backward]
    fight.walk[:] = [*right_half, backward, *right_half[:0:-1]]
    fight.walk[:] /= st.TICKS_PER_S
    names = {"idle": "Idle", "moving": "Move", "fall_start": "FallStart", "fall_loop": "FallLoop"}
    names |= {"rolling": knight.roll.animation, "parrying": knight.parry.animation}
    names |= {"riposte": knight.riposte.animation}
    names |= {"light": knight.openers.light, "heavy": knight.openers.heavy}
    for field, animation in names.items():
        setattr(fight, field, knight.number(animation))
    fight.riposte_reach, fight.riposte_damage = knight.riposte.reach_m, knight.riposte.damage
    fight.riposte_hit = ticks(knight.riposte.hit_s)


def _boss(fight: Record, boss: Boss) -> None:
    fight.b_max_hp, fight.b_max_poise, fight.b_radius = boss.hp, boss.poise, boss.radius_m
    fight.poise_regen = boss.poise_regen_per_s / st.TICKS_PER_S
    fight.b_walk, fight.b_run = boss.walk_m_s / st.TICKS_PER_S, boss.run_m_s / st.TICKS_PER_S
    fight.run_beyond, (fight.keep_near, fight.keep_far) = boss.run_beyond_m, boss.keep_m
    fight.b_turn_cos, fight.b_turn_sin = _turn(boss.turn_rad_s)
    fight.stagger, fight.parried = ticks(boss.stagger_s), ticks(boss.parried_s)
    fight.phase_two_hp = math.floor(boss.hp * boss.phase_two.below)
    fight.phase_two_move = [move.id for move in boss.moves].index(boss.phase_two.move)
    fight.pause_low[:] = [ticks(low) for low, _ in boss.pause_s]
    fight.pause_high[:] = [ticks(high) for _, high in boss.pause_s]
    fight.damage_scale[:] = boss.damage_scale


def _place(fight: Record, boss: Boss) -> None:
    ground = boss.ground
    fight.centre_x, fight.centre_y = ground.centre_m
    fight.radius, fight.floor = ground.radius_m, ground.floor_m
    fight.death_z = max(ground.floor_m - FALL_DEPTH_M, ground.limits_m[2][0])
    fight.cliff_x, fight.cliff_y = math.cos(ground.cliff_rad), math.sin(ground.cliff_rad)
    # A cliff of width 0 contains no direction.
    fight.cliff_cos = math.cos(ground.cliff_width_rad / 2) if ground.cliff_width_rad > 0 else 2.0
    fight.reward_x, fight.reward_y = ground.reward_centre_m
    limits = np.array(ground.limits_m)
    fight.low[:], fight.extent[:] = limits[:, 0], limits[:, 1] - limits[:, 0]
    fight.player_pose[:], fight.boss_pose[:] = ground.player_pose, ground.boss_pose
    fight.n_poses = len(ground.player_poses_random)
    fight.poses[: fight.n_poses] = ground.player_poses_random
