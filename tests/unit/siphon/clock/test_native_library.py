"""What is said where the clock library is missing or broken."""

import pytest

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.clock import native_library


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(native_library, "__file__", str(tmp_path / "native_library.py"))
    native_library.native_library.cache_clear()
    yield tmp_path
    native_library.native_library.cache_clear()


def test_a_library_that_was_not_built(folder, monkeypatch):
    monkeypatch.setattr(native_library.sys, "platform", "linux")
    with pytest.raises(ClockUnavailableError, match=r"no C compiler; install gcc and libc6-dev.*--force-reinstall"):
        native_library.native_library()


def test_another_system(folder, monkeypatch):
    monkeypatch.setattr(native_library.sys, "platform", "win32")
    with pytest.raises(ClockUnavailableError, match="needs Linux; this is win32"):
        native_library.native_library()


def test_a_library_that_is_broken(folder, monkeypatch):
    monkeypatch.setattr(native_library.sys, "platform", "linux")
    (folder / "_control.so").write_bytes(b"no library")
    with pytest.raises(ClockUnavailableError, match="cannot be loaded"):
        native_library.native_library()
