"""Loading of public Siphon TOML files."""

import logging
import tomllib

import msgspec
import pytest

from soulslab.errors import ProfileError
from soulslab.siphon.profile import Attribute, Base, CodeOffset, Entity, Process, Profile, load_profile
from soulslab.siphon.profile.facts import versions_of
from soulslab.siphon.profile.public_format import from_public, is_public, resolve_injected
from soulslab.siphon.profile.validation import find_mistakes, representable
from support.profiles import FULL, PUBLIC

I32 = (-2147483648.0, 2147483647.0)


def public(**changes):
    """The public profile with changes to its attribute Hp."""
    data = tomllib.loads(PUBLIC)
    data["attributes"]["Hp"] |= changes
    return data


def known(**entities):
    """A soulslab profile for the same game."""
    return Profile(
        name="ours",
        process=Process(executable="game.exe"),
        bases={"world": Base(offset=0x100, is_pointer=True, source="found by hand")},
        entities=entities,
    )


BOSS = Entity(base="world", begin=(0x10,), end=(0x18,), id_offsets=(8,), id=850, source="found by hand")


def test_which_files_are_public():
    assert is_public(tomllib.loads(PUBLIC))
    assert not is_public(tomllib.loads(FULL))


def test_conversion_of_a_public_profile():
    result = from_public(tomllib.loads(PUBLIC), "public.toml")
    profile = result.profile
    assert (profile.name, profile.process) == ("GAME", Process(executable="game.exe", window_title="GAME"))
    # The same pattern in other letters is the same base.
    assert list(profile.bases) == ["pattern_1", "pattern_2"]
    assert profile.bases["pattern_1"] == Base(
        pattern="48 8B 05 ?? ?? ?? ?? 48 85 C0",
        displacement_at=3,
        instruction_end=7,
        pick=0,
        is_pointer=True,
        source="public Siphon profile",
    )
    attributes = profile.attributes
    assert attributes["Hp"] == Attribute(
        base="pattern_1", offsets=(0x10EF8, 0, 0x138), type="i32", range=I32, source="public Siphon profile"
    )
    assert (attributes["Angle"].type, attributes["Angle"].range) == ("f32", representable("f32"))
    assert (attributes["NoGravity"].type, attributes["NoGravity"].base) == ("bool", "pattern_2")
    assert (attributes["IsDead"].type, attributes["IsDead"].bit) == ("flag", 6)
    assert (attributes["Inventory"].type, attributes["Inventory"].length) == ("bytes", 16)
    assert attributes["Inventory"].offsets == (0,)
    assert list(result.injected) == ["NpcHp"]
    assert list(find_mistakes(profile)) == []


def test_all_attributes_as_pysiphon_sends_them():
    """pysiphon sends every field, with its default where the file has none."""
    data = tomllib.loads(PUBLIC)
    for attribute in data["attributes"].values():
        for key, default in (("offsets", []), ("length", 0), ("method", ""), ("mask", 0xFF)):
            attribute.setdefault(key, default)
    assert from_public(data, "sent") == from_public(tomllib.loads(PUBLIC), "file")


def test_clients_before_masks_send_0():
    data = tomllib.loads(PUBLIC)
    data["attributes"]["NoGravity"]["mask"] = 0
    assert from_public(data, "sent").profile.attributes["NoGravity"].type == "bool"


def test_negative_offsets_arrive_as_uint64():
    assert from_public(public(offsets=[2**64 - 8, 16]), "sent").profile.attributes["Hp"].offsets == (-8, 16)


def test_the_first_wildcard_is_the_displacement_wherever_it_is():
    base = from_public(public(pattern="8B 05 ?? ?? ?? ?? C3"), "x").profile.bases["pattern_1"]
    assert (base.displacement_at, base.instruction_end) == (2, 7)


def test_without_a_window_name():
    data = tomllib.loads(PUBLIC)
    del data["process_info"]["window_name"]
    profile = from_public(data, "x").profile
    assert (profile.name, profile.process.window_title) == ("game.exe", "")


def test_parts_ignored_by_the_public_reader_are_ignored_with_a_warning(caplog):
    data = public(comment="hit points")
    data["attributes"]["version"] = 3
    data["about"] = {"author": "a name"}
    with caplog.at_level(logging.WARNING, "soulslab.siphon.profile.public_format"):
        assert from_public(data, "x") == from_public(tomllib.loads(PUBLIC), "x")
    assert "attributes.Hp.comment is unknown" in caplog.text
    assert "attributes.version is not a table" in caplog.text


def test_loading_reports_ignored_parts(tmp_path, caplog):
    path = tmp_path / "public.toml"
    path.write_text(PUBLIC)
    with caplog.at_level(logging.WARNING, "soulslab.siphon.profile.loading"):
        profile = load_profile(path)
    assert list(profile.attributes) == ["Hp", "Angle", "NoGravity", "IsDead", "Inventory"]
    assert "left out" in caplog.text
    assert "NpcHp" in caplog.text


@pytest.mark.parametrize("name", ["boss", "target"])
def test_injected_attributes_start_from_the_only_entity(name):
    profile = resolve_injected(from_public(tomllib.loads(PUBLIC), "x"), known(**{name: BOSS}))
    assert profile.attributes["NpcHp"] == Attribute(
        entity=name, offsets=(0x190, 0, 0x138), type="i32", range=I32, source="public Siphon profile"
    )
    assert profile.entities == {name: msgspec.structs.replace(BOSS, base="known.world")}
    assert profile.bases["known.world"] == known().bases["world"]
    assert profile.code_offsets == {}
    assert list(find_mistakes(profile)) == []


def test_an_entity_includes_its_needs_for_its_versions():
    code_offset = CodeOffset(
        pattern="8B 83 ?? ?? 00 00", at=2, range=(0, 99), versions=("1.0",), source="found by hand"
    )
    boss = msgspec.structs.replace(BOSS, begin=("list",), versions=("1.0",))
    ours = known(boss=boss)
    process = msgspec.structs.replace(ours.process, versions=("1.0", "2.0"))
    ours = msgspec.structs.replace(ours, process=process, code_offsets={"list": code_offset, "other": code_offset})
    profile = resolve_injected(from_public(tomllib.loads(PUBLIC), "x"), ours)
    assert profile.code_offsets == {"list": code_offset}
    assert profile.process.versions == ("1.0", "2.0")
    assert versions_of(profile, profile.attributes["NpcHp"]) == ("1.0",)
    assert versions_of(profile, profile.attributes["Hp"]) == ("1.0", "2.0")
    assert list(find_mistakes(profile)) == []


def test_the_target_entity_is_chosen_from_several():
    other = msgspec.structs.replace(BOSS, id=1)
    profile = resolve_injected(from_public(tomllib.loads(PUBLIC), "x"), known(boss=other, target=BOSS))
    assert profile.entities["target"].id == 850


@pytest.mark.parametrize("entities", [{}, {"boss": BOSS, "dog": BOSS}])
def test_no_entity_to_start_from(entities):
    with pytest.raises(ProfileError, match="'ours' has no entity 'target'"):
        resolve_injected(from_public(tomllib.loads(PUBLIC), "x"), known(**entities))


def test_a_profile_without_addresses():
    data = tomllib.loads(PUBLIC)
    del data["attributes"]["NpcHp"]
    result = from_public(data, "x")
    assert resolve_injected(result, known()) is result.profile
