"""Boss files: shipped files are valid, and errors name the place of a mistake."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.arena.boss_file import BOSS_DIR, Boss, boss_names, load_boss, parse_boss
from soulslab.arena.features import feature_bounds
from soulslab.arena.relative_features import relative_bounds
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.errors import BossFileError, ConfigError, UnknownBossError
from support.long_form import examples
from support.stage import KNOCK_BACKS, shipped

JUDGE = (BOSS_DIR / "judge.toml").read_text(encoding="utf-8")


def parse(text):
    return parse_boss(text, "my.toml", KNOCK_BACKS)


def test_three_bosses_ship():
    assert boss_names() == ("frost_beast", "judge", "trickster")


@pytest.mark.parametrize("name", boss_names())
def test_shipped_bosses_are_sound_and_have_their_own_names(name):
    boss = shipped(name)
    assert len(boss.name.split()) == 3
    assert not re.search("gundyr|iudex|vordt|margit", (BOSS_DIR / f"{name}.toml").read_text().lower())


def test_the_judge_is_the_boss_of_the_facts():
    judge = shipped("judge")
    assert judge.hp == 1037
    assert judge.ground.limits_m == ((110, 190), (540, 640), (-73, -55))
    assert judge.ground.reward_centre_m == (139, 596)
    assert len(judge.ground.player_poses_random) == 11
    assert judge.ground.boss_pose == (141.3, 591.9, -68.8, 0.6)


def test_the_trickster_throws_and_holds_back_and_the_beast_charges():
    trickster, beast = shipped("trickster"), shipped("frost_beast")
    assert sum(window.projectile is not None for move in trickster.moves for window in move.windows) >= 4
    assert sum(move.windows[0].start_s > 1.0 for move in trickster.moves) >= 3
    assert sum(max(window.advance_m for window in move.windows) > 8 for move in beast.moves) >= 3


# What to replace in the judge's file, by what, and where the mistake is; the first place that fits is meant.
BROKEN = [
    ("hp = 1037", "", "hp", "is missing; it has no default"),
    ("hp = 1037", "hp = 0", "hp", ">= 1"),
    ("hp = 1037", "hp = 'much'", "hp", "expected a whole number, got text"),
    ("hp = 1037", "hp = 1037\nmana = 3", "mana", "unknown setting"),
    ("hp = 1037", "hp = 1", "phase_two.below", "is less than 1 hit point"),
    ("poise = 130.0", "poise = nan", "poise", "must be a number from"),
    ("poise = 130.0", "poise = 1e9", "poise", "must be a number from"),
    ("keep_m = [2.2, 3.8]", "keep_m = [4.2, 3.8]", "keep_m", "4.2 is greater than 3.8"),
    ("pause_s = [[0.4, 1.3]", "pause_s = [[1.4, 1.3]", "pause_s[0]", "1.4 is greater than 1.3"),
    ("[0.25, 1.0]]", "[0.25, 0.2]]", "pause_s[1]", "0.25 is greater than 0.2"),
    ("below = 0.5", "below = 1.0", "phase_two.below", "< 1.0"),
    ('move = "transformation"', 'move = "nap"', "phase_two.move", "no move has the id 'nap'"),
    ("[110.0, 190.0]", "[190.0, 110.0]", "ground.limits_m[0]", "not below"),
    ("[110.0, 190.0]", "[130.0, 190.0]", "ground.limits_m[0]", "must contain the floor and 6 m around it"),
    ("[110.0, 190.0]", "[-inf, 190.0]", "ground.limits_m[0][0]", "must be a number from"),
    ("radius_m = 24.0", "radius_m = 400.0", "ground.radius_m", "<= 90.0"),
    ("floor_m = -68.8", "floor_m = 0", "ground.floor_m", "outside limits_m[2]"),
    ("[-73.0, -55.0]", "[-73.0, -67.0]", "ground.limits_m[2]", "must contain the 2.0 m above floor_m"),
    ("reward_centre_m = [139.0,", "reward_centre_m = [nan,", "ground.reward_centre_m[0]", "must be a number"),
    ("player_pose = [132.176", "player_pose = [112.176", "ground.player_pose", "must be at least 1 m inside"),
    ("[128.62, 588.938", "[118.62, 588.938", "ground.player_poses_random[1]", "must be at least 1 m inside"),
    ("boss_pose = [141.3, 591.9, -68.8, 0.6]", "boss_pose = [141.3, 591.9]", "ground.boss_pose", "length 4"),
    ('id = "sweep_left"', 'id = "sweep_right"', "moves[1].id", "'sweep_right' is used twice"),
    ('"Attack3001"', '"Attack3000"', "moves[1].animation", "'Attack3000' is used twice"),
    ('"Attack3002"', '"Attack3100"', "moves[2].animation", "'Attack3100' must be one of Attack3000"),
    ('"Attack3002"', '"ThrowDef"', "moves[2].animation", "'ThrowDef' must be one of"),
    ("recovery_s = 0.9", "recovery_s = 11", "moves[0].recovery_s", "<= 10.0"),
    ("recovery_s = 0.9", "recovery_s = 9.9", "moves[0].recovery_s", "the move lasts 10.75 s; the maximum is 10 s"),
    ("weight = 1.2", "weight = -1", "moves[0].weight", ">= 0.0"),
    ("range_m = [0.0, 4.6]", "range_m = [5.0, 4.6]", "moves[0].range_m", "5.0 is greater than 4.6"),
    ("bearing_rad = [0.0, 0.5]", "bearing_rad = [0.9, 0.5]", "moves[3].bearing_rad", "0.9 is greater than 0.5"),
    ("phases = [2]", "phases = [3]", "moves[12].phases[0]", "<= 2"),
    ('move = "sweep_left"', 'move = "nap"', "moves[0].follow_ups[0].move", "no move has the id 'nap'"),
    ("probability = 0.6", "probability = 1.6", "moves[0].follow_ups[0].probability", "<= 1.0"),
    ("end_s = 0.85", "end_s = 0.65", "moves[0].windows[0].end_s", "0.65 is not after start_s = 0.65"),
    ("start_s = 1.25", "start_s = 0.7", "moves[4].windows[1].start_s", "0.7 is before the end of the previous window"),
    ('"middle"', '"tickle"', "moves[0].windows[0].knock_back", "'tickle' must be one of small, middle"),
    ("damage = 118", "damage = -1", "moves[0].windows[0].damage", ">= 0"),
    ("damage = 118", "damag = 118", "moves[0].windows[0].damag", "did you mean 'damage'"),
    ("parry = true", "parry = 1", "moves[0].windows[0].parry", "expected true or false, got a whole number"),
    ("arc_rad = 2.6", "arc_rad = 0", "moves[0].windows[0].arc_rad", "> 0.0"),
    ("parry = true", "projectile = { speed_m_s = 9, count = 6 }", "moves[0].windows[0].projectile.count", "<= 5"),
]


@pytest.mark.parametrize(
    ("old", "new", "path", "problem"), BROKEN, ids=[f"{n}: {row[2]}" for n, row in enumerate(BROKEN)]
)
def test_a_mistake_is_an_error_that_names_its_place(old, new, path, problem):
    assert old in JUDGE
    with pytest.raises(BossFileError) as error:
        parse(JUDGE.replace(old, new, 1))
    assert (error.value.path, error.value.source) == (path, "my.toml")
    assert problem in error.value.problem
    assert str(error.value).startswith(f"my.toml: {path}: " if path else "my.toml: ")
    assert isinstance(error.value, ConfigError)


def test_moves_that_can_never_be_chosen():
    text = re.sub(r"weight = .*", "weight = 0", JUDGE)
    with pytest.raises(BossFileError, match="the boss can choose no move in phase 1") as error:
        parse(text)
    assert error.value.path == "moves"


def windows(n):
    """Return the text of ``n`` consecutive windows."""
    return "".join(f"[[moves.windows]]\nstart_s = {i}\nend_s = {i}.5\ndamage = 1\n" for i in range(n))


def test_more_windows_than_the_rules_have_room_for():
    head, *moves = JUDGE.split("[[moves]]\n")
    moves = [re.split(r"\[\[moves.windows\]\]", move)[0] + windows(6) for move in moves]
    text = "[[moves]]\n".join([head, *moves])
    with pytest.raises(BossFileError, match="all moves together have 108 windows; the maximum is 64") as error:
        parse(text)
    assert error.value.path == "moves"


def test_more_windows_in_a_move_than_allowed():
    text = JUDGE.replace("[[moves.windows]]", windows(9) + "[[moves.windows]]", 1)
    with pytest.raises(BossFileError, match="length <= 8") as error:
        parse(text)
    assert error.value.path == "moves[0].windows"


def test_more_follow_ups_than_the_rules_have_room_for():
    many = ", ".join(["{ move = 'leap', probability = 0.01 }"] * 65)
    with pytest.raises(BossFileError, match="all moves together have 65 follow_ups; the maximum is 64"):
        parse(re.sub(r"follow_ups = \[.*\]", "", JUDGE).replace("recovery_s", f"follow_ups = [{many}]\nrecovery_s", 1))


@pytest.mark.parametrize("text", ["hp = ", "[moves", "hp = 1\nhp = 2", "x = " + "[" * 100_000, "x = " + "1" * 5000])
def test_invalid_toml_is_reported(text):
    with pytest.raises(BossFileError, match=r"my\.toml: is not valid TOML"):
        parse(text)


def test_an_unknown_boss_is_an_error_with_a_suggestion():
    with pytest.raises(
        UnknownBossError, match=r"'juge'; did you mean 'judge'\?.*; also allowed: generated:SEED"
    ) as error:
        load_boss("juge", KNOCK_BACKS)
    assert error.value.known == boss_names()


def test_a_file_of_ones_own(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text(JUDGE.replace("The Halberd Judge", "My Own Judge"), encoding="utf-8")
    assert load_boss(mine, KNOCK_BACKS).name == load_boss(str(mine), KNOCK_BACKS).name == "My Own Judge"


@pytest.mark.parametrize("kind", ["missing", "folder", "binary", "impossible"])
def test_a_file_that_cannot_be_read(kind, tmp_path):
    path = tmp_path / ("im\0possible.toml" if kind == "impossible" else f"{kind}.toml")
    if kind == "folder":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BossFileError, match=r"cannot be read|is not UTF-8 text"):
        load_boss(path, KNOCK_BACKS)


@given(st.text())
def test_any_text_is_a_boss_or_a_boss_file_error(text):
    with pytest.raises(BossFileError):
        parse(text)


VALUES = st.sampled_from(
    [
        *("nan", "inf", "-inf", "-1", "0", "1", "2", "1e-300", "1e6", "1e308", "99999999999999999999", "true"),
        *("''", "'judge'", "[]", "{}", "[0.0, 1.0]", "[[0, 1], [0, 1]]", "1979-05-27"),
    ]
) | st.floats(allow_nan=True).map(repr)
LINES = JUDGE.splitlines()


@settings(max_examples=examples(200, in_long_form=2000))
@given(
    st.lists(st.tuples(st.integers(0, len(LINES) - 1), st.sampled_from(["value", "drop", "twice"]), VALUES), max_size=3)
)
def test_a_mutated_file_is_a_boss_that_can_be_fought_or_a_boss_file_error(mutations):
    lines = list(LINES)
    for place, kind, value in mutations:
        key = lines[place].split("=")[0]
        lines[place] = {"value": f"{key}= {value}", "drop": "", "twice": f"{lines[place]}\n{lines[place]}"}[kind]
    try:
        boss = parse("\n".join(lines))
    except BossFileError as error:
        assert error.problem
        return
    assert isinstance(boss, Boss)
    for relative in (False, True):
        simulator = Simulator(boss, 4, FightOptions(autoreset="same_step", random_pose=True, relative=relative))
        everyone = np.ones(4, np.bool_)
        simulator.seed(np.arange(4, dtype=np.uint64), everyone)
        simulator.reset(everyone)
        rng = np.random.default_rng(0)
        fight = simulator.fight[0]
        low, high = relative_bounds(fight.low, fight.extent, fight.floor) if relative else feature_bounds()
        for _ in range(40):
            simulator.step(rng.integers(0, 20, 4))
            assert ((simulator.features >= low) & (simulator.features <= high)).all()
            assert np.isfinite(simulator.results["terms"]).all()
