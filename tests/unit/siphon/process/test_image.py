import struct

import pytest

from soulslab.errors import GameVersionError, ImageError
from soulslab.siphon.process.discovery import check_version
from soulslab.siphon.process.image import Image, module_base, read_image
from soulslab.siphon.profile import Process
from soulslab.testing.fake_memory import FakeMemory
from support.windows_program import BASE, HEADER_AT, SECTION_SIZE, SIZE, windows_program

GAME = "Z:\\games\\eldenring.exe"


def as_wine_maps_it(memory: FakeMemory, content: bytearray, base: int = BASE, path: str = "") -> None:
    """Only the page with the header names a file; the sections are anonymous."""
    memory.map(base, content[:SECTION_SIZE], is_writable=False, path=path)
    memory.map(base + SECTION_SIZE, content[SECTION_SIZE:], is_executable=True)


@pytest.mark.parametrize("path", ["/games/EldenRing.exe", ""])
@pytest.mark.parametrize("name", ["eldenring.exe", GAME])
def test_finds_the_windows_program(path: str, name: str):
    memory = FakeMemory(77)
    memory.map(0x10000, bytearray(b"MZ" + bytes(100)))
    memory.map(0x20000, bytearray(b"MZ"))
    as_wine_maps_it(
        memory, windows_program(is_library=True, version=None), 0x7000_0000, "/wine/ntdll.dll" if path else ""
    )
    as_wine_maps_it(memory, windows_program(), path=path)
    image = read_image(memory, name)
    assert (image.kind, image.base, image.size, image.version, image.path, image.pid) == (
        "pe",
        BASE,
        SIZE,
        "2.6.1.0",
        path,
        77,
    )
    assert [(one.name, one.start, one.size, one.is_executable, one.is_writable) for one in image.sections] == [
        (".text", BASE + 0x1000, 0x1000, True, False),
        (".data", BASE + 0x2000, 0x1000, False, True),
        (".rsrc", BASE + 0x3000, 0x1000, False, False),
    ]


def test_the_loaded_program_is_preferred_to_its_file_mapped_as_data():
    memory = FakeMemory()
    as_wine_maps_it(memory, windows_program(), 0x1000_0000, "/games/eldenring.exe")
    as_wine_maps_it(memory, windows_program(), path="/games/eldenring.exe")
    assert read_image(memory, "eldenring.exe").base == BASE


def test_two_that_may_be_it_are_listed():
    memory = FakeMemory()
    for base in (0x1000_0000, 0x2000_0000):
        as_wine_maps_it(memory, windows_program(), base, "/games/eldenring.exe")
    with pytest.raises(ImageError, match=r"0x10000000.*0x20000000"):
        read_image(memory, "eldenring.exe")


@pytest.mark.parametrize("path", ["", "/games/eldenring.dll"])
def test_no_matching_program_is_an_error(path: str):
    memory = FakeMemory(5)
    as_wine_maps_it(memory, windows_program(is_library=True), path=path)
    with pytest.raises(ImageError, match=r"'eldenring.exe' is not loaded in process 5") as caught:
        read_image(memory, "eldenring.exe")
    assert caught.value.pid == 5
    assert ("loaded are 'eldenring.dll'" in str(caught.value)) == bool(path)


@pytest.mark.parametrize("version", [(1, 0, 0, 0), (2, 6, 1, 0), (65535, 65534, 65533, 65532), None], ids=str)
def test_versions(version: tuple[int, int, int, int] | None):
    memory = FakeMemory()
    memory.map(BASE, windows_program(version), path="/game.exe")
    assert read_image(memory, "game.exe").version == (".".join(map(str, version)) if version else "")


def test_broken_resources_are_no_version():
    content = windows_program()
    for at in range(SECTION_SIZE * 3, SECTION_SIZE * 3 + 0x240, 4):
        for value in (0, 0x7FFFFFFF, 0xFFFFFFFF):
            broken = bytearray(content)
            struct.pack_into("<I", broken, at, value)
            memory = FakeMemory()
            memory.map(BASE, broken, path="/game.exe")
            assert read_image(memory, "game.exe").version.count(".") in (0, 3)


def test_broken_headers_are_an_error_of_the_tree():
    content = windows_program()
    for at in [*range(0, 4), *range(0x3C, 0x40), *range(HEADER_AT, HEADER_AT + 24 + 240)]:
        for value in (0, 0x7F, 0xFF):
            broken = bytearray(content)
            broken[at] = value
            memory = FakeMemory()
            memory.map(BASE, broken, path="/game.exe")
            try:
                assert read_image(memory, "game.exe").kind == "pe"
            except ImageError as error:
                assert "game.exe" in str(error) or "0x140000000" in str(error)


def test_32_bits_are_refused():
    memory = FakeMemory()
    memory.map(BASE, windows_program(magic=0x10B), path="/game.exe")
    with pytest.raises(ImageError, match="64-bit"):
        read_image(memory, "game.exe")


def test_finds_libraries_by_file_and_by_the_name_they_give_themselves():
    memory = FakeMemory()
    as_wine_maps_it(memory, windows_program(is_library=True), 0x1000_0000, "/wine/KernelBase.dll")
    as_wine_maps_it(memory, windows_program(is_library=True, export_name="physics.dll"), 0x2000_0000)
    assert module_base(memory, "kernelbase.dll") == 0x1000_0000
    assert module_base(memory, "Physics.dll") == 0x2000_0000
    with pytest.raises(ImageError, match=r"KernelBase.dll"):
        module_base(memory, "kernelbse.dll")


def image(version: str) -> Image:
    return Image(path="", kind="pe", base=BASE, size=SIZE, version=version, sections=(), pid=9)


def test_a_known_version_is_fine():
    check_version(image("1.2"), Process(executable="x"), allow_unknown=False)
    check_version(image("1.2"), Process(executable="x", versions=("1.1", "1.2")), allow_unknown=False)


@pytest.mark.parametrize(("version", "says"), [("1.3", "is version 1.3"), ("", "carries no version")])
def test_an_unknown_version_is_an_error_unless_allowed(version: str, says: str, caplog: pytest.LogCaptureFixture):
    process = Process(executable="x.exe", versions=("1.1", "1.2"))
    with pytest.raises(GameVersionError, match=says) as caught:
        check_version(image(version), process, allow_unknown=False)
    assert (caught.value.version, caught.value.known, caught.value.pid) == (version, ("1.1", "1.2"), 9)
    check_version(image(version), process, allow_unknown=True)
    assert says in caplog.text
