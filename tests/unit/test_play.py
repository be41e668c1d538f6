"""Fights in a pseudo-terminal: keys, display, and restoring the terminal."""

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

PLAY = """
import gymnasium, soulslab
from soulslab.play.terminal_game import play_in_terminal
env = gymnasium.make("soulslab/Arena-v0", boss="judge")
{body}
"""


#: The first blow is the last one: a fight is played in real time.
STAND_AND_DIE = """
def act(observation, mask, n_decisions):
    env.unwrapped.simulator.duels["p_hp"] = 1.0
    return 19
tally = play_in_terminal(env, seed=3, act=act)
assert (tally.fights, tally.wins) == (1, 0)
"""


@pytest.fixture
def pty():
    terminal = Pty()
    yield terminal
    terminal.close()


def start(pty, body):
    code = PLAY.format(body=body)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=pty.slave, stdout=pty.slave, stderr=subprocess.PIPE, text=True
    )


def end(process, pty, before):
    """Wait for the process, and check that it has restored the terminal; return its error output."""
    errors = process.communicate(timeout=60)[1]
    assert pty.attributes() == before
    pty.wait_for(r"\x1b\[\?25h\x1b\[\?1049l")
    return errors


def test_a_person_plays_and_quits(pty):
    before = pty.attributes()
    process = start(pty, "assert play_in_terminal(env, seed=3).fights == 0")
    pty.wait_for(r"The Halberd Judge, phase 1")
    assert pty.attributes() != before
    first = float(pty.wait_for(r"(\d+\.\d) s")[1])
    pty.type("w")
    pty.wait_for(rf"(?<!\d){first + 1:.1f} s")
    pty.type("q")
    assert end(process, pty, before) == ""
    assert process.returncode == 0


def test_a_policy_plays_until_it_dies(pty):
    before = pty.attributes()
    process = start(pty, STAND_AND_DIE)
    pty.wait_for("watching a policy")
    pty.wait_for("YOU DIED")
    pty.wait_for("R another fight")
    pty.type("q")
    assert end(process, pty, before) == ""
    assert process.returncode == 0


EXPLAINED = """
from soulslab.learn.inputs import ExtraInputs
from soulslab.play.policy_actions import policy_actions
import sys; sys.path.insert(0, "tests"); from support.policies import q_policy
player = q_policy(1, env_id="soulslab/Arena-v0", n_features=74, n_actions=20, env_options={"observation": "features"})
act = policy_actions(player, env)
play_in_terminal(env, seed=3, act=act, describe=act.describe)
"""


def test_a_watched_fight_is_explained_paused_and_stepped(pty):
    before = pty.attributes()
    process = start(pty, EXPLAINED)
    pty.wait_for(r"value \[[a-z_+]+ -?\d+\.\d\d\] ")
    pty.wait_for(r"reward [+-]\d+\.\d{3}   return [+-]\d+\.\d{3}")
    pty.type("p")
    for _ in range(2):
        pty.type("n")
        pty.wait_for(r"return [+-]\d+\.\d{3}")
    pty.type("q")
    assert end(process, pty, before) == ""


def test_a_pause_lets_single_decisions_through():
    pause = Pause()
    assert (pause.press("x"), pause.is_on) == (False, False)
    assert (pause.press("n"), pause.is_on) == (False, True)  # the first N pauses
    assert (pause.press("n"), pause.is_on) == (True, True)
    assert (pause.press("P"), pause.is_on) == (False, False)
    assert (pause.press("pn"), pause.is_on) == (True, True)


def test_sigterm_restores_the_terminal(pty):
    before = pty.attributes()
    process = start(pty, "play_in_terminal(env)")
    pty.wait_for(r"0\.2 s")
    process.send_signal(signal.SIGTERM)
    assert end(process, pty, before) == ""
    assert process.returncode == 128 + signal.SIGTERM


def test_an_exception_restores_the_terminal(pty):
    before = pty.attributes()
    process = start(pty, "play_in_terminal(env, act=lambda *_: 1 / 0)")
    assert "ZeroDivisionError" in end(process, pty, before)
    assert process.returncode == 1


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
