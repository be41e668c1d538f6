"""Names and configs of runs that the dashboard starts, and their processes."""

import psutil
import pytest

from soulslab.dashboard.run_library import RunLibrary, RunState
from soulslab.dashboard.run_starter import LOG_NAME, RunStarter, read_console
from soulslab.errors import CheckpointError, ConfigError
from support.run_folders import finished, started, write_run
from support.waiting import wait_for


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "-x", "x" * 65, "a\nb"])
def test_malformed_names_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="takes letters"):
        RunStarter().start(tmp_path, name, "demo.toml")
    assert list(tmp_path.iterdir()) == []


def test_unknown_configs_and_taken_names_are_refused(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConfigError, match="choose another name"):
        RunStarter().start(tmp_path, "taken", "demo.toml")
    with pytest.raises(ConfigError, match="not a shipped config"):
        RunStarter().start(tmp_path, "new", "/etc/passwd")
    assert {each.name for each in tmp_path.iterdir()} == {"taken"}


def test_root_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="could not be written"):
        RunStarter().start(tmp_path / "file", "new", "demo.toml")


def test_console_is_the_end_of_the_log(tmp_path):
    assert read_console(tmp_path) == ""
    (tmp_path / LOG_NAME).write_bytes(b"x" * 50_000 + b"\xff end")
    assert read_console(tmp_path).endswith("\N{REPLACEMENT CHARACTER} end")
    assert len(read_console(tmp_path)) < 20_000


def test_run_is_new_while_its_process_starts_and_is_not_resumed_twice(tmp_path):
    write_run(tmp_path / "run", [started(), finished(1, "interrupted")])
    library = RunLibrary(tmp_path)
    assert library.summary("run").state is RunState.STOPPED
    library.resume("run")
    [process] = [each for each in psutil.Process().children() if "--resume" in each.cmdline()]
    assert library.summary("run").state is RunState.NEW
    with pytest.raises(ConfigError, match="is new; only a run that was stopped or has failed can be resumed"):
        library.resume("run")
    process.kill()
    wait_for(lambda: library.summary("run").state is RunState.STOPPED, "the end of the process")
