"""Resolution of the addresses of a profile: bases and code offsets, found in one pass."""

import struct

import msgspec
import pytest

from soulslab.errors import ImageError, MemoryAccessError, PatternError
from soulslab.siphon.attributes import address_resolution as places_module
from soulslab.siphon.attributes.address_resolution import CompleteCode, resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.process.image import Image, Section
from soulslab.siphon.profile import Alternative, Attribute, Base, CodeOffset, Process, Profile
from soulslab.testing.fake_memory import FakeMemory

START = 0x140001000
FLIPPER = "8B 83 ?? ?? 00 00 89 83 ?? ?? 00 00"


def program(code, *, size=0x3000, version="1.2", kind="pe"):
    """Return the memory and the image of a program that has this code at START."""
    memory = FakeMemory()
    memory.map(START, bytearray(code) + bytearray(b"\xcc" * (0x1000 - len(code))), is_executable=True)
    memory.map(START + 0x1000, bytearray(0x2000))
    sections = (
        Section(name=".text", start=START, size=size - 0x2000, is_executable=True, is_writable=False),
        Section(name=".data", start=START + 0x1000, size=0x2000, is_executable=False, is_writable=True),
    )
    image = Image(path="game.exe", kind=kind, base=START - 0x1000, size=0x4000, version=version, sections=sections)
    return memory, image


def resolve_all(profile, code, *, size=0x3000, version="1.2", **options):
    """Resolve the addresses of a profile in a program with this code at START."""
    return resolve_addresses(profile, *program(code, size=size, version=version), **options)


def make(versions=(), **tables):
    return Profile(name="game", process=Process(executable="game.exe", versions=versions), **tables)


def resolve(bases, code, *, size=0x3000):
    """Resolve the bases of a program that has this code at START."""
    return resolve_all(make(bases=bases), code, size=size).bases


def code_with(*parts):
    """Code with instructions at given offsets."""
    code = bytearray(b"\x90" * 0x800)
    for at, instruction in parts:
        code[at : at + len(instruction)] = instruction
    return code


def pattern_base(text, **options):
    return Base(pattern=text, source="made up", **options)


def test_displacements_count_from_the_end_of_the_instruction():
    mov = b"\x48\x8b\x05" + struct.pack("<i", 0x1234) + b"\x48\x85\xc0"
    back = b"\x48\x8d\x0d" + struct.pack("<i", -0x20) + b"\xc3"
    # cmp dword [rip+disp], imm8: an immediate follows the displacement.
    compare = b"\x83\x3d" + struct.pack("<i", 0x100) + b"\x07\x74"
    places = resolve(
        {
            "mov": pattern_base("48 8B 05 ?? ?? ?? ?? 48 85 C0", displacement_at=3, instruction_end=7, is_pointer=True),
            "back": pattern_base("48 8D 0D ?? ?? ?? ?? C3", displacement_at=3, instruction_end=7, adjust=4),
            "compare": pattern_base("83 3D ?? ?? ?? ?? 07 74", displacement_at=2, instruction_end=7),
            "match": pattern_base("85 C0"),
            "offset": Base(offset=0x2010, adjust=-0x10, is_pointer=True, source="made up"),
        },
        code_with((0x100, mov), (0x200, back), (0x300, compare)),
    )
    assert places == {
        "mov": START + 0x107 + 0x1234,
        "back": START + 0x207 - 0x20 + 4,
        "compare": START + 0x307 + 0x100,
        "match": START + 0x108,
        "offset": START - 0x1000 + 0x2000,
    }


def test_data_is_not_searched():
    with pytest.raises(PatternError, match="was found nowhere"):
        resolve({"x": pattern_base("00 00")}, code_with())


def test_pick_chooses():
    code = code_with((0x100, b"\xe8\x01"), (0x200, b"\xe8\x01"), (0x300, b"\xe8\x01"))
    assert resolve({"x": pattern_base("E8 01", pick=1)}, code) == {"x": START + 0x200}
    with pytest.raises(PatternError, match=r"found in 3 places: .*; pick counts from 0 and is 3"):
        resolve({"x": pattern_base("E8 01", pick=3)}, code)


def test_unused_matches_are_logged(caplog):
    code = code_with((0x100, b"\xe8\x01"), (0x200, b"\xe8\x01"))
    with caplog.at_level("INFO"):
        resolve({"x": pattern_base("E8 01", pick=0)}, code)
    assert f"bases.x: 'E8 01' was found in 2 places: {START + 0x100:#x}, {START + 0x200:#x}; number 0" in caplog.text


def test_a_missing_match_names_the_searched_memory_and_other_problems():
    bases = {"x": pattern_base("12 34 56"), "fine": pattern_base("E8 01"), "y": pattern_base("65 43 21")}
    with pytest.raises(PatternError) as caught:
        resolve(bases, code_with((0x100, b"\xe8\x01")))
    assert (caught.value.base, caught.value.addresses) == ("x", ())
    for part in ("base 'x': '12 34 56' was found nowhere", "code of game.exe, version 1.2", "wrong, too: 'y'"):
        assert part in str(caught.value)
    assert "could not be read" not in str(caught.value)


def test_a_missing_match_names_unreadable_memory():
    with pytest.raises(PatternError, match=r"16384 bytes of the code could not be read"):
        resolve({"x": pattern_base("12 34 56")}, code_with(), size=0x3000 + 0x6000)


def test_several_matches_are_shown():
    code = code_with(*((0x20 * i, b"\xe8\x01") for i in range(1, 21)))
    with pytest.raises(PatternError) as caught:
        resolve({"x": pattern_base("E8 01")}, code)
    assert caught.value.addresses == tuple(START + 0x20 * i for i in range(1, 21))
    assert f"in 20 places: {START + 0x20:#x}, " in str(caught.value)
    assert str(caught.value).count("0x") == 16
    assert ", ...; make it longer, or choose one with pick" in str(caught.value)


def test_a_displacement_after_the_mapped_code():
    base = pattern_base("E8 ??", displacement_at=0x4000, instruction_end=7)  # no profile that was loaded has this
    with pytest.raises(MemoryAccessError):
        resolve({"x": base}, code_with((0x100, b"\xe8\x01")))


def test_a_missing_module_is_an_error():
    with pytest.raises(ImageError, match=r"libgame\.so"):
        resolve({"x": Base(module="libgame.so", offset=0, source="made up")}, code_with())


# --- offsets that the code holds ----------------------------------------------------------------------------


def code_offset(text=FLIPPER, at=2, bounds=(0x200, 0x300), **fields):
    return CodeOffset(pattern=text, at=at, range=bounds, source="made up", **fields)


def flipper(last_frame):
    """mov eax, [rbx + last_frame]; mov [rbx + last_frame + 0x50], eax."""
    return b"\x8b\x83" + struct.pack("<I", last_frame) + b"\x89\x83" + struct.pack("<I", last_frame + 0x50)


@pytest.mark.parametrize("last_frame", [0x264, 0x26C])
def test_code_contains_the_offset_of_a_field(last_frame):
    offsets = {
        "last_frame": code_offset(),
        "game_speed": code_offset(adjust=0x68, bounds=(0x268, 0x368)),
        "written_to": code_offset(at=8, type="i32"),
        "near": code_offset("80 79 ?? 05", bounds=(-128, 0), type="i8"),
        "far": code_offset("80 79 ?? 05", bounds=(0, 255), type="u8"),
    }
    code = code_with((0x100, flipper(last_frame)), (0x200, b"\x80\x79\xf8\x05"))
    assert resolve_all(make(code_offsets=offsets), code).code_offsets == {
        "last_frame": last_frame,
        "game_speed": last_frame + 0x68,
        "written_to": last_frame + 0x50,
        "near": -8,
        "far": 0xF8,
    }


def test_a_base_and_a_code_offset_may_share_a_name_and_a_pattern():
    profile = make(bases={"x": pattern_base(FLIPPER)}, code_offsets={"x": code_offset()})
    places = resolve_all(profile, code_with((0x100, flipper(0x264))))
    assert (places.bases, places.code_offsets) == ({"x": START + 0x100}, {"x": 0x264})


@pytest.mark.parametrize(
    ("code", "fields", "place", "problem"),
    [
        ((), {}, "code_offsets.x.pattern", "was found nowhere; searched 0.0 MB of code of game.exe, version 1.2"),
        (
            (0x264, 0x26C),
            {},
            "code_offsets.x.pattern",
            "was found in 2 places: .*; make it longer, or choose one with pick",
        ),
        ((0x264, 0x26C), {"pick": 2}, "code_offsets.x.pick", "pick counts from 0 and is 2"),
        ((0x364,), {}, "code_offsets.x.range", "gives 0x364, which is outside its plausible range 0x200 to 0x300"),
    ],
)
def test_errors_of_a_code_offset_name_its_place(code, fields, place, problem):
    parts = [(0x100 * i, flipper(offset)) for i, offset in enumerate(code, start=1)]
    with pytest.raises(PatternError, match=problem) as caught:
        resolve_all(make(code_offsets={"x": code_offset(**fields)}), code_with(*parts))
    assert (caught.value.base, caught.value.place) == ("x", place)
    assert str(caught.value).startswith(f"{place}: ")
    assert len(caught.value.addresses) == len(code)


def test_pick_chooses_a_code_offset():
    code = code_with((0x100, flipper(0x264)), (0x200, flipper(0x26C)))
    assert resolve_all(make(code_offsets={"x": code_offset(pick=1)}), code).code_offsets == {"x": 0x26C}


def test_a_weak_pattern_names_its_place():
    profile = make(code_offsets={"a name": code_offset("00 ??", at=1, type="u8")})
    with pytest.raises(PatternError, match="too weak: it was found in more than 4096 places") as caught:
        resolve_all(profile, code_with(), size=0x5000)
    assert caught.value.place == 'code_offsets."a name".pattern'


# --- versions, and other ways -------------------------------------------------------------------------------

OLD, NEW = "1.0.0.0", "2.0.0.0"


def fact(base="", offsets=(0,), **fields):
    return Attribute(base=base, offsets=offsets, type="i32", range=(0, 9), source="made up", **fields)


def test_patterns_for_other_versions_are_not_searched():
    profile = make(
        (OLD, NEW),
        bases={"old": pattern_base("11 22 33", versions=(OLD,)), "new": pattern_base("44 55 66", versions=(NEW,))},
        code_offsets={"x": code_offset(versions=(OLD,))},
    )
    code = code_with((0x100, b"\x44\x55\x66"))
    assert resolve_all(profile, code, version=NEW).bases == {"new": START + 0x100}
    with pytest.raises(PatternError, match="wrong, too: 'x'") as caught:
        resolve_all(profile, code, version=OLD)
    assert caught.value.base == "old"


def test_all_alternatives_are_tried_on_an_unknown_version():
    profile = make(
        (OLD, NEW),
        bases={"old": pattern_base("11 22 33", versions=(OLD,)), "new": pattern_base("44 55 66", versions=(NEW,))},
        code_offsets={"x": code_offset(versions=(OLD,))},
    )
    places = resolve_all(profile, code_with((0x100, b"\x44\x55\x66"), (0x200, flipper(0x264))), version="3.0.0.0")
    assert (places.bases, places.code_offsets) == ({"new": START + 0x100}, {"x": 0x264})
    assert list(places.missing) == ["bases.old"]
    assert places.missing["bases.old"].base == "old"


def test_an_attribute_with_alternatives_may_lack_one():
    bases = {"sure": pattern_base("44 55 66"), "perhaps": pattern_base("11 22 33")}
    other = Alternative(base="perhaps", offsets=("x",), source="another tool")
    attributes = {"hp": fact("sure", alternatives=(other,))}
    code = code_with((0x100, b"\x44\x55\x66"))
    places = resolve_all(make(bases=bases, code_offsets={"x": code_offset()}, attributes=attributes), code)
    assert set(places.missing) == {"bases.perhaps", "code_offsets.x"}
    for needed in ({"hp": fact("perhaps")}, {**attributes, "sp": fact("perhaps")}):
        with pytest.raises(PatternError, match="base 'perhaps'"):
            resolve_all(make(bases=bases, attributes=needed), code)


def test_an_alternative_for_another_version_is_not_used():
    bases = {"sure": pattern_base("44 55 66"), "perhaps": pattern_base("11 22 33")}
    other = Alternative(base="sure", versions=(OLD,), source="another tool")
    profile = make((OLD, NEW), bases=bases, attributes={"hp": fact("perhaps", alternatives=(other,))})
    code = code_with((0x100, b"\x44\x55\x66"))
    assert list(resolve_all(profile, code, version=OLD).missing) == ["bases.perhaps"]
    with pytest.raises(PatternError, match="base 'perhaps'"):
        resolve_all(profile, code, version=NEW)


def stale_profile():
    """A profile with one valid pattern, one without a match, and one with several matches."""
    bases = {"here": pattern_base("E8 01"), "stale": pattern_base("12 34 56"), "weak": pattern_base("90")}
    attributes = {
        name: Attribute(base=base, offsets=(0,), type="u8", range=(0, 255), source="made up")
        for name, base in (("hp", "here"), ("mana", "stale"), ("stamina", "weak"))
    }
    return make(bases=bases, attributes=attributes)


def test_a_session_may_be_opened_without_the_patterns_that_are_missing():
    code = bytearray(b"\x90" * 0x1000)
    code[0x100:0x102] = b"\xe8\x01"
    memory = FakeMemory()
    memory.map(START, code * 3, is_executable=True)
    section = Section(name=".text", start=START, size=0x3000, is_executable=True, is_writable=False)
    image = Image(path="game.exe", kind="pe", base=START, size=0x3000, version="", sections=(section,))
    for base in ("here", "stale", "weak"):
        fact = stale_profile().bases[base]
        with pytest.raises(PatternError, match=f"base '{base}'"):
            resolve_addresses(make(bases={base: fact}), memory, image)
    profile = stale_profile()
    picked = msgspec.structs.replace(profile, bases={**profile.bases, "here": pattern_base("E8 01", pick=0)})
    found = resolve_addresses(picked, memory, image, allow_missing=True)
    assert (found.bases, set(found.missing)) == ({"here": START + 0x100}, {"bases.stale", "bases.weak"})
    table = AttributeTable(picked, memory, found)
    assert table.read("hp") == 0xE8
    assert table.read_many() == {"hp": 0xE8}
    for name, problem in (("mana", "base 'stale': '12 34 56' was found nowhere"), ("stamina", "base 'weak'.*too weak")):
        for use in (lambda name=name: table.read(name), lambda name=name: table.write({name: 1})):
            with pytest.raises(PatternError, match=f"attribute '{name}': .*{problem}"):
                use()


@pytest.mark.parametrize(
    ("kind", "pattern", "is_complete"), [("elf", "12 34", True), ("pe", "12 34", False), ("pe", "90 90 E8", True)]
)
def test_code_is_complete_once_it_stays_the_same(monkeypatch, kind, pattern, is_complete):
    """Image of a native program, or one in which a pattern matches."""
    monkeypatch.setattr(places_module, "STILL_S", 0.0)
    memory, image = program(code_with((0x100, b"\xe8\x01")), kind=kind)
    profile = make(bases={"one": pattern_base(pattern), "stale": pattern_base("65 43")})
    assert CompleteCode(profile, memory).is_complete(image) is is_complete
    monkeypatch.setattr(places_module, "STILL_S", 1e-9)
    code = CompleteCode(profile, memory)
    for _ in range(3):  # it is being unpacked
        memory.write(START, bytes([memory.read(START, 1)[0] ^ 0xFF]))
        assert not code.is_complete(image)
    assert code.is_complete(image) is is_complete
