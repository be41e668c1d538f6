"""Names and configs of runs that the dashboard starts."""

import pytest

from soulslab.dashboard.run_starter import LOG_NAME, read_console, start_run
from soulslab.errors import CheckpointError, ConfigError


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "-x", "x" * 65, "a\nb"])
def test_malformed_names_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="takes letters"):
        start_run(tmp_path, name, "demo.toml")
    assert list(tmp_path.iterdir()) == []


def test_unknown_configs_and_taken_names_are_refused(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConfigError, match="choose another name"):
        start_run(tmp_path, "taken", "demo.toml")
    with pytest.raises(ConfigError, match="not a shipped config"):
        start_run(tmp_path, "new", "/etc/passwd")
    assert {each.name for each in tmp_path.iterdir()} == {"taken"}


def test_root_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="could not be written"):
        start_run(tmp_path / "file", "new", "demo.toml")


def test_console_is_the_end_of_the_log(tmp_path):
    assert read_console(tmp_path) == ""
    (tmp_path / LOG_NAME).write_bytes(b"x" * 50_000 + b"\xff end")
    assert read_console(tmp_path).endswith("\N{REPLACEMENT CHARACTER} end")
    assert len(read_console(tmp_path)) < 20_000
