"""Find, copy and restore save files."""

import os

import pytest

from soulslab.errors import ConfigError, SaveFileError
from soulslab.games import save_files
from soulslab.games.save_files import ROAMING, backup, find_save_file, restore
from soulslab.siphon.process.discovery import writers_of


@pytest.fixture
def save(tmp_path):
    path = tmp_path / ROAMING / "EldenRing" / "7656" / "ER0000.sl2"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"BND4" + bytes(1000))
    return path


def test_the_save_file_is_found(save, tmp_path):
    assert find_save_file("elden_ring", tmp_path) == save
    with pytest.raises(SaveFileError, match=r"contains no DS30000\.sl2"):
        find_save_file("dark_souls_3", tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'elden_ring'"):
        find_save_file("eldenring", tmp_path)
    other = save.parent.parent / "7657" / save.name
    other.parent.mkdir()
    other.touch()
    with pytest.raises(SaveFileError, match="contains several"):
        find_save_file("elden_ring", tmp_path)


def test_a_backup_is_restored(save, tmp_path):
    copy, old = tmp_path / "margit.sl2", save.read_bytes()
    checksum = backup(save, copy)
    assert (tmp_path / "margit.sl2.sha256").read_text() == f"{checksum}  margit.sl2\n"
    save.write_bytes(b"another")
    restore(copy, save)
    assert save.read_bytes() == old
    save.unlink()
    restore(copy, save)
    assert save.read_bytes() == old
    assert sorted(path.name for path in save.parent.iterdir()) == ["ER0000.sl2"]


def test_an_altered_copy_is_not_restored(save, tmp_path):
    copy, old = tmp_path / "margit.sl2", save.read_bytes()
    backup(save, copy)
    copy.write_bytes(b"altered")
    with pytest.raises(SaveFileError, match="does not match its SHA-256"):
        restore(copy, save)
    (tmp_path / "margit.sl2.sha256").unlink()
    with pytest.raises(SaveFileError, match="contains no checksum") as caught:
        restore(copy, save)
    assert caught.value.path == tmp_path / "margit.sl2.sha256"
    assert save.read_bytes() == old


def test_a_file_open_for_writing_is_an_error(save, tmp_path):
    copy = tmp_path / "margit.sl2"
    backup(save, copy)
    with save.open("r+b"):
        assert writers_of(save) == (os.getpid(),)
        for move in (lambda: backup(save, copy), lambda: restore(copy, save)):
            with pytest.raises(SaveFileError, match=f"open for writing in process {os.getpid()}"):
                move()
    with save.open("rb"):
        assert writers_of(save) == ()
        restore(copy, save)


@pytest.mark.parametrize("is_copied_before", [False, True])
def test_a_file_that_changes_while_it_is_copied_is_an_error(save, tmp_path, monkeypatch, is_copied_before):
    copy, real = tmp_path / "margit.sl2", save_files._replace

    def replace(source, target):
        if is_copied_before:
            real(source, target)
        save.write_bytes(b"BND4" + bytes([1]) * 1000)
        if not is_copied_before:
            real(source, target)

    monkeypatch.setattr(save_files, "_replace", replace)
    with pytest.raises(SaveFileError, match=r"ER0000\.sl2: changed while it was copied"):
        backup(save, copy)
    assert not (tmp_path / "margit.sl2.sha256").exists()


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(SaveFileError, match=r"nowhere\.sl2: cannot be checked for writers"):
        backup(tmp_path / "nowhere.sl2", tmp_path / "copy")
