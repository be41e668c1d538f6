"""Finding of real processes, with a target program that has the names of games."""

import os
import shutil
from pathlib import Path

import pytest

from soulslab.errors import AmbiguousProcessError, AntiCheatError, ImageError, ProcessNotFoundError
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.discovery import executable_of, find_process, has_ended, refuse_anti_cheat
from soulslab.siphon.process.image import module_base, read_image
from support.find_process_contract import FindProcessContract, process
from support.target import Target, running
from support.windows_program import BASE, SECTION_SIZE, SIZE, windows_program


class TestFindProcess(FindProcessContract):
    pass


def test_command_lines_distinguish_processes(unique: Path):
    with (
        running([unique]),
        running([unique, "-second"]),
        pytest.raises(AmbiguousProcessError, match=f"{unique} -second"),
    ):
        find_process(process(unique.name))


@pytest.mark.parametrize("name", ["EldenRing.exe", "eldenring.EXE"])
def test_finds_a_windows_program_by_the_path_that_wine_gives_it(program: Path, name: str):
    game = f"{os.getpid()}{name}"
    with running([f"Z:\\games\\{game}", "-x"], executable=program) as target:
        assert find_process(process(game.lower())) == target.pid
        with pytest.raises(ProcessNotFoundError):
            find_process(process(game.lower()[:-4]))


def test_programs_under_the_loader_of_wine_are_found(tmp_path: Path, program: Path):
    loader = Path(shutil.copy(program, tmp_path / "wine64-preloader"))
    game = f"{os.getpid()}eldenring.exe"
    with running([str(loader), "/usr/bin/wine64", f"C:\\{game}"]) as target:
        assert executable_of(target.pid) == f"C:\\{game}"
        # Wine gives the process the name of the game, cut.
        target.do(f"call {game}")
        assert find_process(process(game)) == target.pid


def test_a_script_of_the_same_name_is_not_the_game(tmp_path: Path, unique: Path):
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / unique.name
    script.write_text(f"#!/bin/sh\n'{unique}'\nexit 3\n")
    script.chmod(0o755)
    with running([script]) as target:
        found = find_process(process(unique.name))
        assert found != target.pid
        target.process.stdin.write("exit 0\n")  # type: ignore[union-attr]
        assert target.reap() == 3
        assert has_ended(found)


# --- anti-cheat -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "is_refused"), [({"WINEPREFIX": "/p/1"}, True), ({"WINEPREFIX": "/p/2"}, False), ({}, False)]
)
def test_an_anti_cheat_beside_the_game_is_refused(
    program: Path, tmp_path: Path, variables: dict[str, str], is_refused: bool
):
    # A unique name, so that tests of other workers do not find it.
    guard = Path(shutil.copy(program, tmp_path / f"guard_{os.getpid()}.exe"))
    facts = process("x", anti_cheat=(f"guard_{os.getpid()}.*",))
    with (
        running([program], env={"WINEPREFIX": "/p/1"}, start_new_session=True) as game,
        running([guard], env=variables, start_new_session=True) as other,
    ):
        if not is_refused:
            refuse_anti_cheat(game.pid, facts)
            return
        with pytest.raises(AntiCheatError, match=f"process {other.pid}"):
            refuse_anti_cheat(game.pid, facts)


# --- the program in memory ------------------------------------------------------------------------------------------


def test_finds_the_program_and_its_sections(target: Target, memory: LinuxMemory, program: Path):
    image = read_image(memory, program.name)
    assert (image.kind, image.path, image.version, image.pid) == ("elf", str(program), "", target.pid)
    sections = {section.name: section for section in image.sections}
    assert sections[".text"].is_executable
    assert not sections[".text"].is_writable
    assert sections[".bss"].is_writable
    for address, name in ((target.root, ".bss"), (target.root_pointer, ".data"), (target.function, ".text")):
        assert sections[name].start <= address < sections[name].start + sections[name].size
    assert image.base <= target.function < image.base + image.size
    assert image.base == min(region.start for region in memory.regions() if region.path == str(program))


def test_without_its_file_the_segments_serve(memory: LinuxMemory, target: Target, program: Path):
    copy = program.with_name(f"{program.name}_{target.pid}")
    program.rename(copy)
    try:
        named = read_image(memory, copy.name)
    finally:
        copy.rename(program)
    assert ".text" in {section.name for section in named.sections}
    original = program.read_bytes()
    program.unlink()
    try:
        unnamed = read_image(memory, program.name)
        program.write_bytes(b"\x7fELF another program")
        assert read_image(memory, program.name).sections == unnamed.sections
    finally:
        program.unlink(missing_ok=True)
        program.write_bytes(original)
        program.chmod(0o755)
    assert [section.name for section in unnamed.sections] == [f"load{i}" for i in range(len(unnamed.sections))]
    assert (unnamed.base, unnamed.size) == (named.base, named.size)
    (code,) = [section for section in unnamed.sections if section.is_executable]
    assert code.start <= target.function < code.start + code.size


def test_finds_libraries(memory: LinuxMemory):
    (path,) = {region.path for region in memory.regions() if "/libc" in region.path}
    base = min(region.start for region in memory.regions() if region.path == path)
    assert module_base(memory, Path(path).name) == base
    assert module_base(memory, "libc.so.6") == base
    with pytest.raises(ImageError, match="libc"):
        module_base(memory, "libcc.so.6")


@pytest.mark.parametrize("has_file", [True, False])
def test_a_windows_program_with_anonymous_sections(target: Target, memory: LinuxMemory, tmp_path: Path, has_file: bool):
    content = windows_program()
    file = tmp_path / "Game.exe"
    file.write_bytes(content[:SECTION_SIZE])
    with pytest.raises(ImageError, match="not loaded"):
        read_image(memory, "game.exe")
    assert target.do(f"map {SIZE} {file if has_file else ''}") == BASE
    # The page of the file cannot be written, and has its content already.
    start = SECTION_SIZE if has_file else 0
    memory.write(BASE + start, bytes(content[start:]))
    image = read_image(memory, "Z:\\game.exe")
    assert (image.kind, image.base, image.version, image.path) == ("pe", BASE, "2.6.1.0", str(file) * has_file)
    assert [section.name for section in image.sections] == [".text", ".data", ".rsrc"]
