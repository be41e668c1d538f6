"""Fights in a pseudo-terminal: keys, display, and restoring the terminal."""

import json
import os
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import soulslab  # noqa: F401 (registers the arena)
from soulslab.arena.vocabulary import ACTIONS, NOTHING, action_name
from soulslab.errors import EnvironmentUsageError, TerminalError
from soulslab.play.terminal_game import BUFFER_S, HOLD_S, Controls, Pause, Terminal, half_blocks, play_in_terminal

OPEN = np.ones(len(ACTIONS), np.bool_)

# --- controls -----------------------------------------------------------------------------------------------


def chosen(keys, mask=OPEN, *, after_s=0.0):
    controls = Controls()
    controls.press(keys, 10.0)
    return action_name(controls.action(mask, 10.0 + after_s))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", "nothing"),
        ("w", "forward"),
        ("W", "forward"),
        ("\x1b[A", "forward"),
        ("\xe0K", "left"),
        ("wd", "forward+right"),
        ("dw", "forward+right"),
        ("ws", "backward"),
        ("ad", "right"),
        (" ", "backward+roll"),
        ("a ", "left+roll"),
        ("sa ", "backward+left+roll"),
        ("j", "light_attack"),
        ("wk", "heavy_attack"),
        ("l", "parry"),
        ("jl", "parry"),
        ("xyz\x1b[5~é", "nothing"),
    ],
)
def test_keys_become_actions(keys, expected):
    assert chosen(keys) == expected


def test_a_direction_is_held_for_a_limited_time():
    assert chosen("w", after_s=0.9 * HOLD_S) == "forward"
    assert chosen("w", after_s=1.1 * HOLD_S) == "nothing"


def test_a_button_is_buffered_until_it_is_allowed_and_used_once():
    controls = Controls()
    controls.press("j", 10.0)
    shut = OPEN.copy()
    shut[16] = False
    assert action_name(controls.action(shut, 10.1)) == "nothing"
    assert action_name(controls.action(OPEN, 10.2)) == "light_attack"
    assert action_name(controls.action(OPEN, 10.3)) == "nothing"


def test_a_buffered_button_expires():
    assert chosen("j", after_s=1.1 * BUFFER_S) == "nothing"


def test_only_allowed_actions_are_chosen():
    nothing_open = np.zeros(len(ACTIONS), np.bool_)
    nothing_open[NOTHING] = True
    assert chosen("wdj", nothing_open) == "nothing"


# --- picture ------------------------------------------------------------------------------------------------


def test_half_blocks_hold_two_pixels_each():
    picture = np.array([[[8, 16, 24], [8, 16, 24]], [[0, 0, 0], [80, 80, 80]]], np.uint8)
    assert half_blocks(picture) == ["\x1b[38;2;8;16;24m\x1b[48;2;0;0;0m▀\x1b[48;2;80;80;80m▀"]


# --- terminal -----------------------------------------------------------------------------------------------

pytest.importorskip("termios", reason="pseudo-terminals are POSIX; Windows has another keyboard")
from support.pty import Pty  # noqa: E402
from support.waiting import PATIENCE_S  # noqa: E402

#: Executes the programs that arrive in the pipe ``ASKED``, and answers with what they raised.
PLAY = """
import json, os, sys, traceback
sys.path.insert(0, "tests")
import gymnasium, soulslab
from soulslab.play.terminal_game import play_in_terminal
env = gymnasium.make("soulslab/Arena-v0", boss="judge")
for line in os.fdopen(int(sys.argv[1])):
    try:
        exec(json.loads(line))
        raised = ""
    except BaseException:
        raised = traceback.format_exc()
    os.write(int(sys.argv[2]), json.dumps(raised).encode() + b"\\n")
"""


class Stage:
    """A process with a pseudo-terminal that plays one fight after the other, because its imports take seconds."""

    def __init__(self):
        self.pty = Pty()
        asked, self._asked = os.pipe()
        answers, answered = os.pipe()
        self._answers = os.fdopen(answers)
        self._before = self.pty.attributes()
        self._start = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", PLAY, str(asked), str(answered)],
            stdin=self.pty.slave,
            stdout=self.pty.slave,
            pass_fds=(asked, answered),
        )
        os.close(asked)
        os.close(answered)

    def play(self, program):
        """Begin a program."""
        self._start = self.pty.position()
        os.write(self._asked, json.dumps(program).encode() + b"\n")

    def wait_for(self, pattern):
        """Return the match of a pattern in the output of the program."""
        return self.pty.wait_for(pattern, after=self._start)

    def terminate(self):
        self._process.terminate()

    def end(self):
        """Wait for the end of the program, and check that it has restored the terminal; return what it raised."""
        raised = json.loads(self._answers.readline())
        assert self.pty.attributes() == self._before
        self.wait_for(r"\x1b\[\?25h\x1b\[\?1049l")
        return raised

    def close(self):
        os.close(self._asked)
        assert self._process.wait(PATIENCE_S) == 0
        self._answers.close()
        self.pty.close()


@pytest.fixture(scope="module")
def stage():
    opened = Stage()
    yield opened
    opened.close()


def test_a_person_plays_and_quits(stage):
    before = stage.pty.attributes()
    stage.play("assert play_in_terminal(env, seed=3).fights == 0")
    stage.wait_for(r"The Halberd Judge, phase 1")
    assert stage.pty.attributes() != before
    first = float(stage.wait_for(r"(\d+\.\d) s")[1])
    stage.pty.type("w")
    stage.wait_for(rf"(?<!\d){first + 1:.1f} s")
    stage.pty.type("q")
    assert stage.end() == ""


#: The first blow is the last one: a fight is played in real time.
STAND_AND_DIE = """
def act(observation, mask, n_decisions):
    env.unwrapped.simulator.duels["p_hp"] = 1.0
    return 19
tally = play_in_terminal(env, seed=3, act=act)
assert (tally.fights, tally.wins) == (1, 0)
"""


def test_a_policy_plays_until_it_dies(stage):
    stage.play(STAND_AND_DIE)
    stage.wait_for("watching a policy")
    stage.wait_for("YOU DIED")
    stage.wait_for("R another fight")
    stage.pty.type("q")
    assert stage.end() == ""


EXPLAINED = """
from soulslab.play.policy_actions import policy_actions
from support.policies import q_policy
player = q_policy(1, env_id="soulslab/Arena-v0", n_features=74, n_actions=20, env_options={"observation": "features"})
seen = gymnasium.make("soulslab/Arena-v0", boss="judge", observation="features")
act = policy_actions(player, seen)
play_in_terminal(seen, seed=3, act=act, describe=act.describe)
"""


def test_a_watched_fight_is_explained_paused_and_stepped(stage):
    stage.play(EXPLAINED)
    stage.wait_for(r"value \[[a-z_+]+ -?\d+\.\d\d\] ")
    stage.wait_for(r"reward [+-]\d+\.\d{3}   return [+-]\d+\.\d{3}")
    stage.pty.type("p")
    for _ in range(2):
        stage.pty.type("n")
        stage.wait_for(r"return [+-]\d+\.\d{3}")
    stage.pty.type("q")
    assert stage.end() == ""


def test_a_pause_lets_single_decisions_through():
    pause = Pause()
    assert (pause.press("x"), pause.is_on) == (False, False)
    assert (pause.press("n"), pause.is_on) == (False, True)  # the first N pauses
    assert (pause.press("n"), pause.is_on) == (True, True)
    assert (pause.press("P"), pause.is_on) == (False, False)
    assert (pause.press("pn"), pause.is_on) == (True, True)


def test_sigterm_restores_the_terminal(stage):
    stage.play("play_in_terminal(env)")
    stage.wait_for(r"0\.2 s")
    stage.terminate()
    assert f"SystemExit: {128 + signal.SIGTERM}" in stage.end()


def test_an_exception_restores_the_terminal(stage):
    stage.play("play_in_terminal(env, act=lambda *_: 1 / 0)")
    assert "ZeroDivisionError" in stage.end()


def test_a_small_terminal_is_an_error():
    small = Pty(columns=30, lines=10)
    with open(small.slave, "r+b", buffering=0, closefd=False) as file:
        before = small.attributes()
        with pytest.raises(TerminalError, match="30 x 10 characters"), Terminal(file, file):
            pass
        assert small.attributes() == before
    small.close()


def test_a_missing_terminal_is_an_error(tmp_path):
    with (tmp_path / "file").open("w+") as file, pytest.raises(TerminalError, match="needs a terminal"):
        Terminal(file, file).__enter__()


def test_only_the_arena_can_be_played():
    with pytest.raises(EnvironmentUsageError, match="only soulslab/Arena-v0"):
        play_in_terminal(gymnasium.make("CartPole-v1"))
