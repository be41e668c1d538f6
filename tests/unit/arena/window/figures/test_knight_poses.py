"""Poses of the knight: every animation at every moment, and the sword where the rules hit."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from soulslab.arena.blow import half_arc
from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import STAGES, LiveFight, LiveFightOptions
from soulslab.arena.window.figures.knight_poses import KNIGHT, knight_pose, player_strike
from soulslab.arena.window.figures.rig import PARTS, place_parts, tip_of

ANIMATIONS = load_knight().animations
HEAD = PARTS.index("head")


@pytest.fixture
def game() -> LiveFight:
    return LiveFight(load_boss("judge", list(load_knight().knock_backs)), LiveFightOptions(seed=1))


@pytest.mark.parametrize("stage", STAGES)
def test_every_animation_has_finite_places_at_every_moment(game: LiveFight, stage: str) -> None:
    d = game.duel
    for number in range(len(ANIMATIONS)):
        d.p_anim = number
        for ticks in range(0, 300, 13):
            d.p_ticks = d.tick = ticks
            places, _ = place_parts(KNIGHT, knight_pose(d, game.fight, stage, ticks))  # type: ignore[arg-type]
            assert np.isfinite(np.array(places)).all(), ANIMATIONS[number]


def test_the_sword_is_within_reach_and_arc_while_it_hurts(game: LiveFight) -> None:
    d, f = game.duel, game.fight
    n_blows = 0
    for number in range(len(ANIMATIONS)):
        a = f.animations[number]
        if a.active_from < 0:
            continue
        n_blows += 1
        d.p_anim = number
        angles, reaches = [], []
        for ticks in range(a.active_from, a.active_to):
            d.p_ticks = ticks
            x, y, _ = tip_of(KNIGHT, knight_pose(d, f, "fighting", 0))
            angles.append(math.atan2(-x, y))
            reaches.append(math.hypot(x, y))
        assert max(map(abs, angles)) <= half_arc(a) + 1e-6
        assert max(reaches) == pytest.approx(a.reach + f.p_radius)
        if player_strike(d, f).style == "sweep":
            assert max(angles) - min(angles) == pytest.approx(2.0 * half_arc(a))
    assert n_blows == 6


def test_a_roll_goes_head_over_heels_once(game: LiveFight) -> None:
    d, f = game.duel, game.fight
    d.p_anim = f.rolling
    ups, heights = [], []
    for ticks in range(int(f.animations[f.rolling].duration) + 1):
        d.p_ticks = ticks
        place = place_parts(KNIGHT, knight_pose(d, f, "fighting", 0))[0][HEAD]
        ups.append(place[2][2])
        heights.append(place[3][2])
    assert min(ups) < -0.9
    assert ups[0] > 0.9
    assert ups[-1] > 0.9
    assert min(heights) < 0.5
    # Down and up again once only.
    assert sum(before > 0.0 >= after for before, after in pairwise(ups)) == 1


def test_a_thrown_knight_lies_down_and_gets_up(game: LiveFight) -> None:
    d, f = game.duel, game.fight
    d.p_anim = ANIMATIONS.index("DamageExLarge")
    length = int(f.animations[d.p_anim].duration)

    def head_height(ticks: int) -> float:
        d.p_ticks = ticks
        return place_parts(KNIGHT, knight_pose(d, f, "fighting", 0))[0][HEAD][3][2]

    assert head_height(60) < 0.5
    assert head_height(length) > 1.2


def test_walking_to_a_side_moves_the_feet_to_that_side(game: LiveFight) -> None:
    d, f = game.duel, game.fight
    d.p_anim, d.p_ticks = f.moving, 30
    d.p_fx, d.p_fy = d.c_fx, d.c_fy = 0.0, 1.0
    foot = PARTS.index("right_foot")

    def feet(way: tuple[float, float]) -> np.ndarray:
        d.p_dx, d.p_dy = way
        places = []
        for tick in range(60):
            d.tick = tick
            places.append(place_parts(KNIGHT, knight_pose(d, f, "fighting", 0))[0][foot][3])
        return np.ptp(np.array(places), axis=0)

    ahead, aside = feet((0.0, 1.0)), feet((1.0, 0.0))
    assert ahead[1] > 4 * ahead[0]
    assert aside[0] > 4 * aside[1]
