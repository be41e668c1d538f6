"""Writing entries into profiles."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ProfileError
from soulslab.siphon.profile import Base, load_profile
from soulslab.siphon.scanner.entry import Found, append_entry, profile_entry
from soulslab.siphon.scanner.pointers import PointerPath
from soulslab.siphon.scanner.signature import Signature

PROFILE = """# A game of mine
name = "Game"  # as it is

[process]
executable = "game.exe"
"""
PATH = PointerPath(2, (0x10, 0x8), "", 0x2A0)


def found(**changes):
    return Found(**{"name": "player.hp", "path": PATH, "type": "i32", "range": (0, 200), "source": "scan"} | changes)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "game.toml"
    path.write_text(PROFILE)
    return path


def test_the_entry_is_added_below_and_the_rest_stays(file):
    profile = append_entry(file, profile_entry(found()))
    assert file.read_text().startswith(PROFILE)
    assert profile == load_profile(file)
    assert profile.bases["player.hp"] == Base(module="", offset=0x2A0, source="scan")
    attribute = profile.attributes["player.hp"]
    assert attribute.offsets == (0, 0x10, 0x8)
    assert attribute.range == (0, 200)
    assert "offset = 0x2a0" in file.read_text()


def test_a_pattern_becomes_the_base_and_its_distance_the_first_offset(file):
    base = Base(pattern="48 8B 05 ?? ?? ?? ?? C3", displacement_at=3, instruction_end=7, source="scan")
    profile = append_entry(file, profile_entry(found(signature=Signature(base, 0x2C))))
    assert profile.bases["player.hp"] == base
    assert profile.attributes["player.hp"].offsets == (0x2C, 0x10, 0x8)


def test_what_is_not_as_usual_is_written(file):
    entry = profile_entry(found(type="f32", length=3, scale=0.5, unit="m", path=PointerPath(0, (), "lib.so", 8)))
    attribute = append_entry(file, entry).attributes["player.hp"]
    assert (attribute.length, attribute.scale, attribute.unit, attribute.offsets) == (3, 0.5, "m", (0,))


def test_two_entries_fit_below_each_other(file):
    append_entry(file, profile_entry(found()))
    assert set(append_entry(file, profile_entry(found(name="stamina"))).attributes) == {"player.hp", "stamina"}


@pytest.mark.parametrize(
    "change", [{"range": None}, {"name": "1 hp"}, {"range": (5, 1)}, {"source": ""}, {"type": "i33"}]
)
def test_an_entry_that_is_no_valid_one_leaves_the_file(file, change):
    with pytest.raises(ProfileError):
        append_entry(file, profile_entry(found(**change)))
    assert file.read_text() == PROFILE
    assert [path.name for path in file.parent.iterdir()] == ["game.toml"]


def test_an_attribute_that_is_there_already_is_told(file):
    append_entry(file, profile_entry(found()))
    text = file.read_text()
    with pytest.raises(ProfileError, match="cannot take the entry"):
        append_entry(file, profile_entry(found()))
    assert file.read_text() == text


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(ProfileError, match="cannot be read or written"):
        append_entry(tmp_path / "none.toml", profile_entry(found()))
    (tmp_path / "broken.toml").write_text("name =")
    with pytest.raises(ProfileError, match="cannot take the entry"):
        append_entry(tmp_path / "broken.toml", profile_entry(found()))


def test_links_and_permissions_stay(file, tmp_path):
    file.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    append_entry(link, profile_entry(found()))
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert "player.hp" in file.read_text()


@given(st.text(min_size=1), st.text())
def test_any_text_is_written_as_it_is(source, unit):
    try:
        source.encode(), unit.encode()
    except UnicodeEncodeError:
        return
    data = tomllib.loads(profile_entry(found(source=source, unit=unit)))
    assert data["attributes"]["player.hp"]["source"] == source
    assert data["attributes"]["player.hp"].get("unit", "") == unit
