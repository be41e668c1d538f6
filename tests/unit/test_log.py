"""Logging setup: none at import, and one handler after repeated calls."""

import logging
import subprocess
import sys

import pytest

from soulslab.log import configure


@pytest.fixture(autouse=True)
def restore_logging():
    root, own = logging.getLogger(), logging.getLogger("soulslab")
    before = (root.handlers[:], root.level, own.level)
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:], level, own_level = before
    root.setLevel(level)
    own.setLevel(own_level)


@pytest.mark.parametrize(
    ("verbosity", "own", "others"),
    [
        (-1, logging.INFO, logging.WARNING),
        (0, logging.INFO, logging.WARNING),
        (1, logging.DEBUG, logging.INFO),
        (2, logging.DEBUG, logging.DEBUG),
        (9, logging.DEBUG, logging.DEBUG),
    ],
)
def test_levels(verbosity, own, others):
    configure(verbosity)
    assert logging.getLogger("soulslab.learn.train").getEffectiveLevel() == own
    assert logging.getLogger("matplotlib").getEffectiveLevel() == others


def test_records_reach_standard_error_once(capsys):
    configure()
    configure()
    logging.getLogger("soulslab.x").info("saved")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("saved") == 1


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_a_message_is_one_line_of_any_length(monkeypatch, capsys, verbosity):
    monkeypatch.setenv("COLUMNS", "40")
    command = f"soulslab train --resume /{'folder/' * 20}run --trust"
    configure(verbosity)
    logging.getLogger("soulslab.x").info("to resume: %s", command)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("INFO ")
    assert f"to resume: {command}" in line
    assert (":" in line.partition("to resume")[0]) == (verbosity > 0)  # the time
    assert ("test_log.py:" in line) == (verbosity > 1)


def test_import_configures_nothing():
    code = "import logging, soulslab, soulslab.log, soulslab.cli; print(logging.getLogger().handlers)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
