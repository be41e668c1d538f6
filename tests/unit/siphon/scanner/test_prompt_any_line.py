"""Any line typed at the scan prompt is executed or gives an error message."""

from __future__ import annotations

import io
import struct
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from soulslab.errors import ProcessNotFoundError, SoulslabError
from soulslab.siphon.process.image import Image, Section
from soulslab.siphon.scanner.pointers import Module
from soulslab.siphon.scanner.prompt import COMMANDS, do_line
from soulslab.siphon.scanner.workbench import Workbench
from soulslab.siphon.session import Frame
from soulslab.testing.fake_memory import FakeMemory
from soulslab.testing.fake_session import TOY_PROFILE

BASE, HEAP = 0x400000, 0x900000
WORDS = (
    *COMMANDS,
    *("i32", "f32", "text", "byte", "0", "1", "2", "-1", "99", "1e400", "nan", "0x900000", "0x", "~", "=", "<", ">"),
    *("?", "!", "+5", "..", "1..5", "between", "and", "by", "hp", "range=0..9", "range=..", "range=nan..1", "path=1"),
    *("path=x", "length=4", "scale=0", "scale=0.5", "unit=hp", "by=offset", "by=pattern", "''", '""', "'", "\\", "#"),
    *("x.png", "x", "", " ", "é", "\x00", "[bold]", "[/]", "SPACE", "LEFT_ARROW"),
)


class Still:
    """A game of a few bytes with the members that the prompt uses."""

    profile = TOY_PROFILE
    n_starts = 1
    has_ended = False
    is_child = True
    is_paused = True
    clock_grade = "realtime"
    pid = 1

    def __init__(self):
        self.memory = FakeMemory()
        data = self.memory.map(BASE, bytearray(4096), path="/toy")
        heap = self.memory.map(HEAP, bytearray(4096))
        struct.pack_into("<Q", data, 0x10, HEAP)
        struct.pack_into("<ii", heap, 8, 5, 7)
        heap[64:70] = b"Margit"
        sections = (Section(".bss", BASE, 4096, False, True),)
        self.image = Image(path="/toy", kind="elf", base=BASE, size=4096, version="", sections=sections)

    def modules(self, **_options):
        return [Module("", BASE, BASE + 4096)]

    @contextmanager
    def held_still(self):
        yield

    def attach(self, pid=0):
        raise ProcessNotFoundError(f"no process {pid}")

    def restart(self):
        self.n_starts += 1

    def hold(self, keys, seconds):
        assert keys
        assert seconds > 0

    def tap(self, keys):
        assert keys

    def pass_time(self, seconds):
        assert seconds > 0

    def run(self, speed=1.0):
        assert speed > 0

    def pause(self):
        pass

    def capture(self):
        return Frame(np.zeros((2, 2, 3), np.uint8), 0.0, 0.0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join), min_size=1, max_size=6))
def test_any_line_is_executed_or_reported(folder, lines):
    file = folder / "made.toml"
    file.unlink(missing_ok=True)
    bench = Workbench(Still(), file, Console(file=io.StringIO(), width=80))
    for line in ["= 5", "path 1", *lines]:
        try:
            if line.strip():
                do_line(bench, line.strip())
        except SoulslabError as error:
            assert str(error)


def test_a_path_of_windows(folder, monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    bench = Workbench(Still(), folder / "made.toml", Console(file=io.StringIO()))
    for line in (r"shot C:\temp\a.png", r'shot "C:\my pictures\b.png"'):
        do_line(bench, line)
    assert {path.name for path in folder.glob("*.png")} == {r"C:\temp\a.png", r"C:\my pictures\b.png"}
