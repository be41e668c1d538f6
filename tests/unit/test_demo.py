"""``soulslab demo`` in folders that hold something; tests/e2e/test_demo.py runs whole demos."""

import pytest

from soulslab import cli
from soulslab.config import dump_settings
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.settings import TrainSettings

DEMO = ["demo", "--no-dashboard", "--run-dir"]
#: The training reports an error at its start, when a previous demo has been moved.
UNTRAINED = ["--set", "run.start_from=missing.safetensors"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the current folder, in which a demo was completed."""
    folder = tmp_path / "demo"
    folder.mkdir()
    for name in ("config.toml", "policy.safetensors", "report.json"):
        (folder / name).write_text("of a finished demo")
    monkeypatch.chdir(folder)
    return folder


def test_a_wrong_setting_does_not_move_a_finished_demo(folder, capsys):
    assert cli.run([*DEMO, str(folder), "--set", "run.sede=1"]) == cli.EXIT_USAGE
    assert "run.sede" in capsys.readouterr().err
    assert [path.name for path in folder.parent.iterdir()] == ["demo"]


@pytest.mark.parametrize("missing", ["config.toml", "policy.safetensors"])
def test_a_folder_with_a_report_of_something_else_is_left_alone(folder, capsys, missing):
    (folder / missing).unlink()
    assert cli.run([*DEMO, str(folder), *UNTRAINED]) == cli.EXIT_FAILED
    assert capsys.readouterr().err == f"soulslab: {folder}: holds report.json, but no demo; choose another folder\n"
    assert [path.name for path in folder.parent.iterdir()] == ["demo"]
    assert (folder / "report.json").read_text() == "of a finished demo"


def test_the_current_folder_is_moved(folder, capsys):
    assert cli.run([*DEMO, ".", *UNTRAINED]) == cli.EXIT_FAILED
    assert "missing.safetensors" in capsys.readouterr().err
    (kept,) = folder.parent.glob("demo_*")
    assert (kept / "report.json").read_text() == "of a finished demo"
    assert not folder.exists()


def test_an_interrupted_demo_takes_no_other_config(tmp_path, capsys):
    CheckpointStore(tmp_path / "checkpoints", keep=1).save(1, {}, {})
    (tmp_path / "config.toml").write_text(dump_settings(TrainSettings()))
    for name in ("rainbow.toml", "demo.toml"):
        assert cli.run([*DEMO, str(tmp_path), "--config", name]) == cli.EXIT_USAGE
        assert f"--config: {tmp_path} has an interrupted demo" in capsys.readouterr().err
