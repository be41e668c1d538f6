"""Generated bosses: the same for a seed, valid, fair, and found by name."""

import hashlib
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.scripted_players import PLAYERS, measure
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_fairness import damage_factor, longest_chain_s, unavoidable_moves
from soulslab.arena.boss_file import boss_names, parse_boss
from soulslab.arena.boss_generator import CHECKED_FILE, MAX_CHAIN_S, MAX_SEED, CheckedBosses, check_boss, generate_boss
from soulslab.config import dump_settings, load_settings
from soulslab.errors import EnvironmentUsageError, UnknownBossError
from support.long_form import IS_LONG, examples
from support.stage import KNOCK_BACKS, shipped

N_BOSSES = 100 if IS_LONG else 2
#: Fights of each player; the standard error of the win rate of the reference player is 4 % in 150 fights.
N_FIGHTS = 500 if IS_LONG else 150
#: Bosses of other seeds than those that the family was adjusted with (0 to 39).
SEEDS = range(1000, 1000 + N_BOSSES)


def digest(boss):
    return hashlib.sha256(msgspec.json.encode(boss)).hexdigest()[:16]


def changed(name, move, **window):
    """A shipped boss whose move has another first window."""
    text = dump_settings(shipped(name))
    start = text.index(f'id = "{move}"')
    head, tail = text[:start], text[start:]
    for field, value in window.items():
        tail = re.sub(rf"^{field} = .*$", f"{field} = {value}", tail, count=1, flags=re.MULTILINE)
    return parse_boss(head + tail, "changed.toml", KNOCK_BACKS)


def test_a_seed_gives_the_same_boss_in_every_version():
    assert [digest(generate_boss(seed)) for seed in (0, 7)] == ["f817cb92f0274bc6", "5742a6be79aa963d"]
    assert generate_boss(0) != generate_boss(1)


def test_stored_results_of_the_checks_are_those_of_the_checks():
    stored = load_settings(CheckedBosses, CHECKED_FILE).bosses
    assert "7" in stored
    n_unfair, boss = check_boss(7)
    assert stored["7"] == (n_unfair, *boss.damage_scale)
    assert generate_boss(7) == boss


@settings(max_examples=examples(3), deadline=None)
@given(st.integers(0, MAX_SEED))
def test_a_generated_boss_is_a_boss_file(seed):
    boss = generate_boss(seed)
    assert parse_boss(dump_settings(boss), "generated.toml", KNOCK_BACKS) == boss
    assert longest_chain_s(boss) <= MAX_CHAIN_S
    assert unavoidable_moves(boss) == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_generated_boss_is_a_real_fight(seed):
    boss = generate_boss(seed)
    for player in PLAYERS:
        # Fights with other seeds than those that the damage was scaled with.
        won = measure(boss, "full", player, n_fights=N_FIGHTS, seed=10_000).win_rate
        if player == "reference":
            assert 0.4 <= won <= 0.9
        else:
            assert won < 0.05, player


@pytest.mark.parametrize("name", boss_names())
def test_shipped_bosses_pass_the_checks_of_generated_ones(name):
    boss = shipped(name)
    assert longest_chain_s(boss) <= MAX_CHAIN_S
    assert unavoidable_moves(boss) == ()


def test_an_attack_that_no_roll_avoids_is_found():
    boss = changed("judge", "ground_slam", start_s=0.5, end_s=1.3, reach_m=20.0)
    assert unavoidable_moves(boss) == ("ground_slam",)


def test_a_circle_of_follow_ups_has_no_end():
    text = dump_settings(shipped("judge")).replace('move = "overhead"', 'move = "sweep_left"')
    assert longest_chain_s(parse_boss(text, "circle.toml", KNOCK_BACKS)) == float("inf")


def test_the_damage_factor_gives_the_win_share():
    boss = shipped("trickster")
    factor = damage_factor(boss, 0.8)
    text = dump_settings(boss)
    scale = [round(value * factor, 4) for value in boss.damage_scale]
    text = re.sub(r"^damage_scale = .*$", f"damage_scale = {scale}", text, flags=re.MULTILINE)
    scaled = parse_boss(text, "scaled.toml", KNOCK_BACKS)
    assert measure(scaled, "full", "reference", n_fights=1000, seed=10_000).win_rate == pytest.approx(0.8, abs=0.06)


def test_a_boss_that_the_reference_cannot_defeat_has_no_factor():
    text = re.sub(r"^hp = .*$", "hp = 100000", dump_settings(shipped("judge")), count=1, flags=re.MULTILINE)
    assert damage_factor(parse_boss(text, "long.toml", KNOCK_BACKS), 0.5) is None


def test_bosses_are_found_by_name():
    assert find_boss("generated:3") is find_boss("generated:3")
    assert find_boss("judge") == shipped("judge")
    with pytest.raises(UnknownBossError, match="generated:x"):
        find_boss("generated:x")
    with pytest.raises(EnvironmentUsageError, match="from 0 to 2147483647"):
        find_boss("generated:2147483648")
