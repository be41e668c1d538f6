"""Poses of the bosses: every move at every moment, weapons where the rules hit, and distinct wind-ups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from soulslab.arena.boss_file import BOSS_DIR, boss_names, load_boss, parse_boss
from soulslab.arena.boss_rules import IDLE, TURN_LEFT_90, WALK_BACK, WALK_FRONT, WALK_LEFT, WALK_RIGHT
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import STAGES, LiveFight, LiveFightOptions
from soulslab.arena.records import ATTACKING, PARRIED, ROAMING, STAGGERED, THROWN
from soulslab.arena.window.figures.boss_poses import boss_pose, figure_of, strike_now
from soulslab.arena.window.figures.effects import tendril_line
from soulslab.arena.window.figures.rig import free_palm_of, place_parts, tip_of
from soulslab.arena.window.figures.strikes import BY_WEAPON, Strike, Style, strike_patterns, wind_up_pose

KNOCK_BACKS = tuple(load_knight().knock_backs)


def new_game(boss: str) -> LiveFight:
    return LiveFight(load_boss(boss, KNOCK_BACKS), LiveFightOptions(seed=1))


def at(game: LiveFight, move: int, ticks: int) -> None:
    """Set the boss to a moment of a move, as the rules do."""
    d, f = game.duel, game.fight
    row = f.moves[move]
    d.b_mode, d.b_move, d.b_ticks = ATTACKING, move, ticks
    d.b_window = sum(ticks >= f.windows[row.first_window + i].end for i in range(row.n_windows))


def windows(game: LiveFight) -> Iterator[tuple[int, int]]:
    """Yield (move, row of the window) for each window of a boss."""
    for move in range(int(game.fight.n_moves)):
        row = game.fight.moves[move]
        for i in range(int(row.n_windows)):
            yield move, int(row.first_window) + i


@pytest.mark.parametrize("name", boss_names())
def test_every_move_has_finite_places_at_every_moment(name: str) -> None:
    game = new_game(name)
    figure = figure_of(game.boss)
    for move in range(int(game.fight.n_moves)):
        for ticks in range(0, int(game.fight.moves[move].duration), 5):
            at(game, move, ticks)
            pose = boss_pose(figure, game.duel, game.fight, "fighting", 0)
            places, stretch = place_parts(figure.build, pose)
            assert np.isfinite(np.array(places)).all()
            assert 0.0 < stretch < 5.0


@pytest.mark.parametrize("name", boss_names())
def test_every_other_state_has_finite_places(name: str) -> None:
    game = new_game(name)
    figure = figure_of(game.boss)
    d = game.duel
    d.b_move = -1
    for mode in (ROAMING, STAGGERED, PARRIED, THROWN):
        for animation in (IDLE, WALK_FRONT, WALK_BACK, WALK_LEFT, WALK_RIGHT, TURN_LEFT_90):
            for ticks in range(0, 200, 17):
                d.b_mode, d.b_anim, d.b_ticks, d.b_anim_ticks, d.tick = mode, animation, ticks, ticks, ticks
                for stage in STAGES:
                    pose = boss_pose(figure, d, game.fight, stage, ticks)
                    assert np.isfinite(np.array(place_parts(figure.build, pose)[0])).all()


@pytest.mark.parametrize("name", boss_names())
def test_the_weapon_is_where_the_rules_hit(name: str) -> None:
    game = new_game(name)
    figure = figure_of(game.boss)
    d, f = game.duel, game.fight
    n_blows = 0
    for move, row in windows(game):
        window = f.windows[row]
        tips = []
        for ticks in range(int(window.start), int(window.end)):
            at(game, move, ticks)
            found = strike_now(figure, d, f)
            assert found is not None
            blow, strike = found
            assert blow.stage == "active"
            tips.append(tip_of(figure.build, boss_pose(figure, d, f, "fighting", 0)))
        if strike.style not in BY_WEAPON:
            continue
        n_blows += 1
        check_sweeps_window(np.array(tips), strike, float(f.b_radius + window.reach))
    assert n_blows >= 4


def test_a_lash_ends_where_the_rules_hit_and_is_drawn_in_again() -> None:
    game = new_game("judge")
    figure = figure_of(game.boss)
    d, f = game.duel, game.fight
    move = next(i for i, one in enumerate(game.boss.moves) if one.id == "lash")
    window, tips, lengths = f.windows[f.moves[move].first_window], [], {}
    for ticks in range(int(f.moves[move].duration)):
        at(game, move, ticks)
        found = strike_now(figure, d, f)
        assert found is not None
        blow, strike = found
        pose = boss_pose(figure, d, f, "fighting", 0)
        assert place_parts(figure.build, pose)[1] == 1.0, "the halberd keeps its length"
        root = np.array(free_palm_of(figure.build, pose)) / figure.build.scale_m
        line = tendril_line(strike, blow, root)
        lengths[ticks] = float(np.linalg.norm(line[-1] - root)) if line is not None else 0.0
        if line is not None:
            np.testing.assert_allclose(line[0], root, atol=1e-9)
            if blow.stage == "active":
                tips.append(line[-1] * figure.build.scale_m)
    check_sweeps_window(np.array(tips), strike, float(f.b_radius + window.reach))
    assert lengths[0] == lengths[max(lengths)] == 0.0
    assert lengths[int(window.start) - 1] > 0.5, "it can be seen before it hits"


def check_sweeps_window(tips: np.ndarray, strike: Strike, reach_m: float) -> None:
    """Check that tips, (n, 3) in the boss's axes, stay within the arc and the reach, and sweep all of it."""
    reaches = np.hypot(tips[:, 0], tips[:, 1])
    assert reaches.max() == pytest.approx(reach_m)
    angles = np.arctan2(-tips[:, 0], tips[:, 1]) - strike.face_rad
    angles = (angles + math.pi) % (2.0 * math.pi) - math.pi
    assert np.abs(angles).max() <= strike.half_rad + 1e-6
    assert (tips[:, 2] > 0.0).all()
    if strike.style in ("sweep", "charge"):
        assert np.ptp(angles) == pytest.approx(2.0 * strike.half_rad, rel=1e-3)
    if strike.style == "spin":
        turned = np.abs(np.diff(np.unwrap(angles))).sum()
        assert turned == pytest.approx(2.0 * math.pi, rel=1e-3)


@pytest.mark.parametrize("name", boss_names())
def test_wind_ups_differ(name: str) -> None:
    """The pose at the end of a wind-up differs from those of all other styles, and from the rest pose."""
    figure = figure_of(load_boss(name, KNOCK_BACKS))
    styles: list[Style] = ["sweep", "overhead", "thrust", "spin", "slam", "throw", "ram", "grab", "breath", "burst"]
    styles += ["lash"]
    poses = {style: wind_up_pose(figure.rest, Strike(style, 0.0, 1.2, 2.0, -1.0)) for style in styles}
    poses["sweep"] = wind_up_pose(figure.rest, Strike("sweep", 0.0, 1.2, 2.0, 1.0))
    tips = {style: np.array(tip_of(figure.build, pose)) for style, pose in poses.items()}
    origins = {
        style: np.array([place[3] for place in place_parts(figure.build, pose)[0]]) for style, pose in poses.items()
    }
    for first, second in combinations(styles, 2):
        apart = np.linalg.norm(origins[first] - origins[second], axis=1).max()
        farthest = max(apart, np.linalg.norm(tips[first] - tips[second]))
        assert farthest > 0.25 * figure.build.scale_m, (first, second)


def test_a_custom_boss_gets_a_body_of_its_size() -> None:
    text = (BOSS_DIR / "judge.toml").read_text(encoding="utf-8")
    grown = parse_boss(text.replace("radius_m = 0.9", "radius_m = 1.08"), Path("own.toml"), KNOCK_BACKS)
    shipped = figure_of(load_boss("judge", KNOCK_BACKS))
    assert figure_of(grown).build.scale_m == pytest.approx(1.2 * shipped.build.scale_m)


def test_moves_of_unknown_names_get_their_style_from_their_numbers() -> None:
    text = (BOSS_DIR / "judge.toml").read_text(encoding="utf-8")
    renamed = parse_boss(text.replace('id = "leap"', 'id = "jump"'), Path("own.toml"), KNOCK_BACKS)
    styles = {move.id: style for move, style in zip(renamed.moves, figure_of(renamed).styles, strict=True)}
    assert styles["jump"] == ("charge",)
    assert styles["overhead"] == ("overhead",)
    assert styles["sweep_right"] == ("sweep",)
    assert styles["spin_behind"] == ("spin",)


def test_the_poses_of_strikes_are_read_before_a_fight() -> None:
    strike_patterns.cache_clear()
    figure_of(load_boss("judge", list(load_knight().knock_backs)))
    assert strike_patterns.cache_info().currsize == 1
