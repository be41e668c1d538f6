"""Facts about the bosses of the real games, known and missing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import BOSS_DIR, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.window.memory.layout import synthesise
from soulslab.errors import BossFileError, ConfigError, MissingFactError, UnknownBossError
from soulslab.games import profile_path
from soulslab.games.boss_facts import boss_names, load_boss_facts, load_profile_with, with_boss
from soulslab.games.facts import GAMES
from soulslab.siphon.profile import load_profile
from soulslab.siphon.profile.validation import find_mistakes

ALL = [(game, boss) for game in ("dark_souls_3", "elden_ring") for boss in boss_names(game)]


def own(game):
    return load_profile(profile_path(Path(game)))


def test_boss_names():
    assert boss_names("dark_souls_3") == ("iudex", "vordt")
    assert boss_names("elden_ring") == ("dragonkin_nokstella", "godrick", "margit")
    with pytest.raises(
        UnknownBossError, match=r"'margi'; did you mean 'margit'.*; also allowed: the path of a fact file"
    ):
        load_boss_facts("elden_ring", "margi")


def test_each_kind_of_file_is_refused_where_the_other_is_needed():
    with pytest.raises(ConfigError, match=r"judge\.toml: is a boss file of the built-in fight.*fact file"):
        load_boss_facts("elden_ring", BOSS_DIR / "judge.toml")
    facts = GAMES / "elden_ring" / "bosses" / "margit.toml"
    with pytest.raises(BossFileError, match=r"margit\.toml: is a fact file of a boss of a game.*boss file"):
        find_boss(facts)


@pytest.mark.parametrize(("game", "boss"), ALL)
def test_the_profile_of_a_boss_is_valid(game, boss):
    profile = with_boss(own(game), load_boss_facts(game, boss))
    assert list(find_mistakes(profile)) == []
    assert {"boss.hp", "boss.position", "boss.animation"} <= set(profile.attributes)
    assert set(profile.duel["attributes"].values()) <= set(profile.attributes)
    assert set(synthesise(profile).places) == set(profile.attributes)


def test_a_boss_found_by_id_changes_only_the_entity():
    profile, facts = own("elden_ring"), load_boss_facts("elden_ring", "godrick")
    changed = with_boss(profile, facts)
    assert changed.entities["boss"].id == 10000800
    assert changed.attributes == profile.attributes
    assert with_boss(profile, load_boss_facts("elden_ring", "margit")).entities["boss"].id == 10000850


def test_a_boss_with_an_attribute_group_replaces_boss():
    profile = own("dark_souls_3")
    changed = with_boss(profile, load_boss_facts("dark_souls_3", "vordt"))
    assert changed.attributes["boss.hp"] == profile.attributes["vordt.hp"]
    assert not any(name.startswith("vordt.") for name in changed.attributes)
    assert changed.duel["attributes"]["boss.hp"] == "boss.hp"
    assert with_boss(profile, load_boss_facts("dark_souls_3", "iudex")) == profile


def test_a_profile_is_read_with_a_boss_by_name_or_by_file(tmp_path):
    path = profile_path(Path("elden_ring"))
    mine = tmp_path / "mine.toml"
    mine.write_text('source = "me"\nname = "Mine"\nentity_id = 77\n', encoding="utf-8")
    ids = {boss: load_profile_with(Path("elden_ring"), boss).entities["boss"].id for boss in ("", "godrick", str(mine))}
    assert ids == {"": 10000850, "godrick": 10000800, str(mine): 77}
    assert load_profile_with(path) == own("elden_ring")
    with pytest.raises(UnknownBossError, match="'godrik'; did you mean 'godrick'"):
        load_profile_with(path, "godrik")
    assert "vordt.hp" not in load_profile_with(Path("dark_souls_3"), "vordt").attributes


def test_quantities_that_a_boss_lacks_are_not_bound():
    profile = own("dark_souls_3")
    fewer = {name: one for name, one in profile.attributes.items() if name != "vordt.angle"}
    changed = with_boss(msgspec.structs.replace(profile, attributes=fewer), load_boss_facts("dark_souls_3", "vordt"))
    assert "boss.angle" not in changed.duel["attributes"]
    assert "boss.angle" not in changed.attributes


def test_an_unknown_attribute_group_is_an_error_with_a_suggestion():
    facts = msgspec.structs.replace(load_boss_facts("dark_souls_3", "vordt"), attributes="vort")
    with pytest.raises(ConfigError, match="unknown group of attributes 'vort'; did you mean 'vordt'"):
        with_boss(own("dark_souls_3"), facts)


def test_a_missing_fact_is_an_error_with_instructions():
    facts = load_boss_facts("elden_ring", "margit")
    facts.need("entity_id", "defeat_flag", "warp_points", "poses.fog_wall")
    with pytest.raises(MissingFactError) as caught:
        facts.need("entity_id", "poses.player_start", "arena.limits_m")
    assert caught.value.boss == "Margit, the Fell Omen"
    assert caught.value.facts == ("poses.player_start", "arena.limits_m")
    text = str(caught.value)
    assert "poses.player_start: stand where the fight should begin and read the position" in text
    assert "soulslab siphon record GAME FILE --frames none --attribute player.position" in text
    with pytest.raises(ConfigError, match=r"unknown fact 'poses\.fogwall'; did you mean 'poses\.fog_wall'"):
        facts.need("poses.fogwall")


def test_a_boss_without_an_id_is_an_error():
    facts = msgspec.structs.replace(load_boss_facts("elden_ring", "margit"), entity_id=None)
    with pytest.raises(MissingFactError, match="entity_id: scan the list of enemies"):
        with_boss(own("elden_ring"), facts)


@pytest.mark.parametrize(("game", "boss"), ALL)
def test_every_fact_is_known_or_listed_as_missing(game, boss):
    facts = load_boss_facts(game, boss)
    for fact in facts.missing():
        with pytest.raises(MissingFactError):
            facts.need(fact)


def test_pose_returns_single_poses():
    facts = load_boss_facts("dark_souls_3", "iudex")
    assert facts.pose("fog_wall").position_m[0] == pytest.approx(125.710762)
    assert facts.pose("bonfire").angle_rad is None
    with pytest.raises(ConfigError, match="several poses"):
        facts.pose("player_starts")
    with pytest.raises(MissingFactError, match=r"poses\.centre"):
        load_boss_facts("dark_souls_3", "vordt").pose("centre")


def test_poses_of_iudex_equal_those_of_the_built_in_judge():
    facts, judge = load_boss_facts("dark_souls_3", "iudex"), load_boss("judge", list(load_knight().knock_backs))
    ground = judge.ground

    def flat(pose):
        return (*pose.position_m, pose.angle_rad)

    assert facts.max_hp == judge.hp
    np.testing.assert_allclose(flat(facts.poses.player_start), ground.player_pose)
    np.testing.assert_allclose([flat(one) for one in facts.poses.player_starts], ground.player_poses_random)
    np.testing.assert_allclose(flat(facts.poses.boss_start), ground.boss_pose)
    assert facts.arena.limits_m == ground.limits_m
    assert facts.arena.reward_centre_m == ground.reward_centre_m


def test_a_boss_from_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "Mine"\nsource = "recorded"\nentity_id = 7\n')
    assert load_boss_facts("elden_ring", path).entity_id == 7
    path.write_text('name = "Mine"\nsource = "recorded"\n[poses]\nfog_wal = { position_m = [1.0, 2.0, 3.0] }\n')
    with pytest.raises(ConfigError) as caught:
        load_boss_facts("elden_ring", path)
    assert caught.value.path == "poses.fog_wal"
    assert "did you mean 'fog_wall'" in caught.value.problem
