"""Profiles of the real games: sources of their facts, and agreement with public profiles."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from soulslab.compat.eldengym.eldengym_observation import PUBLIC_ATTRIBUTES as OURS
from soulslab.games import profile_path
from soulslab.siphon.profile import load_profile
from soulslab.siphon.profile.facts import variants_of
from soulslab.siphon.profile.pattern import Pattern
from soulslab.siphon.profile.public_format import from_public

REAL = ("dark_souls_3", "elden_ring")
PUBLIC = Path(__file__).parent / "public_elden_ring.toml"
SOURCES = (
    "SoulsGym 1.1.0 (MIT)", "eldengym 0.6.0 (MIT)", "public tools", "TarnishedTool (MIT)", "SilkySouls3 (MIT)",
    "eldenring-practice-tool (AGPL)", "fromsoftware-rs (MIT/Apache)", "SoulsTAS (GPL)",
    "soulmods of SoulSplitter (GPL)", "as above",
)  # fmt: skip

#: Where the public profile is wrong, or says less than is known: ours is read in another way, for this reason.
DEFECTS = {
    "HeroMaxFp": "0x150 is the focus before equipment adds to it; three public tools have the maximum at 0x14c",
    "HeroAnimLength": "0x24 is the time in the animation, 0x2c its length: 16 bytes hold id, time, time again, length",
    "NpcAnimLength": "the same in the boss",
    "NpcGlobalPosAngle": "0x7c is behind the position, where such vectors have a fourth number; the angle is at 0x6cc",
    "gameSpeedVal": "0x2cc is right from 2.2.0 on, and 0x2d4 up to 2.0.1: the code says where it is",
    "gameSpeedFlag": "behind the speed, so it moves with it",
}
#: Those of them that ours tries when its own way does not hold.
TRIED = ("HeroMaxFp", "NpcGlobalPosAngle", "gameSpeedVal", "gameSpeedFlag")


def own(game):
    return load_profile(profile_path(Path(game)))


def public():
    with PUBLIC.open("rb") as file:
        return from_public(tomllib.load(file), str(PUBLIC))


def facts(profile):
    """Yield all facts of a profile with unique names."""
    for table in ("bases", "code_offsets", "entities", "attributes"):
        for name, fact in getattr(profile, table).items():
            yield f"{table}.{name}", fact
            for number, other in enumerate(getattr(fact, "alternatives", ())):
                yield f"{table}.{name}.{number}", other


@pytest.mark.parametrize("game", REAL)
def test_every_fact_names_a_public_source(game):
    for name, fact in facts(own(game)):
        assert fact.source.startswith(SOURCES), name


@pytest.mark.parametrize("game", REAL)
def test_patterns_use_their_first_match(game):
    profile = own(game)
    patterns = [one for one in (*profile.bases.values(), *profile.code_offsets.values()) if one.pattern]
    assert patterns
    assert {one.pick for one in patterns} == {0}


@pytest.mark.parametrize("game", REAL)
def test_facts_are_unique(game):
    profile = own(game)
    seen = {}
    for name, one in profile.attributes.items():
        place = (one.base, one.entity, one.offsets, one.type, one.length, one.bit)
        assert seen.setdefault(place, name) == name, f"{name} and {seen[place]}"
    patterns = [(base.pattern, base.offset) for base in profile.bases.values()]
    assert len(set(patterns)) == len(patterns)
    assert len(set(profile.keys.values())) == len(profile.keys)


@pytest.mark.parametrize("game", REAL)
def test_every_base_and_code_offset_is_used(game):
    profile = own(game)
    ways = [way for attribute in profile.attributes.values() for way in variants_of(attribute)]
    used = {way.base for way in ways} | {entity.base for entity in profile.entities.values()}
    # Its free camera is for the debug menu; the base is kept, as other facts count from there.
    assert set(profile.bases) - used <= {"field_area"}
    assert set(profile.code_offsets) <= {name for way in ways for name in way.offsets if isinstance(name, str)}


@pytest.mark.parametrize("game", REAL)
def test_read_only_attributes_are_not_writable(game):
    for name, attribute in own(game).attributes.items():
        is_full = name.rpartition(".")[2].startswith(("max_", "base_"))
        is_playing = "animation" in name and not name.endswith("animation_speed")
        assert not (attribute.is_writable and (is_full or is_playing)), name


def test_versions_of_the_profile_have_facts():
    assert len(own("elden_ring").process.versions) == 11
    assert {"2.0.0.0", "2.2.0.0", "2.6.2.0", "2.7.1.0"} <= set(own("elden_ring").process.versions)
    assert own("dark_souls_3").process.versions == ("1.15.2.0",)
    for game in REAL:
        profile = own(game)
        for name, fact in facts(profile):
            assert set(fact.versions) <= set(profile.process.versions), name


def test_every_public_value_has_an_attribute():
    found = public()
    assert set(OURS) == {*found.profile.attributes, *found.injected}
    assert {name for name, _ in OURS.values()} <= set(own("elden_ring").attributes)
    assert set(TRIED) <= set(DEFECTS) <= set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_values_agree_with_the_public_profile(name):
    ours, theirs = own("elden_ring"), public()
    attribute, number = ours.attributes[OURS[name][0]], OURS[name][1]
    if name in theirs.injected:
        offsets, kind = theirs.injected[name].offsets, {"int": "i32", "float": "f32"}[theirs.injected[name].type]
        assert attribute.entity == "boss"
    else:
        fact = theirs.profile.attributes[name]
        offsets, kind = fact.offsets, fact.type
        assert is_within(theirs.profile.bases[fact.base].pattern, ours.bases[attribute.base].pattern)
    assert attribute.type == kind
    wanted = (*offsets[:-1], offsets[-1] - 4 * number)
    ways = [way.offsets for way in variants_of(attribute)]
    if name not in DEFECTS:
        assert ways[0] == wanted
    else:
        assert ways[0] != wanted
        assert (wanted in ways[1:]) is (name in TRIED), DEFECTS[name]


def is_within(wide, narrow):
    """Return whether every match of one pattern also matches the other one from its start."""
    outer, inner = Pattern.parse(wide), Pattern.parse(narrow)
    return len(outer) <= len(inner) and all(
        mask & have == mask and value == bits & mask
        for value, mask, bits, have in zip(outer.values, outer.masks, inner.values, inner.masks, strict=False)
    )
