import stat

import pytest

from soulslab.config.atomic_file import replace_file


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640])
def test_a_file_has_the_requested_permissions_whatever_it_had_before(tmp_path, mode):
    path = tmp_path / "file.toml"
    path.write_bytes(b"old")
    path.chmod(0o666)

    replace_file(path, b"new", mode=mode)

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_keeps_the_old_contents_and_leaves_no_other_file(tmp_path):
    folder = tmp_path / "file.toml"
    folder.mkdir()

    with pytest.raises(OSError, match=r"file\.toml"):
        replace_file(folder, b"new")

    assert list(tmp_path.iterdir()) == [folder]


def test_the_file_of_a_killed_process_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: 4711)
    left = tmp_path / ".file.toml.4711.tmp"
    left.write_bytes(b"half")

    replace_file(tmp_path / "file.toml", b"new")

    assert [each.name for each in tmp_path.iterdir()] == ["file.toml"]
