"""Running processes on Windows: discovery, images, anti-cheat, and users of files."""

from pathlib import Path

import pytest

from soulslab.errors import AttachDeniedError, ImageError
from soulslab.siphon.memory.windows import WindowsMemory
from soulslab.siphon.process.discovery import executable_of, find_process, has_ended, refuse_anti_cheat, writers_of
from soulslab.siphon.process.image import module_base, read_image
from support.find_process_contract import FindProcessContract, process
from support.target import running
from support.waiting import wait_for


class TestFindProcess(FindProcessContract):
    pass


def test_case_does_not_matter(unique):
    with running([unique]) as target:
        assert find_process(process(unique.name.upper())) == target.pid


def test_a_process_that_denies_access_is_found_by_its_name(unique):
    with running([unique]) as target:
        target.do("hide")
        assert find_process(process(unique.name)) == target.pid
        assert not has_ended(target.pid)
        with pytest.raises(AttachDeniedError, match="PROCESS_QUERY_LIMITED_INFORMATION"):
            executable_of(target.pid)
        with pytest.raises(AttachDeniedError, match="PROCESS_VM_READ"):
            refuse_anti_cheat(target.pid, process(unique.name))


def test_reads_the_version_and_the_sections_of_the_game(game, game_path):
    memory = WindowsMemory(game.pid)
    image = read_image(memory, "smallwindowsgame.EXE")
    assert (image.kind, image.version, image.pid, image.is_library) == ("pe", "1.4.2.7", game.pid, False)
    assert Path(image.path).samefile(game_path)
    assert Path(executable_of(game.pid)).samefile(game_path)
    sections = {section.name: section for section in image.sections}
    assert sections[".text"].is_executable
    assert not sections[".text"].is_writable
    assert sections[".data"].is_writable
    for start, end in image.code_ranges:
        assert len(memory.read(start, end - start)) == end - start
    memory.close()


def test_finds_libraries(game):
    memory = WindowsMemory(game.pid)

    def base(name):
        try:
            return module_base(memory, name)
        except ImageError:
            return 0  # the loader has not mapped it yet

    found = wait_for(lambda: base("USER32.dll"))
    assert memory.read(found, 2) == b"MZ"
    assert found == min(region.start for region in memory.regions() if region.path.lower().endswith("\\user32.dll"))
    with pytest.raises(ImageError, match="user32"):
        module_base(memory, "user33.dll")
    memory.close()


def test_a_file_that_is_open_for_writing(tmp_path):
    path = tmp_path / "ER0000.sl2"
    path.write_bytes(b"BND4")
    assert writers_of(path) == ()
    with path.open("rb"):
        assert writers_of(path) == ()
    # The Restart Manager of Wine does not name the process.
    with path.open("r+b"), pytest.raises(PermissionError, match="open for writing"):
        writers_of(path)
    assert writers_of(path) == ()
    with pytest.raises(FileNotFoundError):
        writers_of(tmp_path / "nowhere.sl2")
