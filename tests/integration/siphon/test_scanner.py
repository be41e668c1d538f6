"""The scanner on a real program with known values: search, restart, and profile entry."""

from __future__ import annotations

import pytest

from soulslab.errors import ProcessExitedError, ScanError
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.profile import load_profile
from soulslab.siphon.scanner.conditions import Condition
from soulslab.siphon.scanner.entry import Found, add_entry, edit_profile
from soulslab.siphon.scanner.pointers import PointerMap, follow, modules_of, verify
from soulslab.siphon.scanner.searches import find_text
from soulslab.siphon.scanner.signature import find_signature
from soulslab.siphon.scanner.value_scan import ValueScan
from support.hoard import NAME, compile_hoard, running_hoard

PROFILE = f"""# My hoard
name = "hoard"

[process]
executable = "{NAME}"  # compiled by the test
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_hoard(tmp_path_factory.mktemp("hoard"))


@pytest.fixture(scope="module")
def hoard(program):
    with running_hoard(program) as hoard:
        yield hoard


def addresses(scan):
    return [candidate.address for candidate in scan.candidates()]


def path_to(program, name):
    """Return the best path that is valid in two runs; most paths of one run are coincidences."""
    with running_hoard(program, seed=1) as first:
        paths = PointerMap(first.memory, modules_of(first.memory, first.image)).paths_to(getattr(first, name))
    with running_hoard(program, seed=2) as second:
        modules = modules_of(second.memory, second.image)
        return verify(paths, second.memory, modules, getattr(second, name))[0]


def test_a_known_value_is_found_by_narrowing(program):
    with running_hoard(program) as hoard:
        scan = ValueScan(hoard.memory, "i32")
        assert scan.first(Condition("exact", 31415)) > 4096
        hoard.do("noise", 5)
        hoard.do("hurt", 15)
        assert scan.narrow(Condition("exact", 31400)) == 1
        assert addresses(scan) == [hoard.health]
        assert scan.candidates()[0].value == 31400


def test_a_value_of_which_only_the_changes_are_seen_is_found(program):
    with running_hoard(program) as hoard:
        scan = ValueScan(hoard.memory, "f32")
        scan.first(Condition("unknown"))
        scan.narrow(Condition("unchanged"))
        hoard.do("stamina", 10.25)
        scan.narrow(Condition("decreased"))
        hoard.do("stamina", 11.5)
        scan.narrow(Condition("increased_by", 1.25))
        hoard.do("noise", 1)
        scan.narrow(Condition("between", 11, 12))
        assert addresses(scan) == [hoard.stamina]


@pytest.mark.parametrize(
    ("text", "encoding", "name"), [("Tarnished of", "utf8", "name"), ("Elden_Lor", "utf16", "title")]
)
def test_text_is_found(hoard, text, encoding, name):
    assert getattr(hoard, name) in find_text(hoard.memory, text, encoding)


def test_a_path_that_survives_a_restart_is_found(program):
    with running_hoard(program, seed=1) as first:
        modules = modules_of(first.memory, first.image)
        paths = PointerMap(first.memory, modules).paths_to(first.health)
        assert all(follow(path, first.memory, modules) == first.health for path in paths)
    with running_hoard(program, seed=2) as second:
        modules = modules_of(second.memory, second.image)
        left = verify(paths, second.memory, modules, second.health)
        assert left[0].offsets == (0x40, 0x18, 0x1C)
        assert second.image.base + left[0].offset == second.game
        assert len(left) < len(paths) or len(paths) == 1


def test_values_in_the_program_need_no_pointer(hoard):
    modules = modules_of(hoard.memory, hoard.image)
    (path,) = PointerMap(hoard.memory, modules).paths_to(hoard.score)
    assert path.offsets == ()
    assert hoard.image.base + path.offset == hoard.score


@pytest.mark.parametrize("by_pattern", [False, True], ids=["by module", "by pattern"])
@pytest.mark.parametrize("name", ["health", "score"])
def test_the_entry_reads_the_value_in_the_next_run(program, tmp_path, name, by_pattern):
    file = tmp_path / "hoard.toml"
    file.write_text(PROFILE)
    path = path_to(program, name)
    with running_hoard(program, seed=3) as third:
        start = third.image.base + path.offset
        signature = find_signature(third.memory, third.image, start, reach=0) if by_pattern else None
    found = Found(name=name, path=path, type="i32", range=(0, 1_000_000), source="a test", signature=signature)
    with edit_profile(file, load_profile(file)) as document:
        add_entry(document, found)
    profile = load_profile(file)
    assert file.read_text().startswith(PROFILE.rstrip())
    with running_hoard(program, seed=4) as second:
        places = resolve_addresses(profile, second.memory, second.image)
        value = AttributeTable(profile, second.memory, places).read(name)
    assert value == {"health": 31415, "score": 777001}[name]


def test_a_place_that_no_instruction_names_is_reported(hoard):
    with pytest.raises(ScanError, match="no instruction"):
        find_signature(hoard.memory, hoard.image, hoard.image.base, reach=0)


def test_the_end_of_the_game_is_reported(program):
    with running_hoard(program) as hoard:
        scan = ValueScan(hoard.memory, "i32")
        scan.first(Condition("exact", 31415))
        hoard.process.kill()
        hoard.process.wait()
        with pytest.raises(ProcessExitedError):
            scan.narrow(Condition("unchanged"))
        with pytest.raises(ProcessExitedError):
            find_text(hoard.memory, "x", "utf8")
