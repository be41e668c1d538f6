"""Facts of the real games outside their profiles."""

from __future__ import annotations

import pytest

from soulslab.arena.vocabulary import BOSS_ATTACKS, BOSS_MISC, BOSS_MOVEMENT
from soulslab.config import load_settings
from soulslab.errors import ConfigError
from soulslab.games.boss_facts import boss_names, load_boss_facts
from soulslab.games.elden_ring import load_keybinds
from soulslab.games.facts import GAMES, WarpPoints, load_event_flags, load_warp_points
from soulslab.siphon.keys import KEYS

REAL = ("dark_souls_3", "elden_ring")


@pytest.mark.parametrize("game", REAL)
def test_warp_point_names_and_ids_are_unique(game):
    points = load_warp_points(game)
    assert len(set(points.points.values())) == len(points.points)
    for name, number in points.points.items():
        assert points.id_of(name) == number
        assert points.name_of(number) == name
    assert points.name_of(77) == "#77"


def test_warp_points_by_name():
    assert load_warp_points("dark_souls_3").id_of("Iudex Gundyr") == 4002952
    graces = load_warp_points("elden_ring")
    assert graces.id_of("Stormhill - Margit, the Fell Omen") == 10002951
    assert graces.id_of("Stormhill - Castleward Tunnel") == 10002952
    assert graces.id_of("Limgrave - The First Step") == 1042362951


def test_an_unknown_warp_point_is_an_error_with_a_suggestion():
    with pytest.raises(ConfigError, match="unknown warp point 'Iudex Gundir'; did you mean 'Iudex Gundyr'"):
        load_warp_points("dark_souls_3").id_of("Iudex Gundir")


def test_an_unknown_game_is_an_error_with_a_suggestion():
    with pytest.raises(ConfigError, match="'elden_rin' has no warp_points; did you mean 'elden_ring'"):
        load_warp_points("elden_rin")


def test_the_animations_of_iudex_equal_the_vocabulary():
    animations = load_boss_facts("dark_souls_3", "iudex").animations
    assert animations.attacks == BOSS_ATTACKS
    assert animations.movement == BOSS_MOVEMENT
    assert animations.misc == BOSS_MISC


@pytest.mark.parametrize("game", REAL)
def test_each_boss_has_its_flag_and_known_warp_points(game):
    flags, points = load_event_flags(game), load_warp_points(game)
    for boss in boss_names(game):
        facts = load_boss_facts(game, boss)
        assert facts.defeat_flag == flags.defeat_of(facts.name)
        assert facts.warp_points
        for point in facts.warp_points:
            assert points.id_of(point) > 0
    with pytest.raises(ConfigError, match="unknown flag for the defeat of 'Nobody'"):
        flags.defeat_of("Nobody")


def test_the_thirteen_keybinds_are_valid_keys():
    keybinds = load_keybinds()
    assert len(keybinds) == 13
    assert list(keybinds)[:2] == ["move_forward", "move_back"]
    assert {one.key for one in keybinds.values()} <= set(KEYS)
    assert keybinds["attack"].mouse == "LEFT"


def test_keybinds_with_a_gap_are_refused(tmp_path):
    path = tmp_path / "keybinds.toml"
    path.write_text('source = "test"\n[actions]\na = { index = 0, key = "A" }\nb = { index = 2, key = "B" }\n')
    with pytest.raises(ConfigError, match="consecutive"):
        load_keybinds(path)


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        ("[points]\na = 1\n", "source", "is missing"),
        ('source = ""\n[points]\na = 1\n', "source", "length"),
        ('source = "x"\n[points]\na = "1"\n', "points.a", "expected a whole number"),
        ('source = "x"\n[points]\na = 4294967296\n', "points.a", "<= 4294967295"),
        ('source = "x"\n[pionts]\na = 1\n', "pionts", "did you mean 'points'"),
        ('source = "x"\nformat = 2\n[points]\na = 1\n', "format", "2"),
        ('source = "x"\npoints = {}\n', "points", "length"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(tmp_path, text, path, problem):
    file = tmp_path / "warp_points.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(WarpPoints, file)
    assert caught.value.path == path
    assert problem in caught.value.problem
    assert str(caught.value).startswith(str(file))


def test_every_file_of_facts_has_a_source():
    files = [file for game in REAL for file in (GAMES / game).rglob("*.toml")]
    assert len(files) >= 10
    for file in files:
        assert "source = " in file.read_text(encoding="utf-8"), file
