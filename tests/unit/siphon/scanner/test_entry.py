"""Writing entries into profiles."""

from __future__ import annotations

import tomllib

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ProfileError
from soulslab.siphon.profile import Base, ClockFacts, Process, Profile, load_profile
from soulslab.siphon.scanner.entry import Found, add_entry, edit_profile, profile_entry, remove_entry, set_values
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


NEW = Profile(
    name="mine",
    process=Process(executable="mine", command=("./mine", "-w"), environment={"HOME": "{directory}"}),
    clock=ClockFacts(grade="lockstep"),
)


def add(file, entry):
    with edit_profile(file, NEW) as document:
        add_entry(document, entry)
    return load_profile(file)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "game.toml"
    path.write_text(PROFILE)
    return path


def test_an_entry_is_added_and_the_rest_stays(file):
    profile = add(file, found())
    assert file.read_text().startswith(PROFILE)
    assert profile.bases["player.hp"] == Base(module="", offset=0x2A0, source="scan")
    attribute = profile.attributes["player.hp"]
    assert attribute.offsets == (0, 0x10, 0x8)
    assert attribute.range == (0, 200)
    assert "offset = 0x2a0" in file.read_text()
    assert "offsets = [0x0, 0x10, 0x8]" in file.read_text()


def test_a_pattern_becomes_the_base_and_its_distance_the_first_offset(file):
    base = Base(pattern="48 8B 05 ?? ?? ?? ?? C3", displacement_at=3, instruction_end=7, source="scan")
    profile = add(file, found(signature=Signature(base, -0x2C)))
    assert profile.bases["player.hp"] == base
    assert profile.attributes["player.hp"].offsets == (-0x2C, 0x10, 0x8)


def test_only_values_other_than_defaults_are_written(file):
    entry = found(type="f32", length=3, scale=0.5, unit="m", path=PointerPath(0, (), "lib.so", 8))
    attribute = add(file, entry).attributes["player.hp"]
    assert (attribute.length, attribute.scale, attribute.unit, attribute.offsets) == (3, 0.5, "m", (0,))


def test_a_profile_is_created(tmp_path):
    file = tmp_path / "new.toml"
    profile = add(file, found())
    assert profile.process == NEW.process
    assert profile.clock == NEW.clock
    assert profile.name == NEW.name
    assert set(profile.attributes) == {"player.hp"}


@pytest.mark.parametrize("change", [{"range": None}, {"range": (5, 1)}, {"source": ""}, {"type": "i33"}])
@pytest.mark.parametrize("exists", [True, False])
def test_an_invalid_entry_leaves_the_folder_as_it_was(file, exists, change):
    if not exists:
        file.unlink()
    with pytest.raises(ProfileError):
        add(file, found(**change))
    assert [path.read_text() for path in file.parent.iterdir()] == [PROFILE] * exists


def test_entries_are_replaced_between_others(file):
    for name in ("stamina", "tick", "poise"):
        add(file, found(name=name))
    with edit_profile(file, NEW) as document:
        remove_entry(document, "tick")
        add_entry(document, found(name="tick", type="u8", range=(0, 255)))
        remove_entry(document, "not there")
    profile = load_profile(file)
    assert set(profile.attributes) == set(profile.bases) == {"stamina", "tick", "poise"}
    assert profile.attributes["tick"].type == "u8"
    with pytest.raises(ProfileError, match=r"bases\.tick already"):
        add(file, found(name="tick"))
    assert load_profile(file) == profile


def test_values_are_set_and_removed(file):
    with edit_profile(file, NEW) as document:
        set_values(document, "clock", {"grade": "lockstep", "tick_hz": 35, "boundary": "idle"})
    with edit_profile(file, NEW) as document:
        set_values(document, "clock", {"tick_hz": 50.5, "boundary": None})
    assert load_profile(file).clock == ClockFacts(grade="lockstep", tick_hz=50.5)
    assert file.read_text().startswith(PROFILE)


def test_a_file_that_cannot_be_read_or_written_is_reported(tmp_path):
    with pytest.raises(ProfileError, match="cannot be written"):
        add(tmp_path / "no folder" / "none.toml", found())
    (tmp_path / "broken.toml").write_text("name =")
    with pytest.raises(ProfileError, match="is not valid TOML"):
        add(tmp_path / "broken.toml", found())
    (tmp_path / "long.toml").write_text(f"{'a.' * 30_000}a = 1")
    with pytest.raises(ProfileError, match="key"):
        add(tmp_path / "long.toml", found())


def test_links_and_permissions_stay(file, tmp_path):
    file.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    add(link, found())
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert "player.hp" in file.read_text()


@given(st.text(min_size=1), st.text(), st.text(min_size=1))
def test_any_text_is_written_as_it_is(source, unit, name):
    try:
        f"{source}{unit}{name}".encode()
    except UnicodeEncodeError:
        return
    entry = found(source=source, unit=unit, name=name)
    document = tomlkit.parse(PROFILE)
    add_entry(document, entry)
    assert tomllib.loads(tomlkit.dumps(document)) == tomllib.loads(PROFILE) | profile_entry(entry)
