"""The clock libraries: their dependencies, and the errors if they are missing or broken."""

import re
import subprocess
import sys

import pytest

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.clock import lockstep_page


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(lockstep_page, "__file__", str(tmp_path / "lockstep_page.py"))
    lockstep_page.native_library.cache_clear()
    yield tmp_path
    lockstep_page.native_library.cache_clear()


def test_a_library_that_was_not_built(folder, monkeypatch):
    monkeypatch.setattr(lockstep_page.sys, "platform", "linux")
    with pytest.raises(ClockUnavailableError, match=r"no C compiler was found; install gcc .*--force-reinstall"):
        lockstep_page.native_library()


def test_another_system(folder, monkeypatch):
    monkeypatch.setattr(lockstep_page.sys, "platform", "darwin")
    with pytest.raises(ClockUnavailableError, match="needs Linux or Windows; this is darwin"):
        lockstep_page.native_library()


def test_a_broken_library_is_an_error(folder, monkeypatch):
    monkeypatch.setattr(lockstep_page.sys, "platform", "linux")
    (folder / "_control.so").write_bytes(b"no library")
    with pytest.raises(ClockUnavailableError, match="cannot be loaded"):
        lockstep_page.native_library()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the clock libraries are built on Linux only")
@pytest.mark.parametrize("name", ["_preload", "_control"])
def test_the_libraries_are_hardened(name):
    path = lockstep_page.library_path(name)
    command = ["readelf", "--wide", "--dynamic", "--segments", "--dyn-syms", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(r"GNU_RELRO", text)
    assert re.search(r"\(FLAGS\) .*BIND_NOW", text)
    assert re.search(r"\(FLAGS_1\) .*NOW", text)
    assert "__stack_chk_fail" in text
    assert not re.search(r"\((RUNPATH|RPATH)\)", text)
    stack = next(line for line in text.splitlines() if "GNU_STACK" in line)
    assert " RW " in stack
