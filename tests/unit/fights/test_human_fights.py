"""Record fights of a person in a real terminal as a data set."""

import os
import subprocess
import sys

import pytest

from soulslab.envs.registration import ARENA_ID
from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.demonstrations.reading import read_demonstrations, read_outcomes
from soulslab.learn.environment import make_vector
from soulslab.learn.replay.step_rows import Outcome
from soulslab.learn.settings import EnvSettings

pytest.importorskip("termios", reason="pseudo-terminals are POSIX; Windows has another keyboard")
from support.forked import ForkedPopen
from support.pty import Pty
from support.waiting import PATIENCE_S

#: The command line itself, ten times as fast as it is played.
PLAY = """
import sys
import soulslab.play.terminal_game
soulslab.play.terminal_game.DECISION_S = 0.01
from soulslab.cli import run
sys.exit(run(sys.argv[1:]))
"""
OPTIONS = {"phase": "1", "skip_locked": True}


@pytest.fixture
def pty():
    terminal = Pty()
    yield terminal
    terminal.close()


def test_fights_of_a_person_are_readable_demonstrations(pty, tmp_path):
    out = tmp_path / "mine"
    command = [
        "fights",
        "record",
        str(out),
        "--player",
        "human",
        "--phase",
        "1",
        "--set",
        "env.options.skip_locked=true",
    ]
    with ForkedPopen(
        [sys.executable, "-c", PLAY, *command],
        stdin=pty.slave,
        stdout=pty.slave,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    ) as process:
        try:
            check_two_fights(process, pty, out)
        finally:
            process.kill()
    rows = read_demonstrations(
        out, make_vector(ARENA_ID, 1, OPTIONS), EnvSettings(id=ARENA_ID, options=OPTIONS), is_masked=True
    )
    assert (rows["outcome"] == Outcome.TERMINATED).sum() == 2
    assert describe(out).player == "human"
    first, second = (outcome["seed"] for outcome in read_outcomes(describe(out)))
    assert second == first + 1
    # Nothing, a step forward, a blow: what was typed has arrived.
    assert len(set(rows["action"].tolist())) > 1


def check_two_fights(process, pty, out):
    pty.wait_for("The Halberd Judge, phase 1")
    pty.type("w j")
    first = pty.wait_for("R another fight")
    # The first fight is safe before the second begins.
    assert describe(out).n_episodes == 1
    pty.type("r")
    second = pty.wait_for("W A S D", after=first.end())
    pty.wait_for("R another fight", after=second.end())
    pty.type("q")
    errors = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 0, errors
    assert "2 fights" in errors
