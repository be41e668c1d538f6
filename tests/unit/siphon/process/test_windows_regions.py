"""The parts of the Windows backends that need no Windows."""

import pytest

from soulslab.siphon.memory import join_parts
from soulslab.siphon.memory.windows_regions import PageRange, user_path
from soulslab.siphon.process.running_process import RunningProcess

COMMITTED, RESERVED = 0x1000, 0x2000
DEVICES = {r"\Device\HarddiskVolume3": "C:", r"\Device\HarddiskVolume1": "D:"}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (r"\Device\HarddiskVolume3\Games\eldenring.exe", r"C:\Games\eldenring.exe"),
        (r"\Device\HarddiskVolume1\x.dll", r"D:\x.dll"),
        (r"\Device\HarddiskVolume10\x.dll", r"\Device\HarddiskVolume10\x.dll"),
        (r"\Device\Mup\server\share\x.dll", r"\\server\share\x.dll"),
        (r"\??\C:\windows\system32\ntdll.dll", r"C:\windows\system32\ntdll.dll"),
        ("", ""),
    ],
)
def test_paths_of_mapped_files_are_those_of_users(name, path):
    assert user_path(name, DEVICES) == path


@pytest.mark.parametrize(
    ("state", "protection", "rights"),
    [
        (COMMITTED, 0x01, ""),
        (COMMITTED, 0x02, "r"),
        (COMMITTED, 0x04, "rw"),
        (COMMITTED, 0x08, "rw"),  # copied on write
        (COMMITTED, 0x10, "x"),
        (COMMITTED, 0x20, "rx"),
        (COMMITTED, 0x40, "rwx"),
        (COMMITTED, 0x80, "rwx"),
        (COMMITTED, 0x04 | 0x100, ""),  # a guard page
        (COMMITTED, 0x04 | 0x400, "rw"),  # write-combined, as memory of graphics cards
        (COMMITTED, 0, ""),
        (RESERVED, 0x04, ""),
    ],
)
def test_rights_of_pages(state, protection, rights):
    pages = PageRange(start=0x1000, size=0x2000, state=state, protection=protection)
    found = (pages.is_readable, pages.is_writable, pages.is_executable)
    assert found == tuple(right in rights for right in "rwx")
    assert pages.end == 0x3000


def test_parts_on_adjacent_pages_are_joined():
    starts = [0x1000, 0x1FFC, 0x3000, 0x5000, 0x5000, 0x6000]
    ends = [0x1008, 0x2004, 0x3008, 0x5008, 0x5008, 0x6001]
    assert join_parts(starts, ends, [0, 0, 0, 0, 1, 1]) == (
        [0, 0, 0, 1, 2, 2],
        [(0x1000, 0x3008), (0x5000, 0x5008), (0x5000, 0x6001)],
    )


def test_a_windows_process_whose_path_is_unknown_has_its_full_name():
    one = RunningProcess(8, "DarkSoulsIII_of_somebody.exe", "DarkSoulsIII_of_somebody.exe", (), 0.0)
    assert one.rank("darksoulsiii_of_somebody.exe") == 2
    assert one.rank("darksoulsiii.exe") == 0
    assert one.describe() == "8, start unknown: DarkSoulsIII_of_somebody.exe"
