"""``soulslab boss``: boss files."""

import pytest

from soulslab import cli
from soulslab.arena.boss_catalog import find_boss


@pytest.mark.parametrize("name", ["judge", "generated:7"])
def test_a_boss_is_written_as_a_file(tmp_path, name):
    file = tmp_path / "mine.toml"
    assert cli.run(["boss", "write", name, str(file)]) == 0
    assert find_boss(file) == find_boss(name)
    assert "\n[[moves.windows]]\nstart_s = " in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "file", "words"),
    [
        ("judge", "mine.toml", "already exists"),
        ("judge", "mine", "must end in .toml"),
        ("judge", "no/mine.toml", "cannot be written"),
        ("juge", "other.toml", "judge"),
    ],
)
def test_a_boss_that_cannot_be_written(tmp_path, monkeypatch, capsys, name, file, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("kept")
    assert cli.run(["boss", "write", name, file]) == 2
    assert words in capsys.readouterr().err
    assert (tmp_path / "mine.toml").read_text() == "kept"
