"""The gamepad on Windows: the small game reads XInput as games do, and gets the state that the session sets."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import msgspec
import pytest

from soulslab.errors import InputError, ReadOnlyError
from soulslab.siphon.local import open_session
from soulslab.siphon.pad import BUTTONS, CONTROLS, Pad
from soulslab.siphon.session import SessionOptions, Step
from soulslab.siphon.tick_alignment import TickAlignment
from support.waiting import PATIENCE_S, wait_for
from support.windows_profile import PROFILE, start_options

TICK_S = 1 / 60
PAD = msgspec.structs.replace(start_options("pad"), input_backend="pad")
REALTIME = msgspec.structs.replace(PAD, clock="realtime")
CLOCKS = ("lockstep", "realtime")
#: A controller that is ended while it holds the pads of two games; it prints the processes of the games.
CONTROLLER = """
import os, sys
import msgspec
from soulslab.siphon.local import open_session
from soulslab.siphon.pad import Pad
from support.windows_profile import PROFILE, start_options
pad = Pad(buttons=("A",), left_stick=(1.0, 0.0))
games = []
for clock in sys.argv[1:]:
    options = msgspec.structs.replace(start_options("pad", clock=clock), input_backend="pad", on_orphan="run")
    games.append(open_session(PROFILE, options))
    games[-1].input.set_pad(pad)
    games[-1].clock.run(1.0)
for game in games:
    while game.read("pad") != pad.to_bytes():
        pass
print(*(game.info.pid for game in games), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def session():
    with open_session(PROFILE, PAD) as one:
        one.clock.pause()
        TickAlignment(PROFILE).align(one)
        yield one


def advance(session, **step):
    return session.step(Step(advance_s=TICK_S, **step)).snapshot


def test_the_game_has_one_pad_at_rest(session):
    seen = advance(session, pad=Pad())
    assert session.info.input_backend == "pad"
    assert (seen["pad_results"], seen["n_others"]) == (0, 0)
    assert seen["pad"] == Pad().to_bytes()


@pytest.mark.parametrize("control", CONTROLS)
def test_each_control_is_seen_at_the_next_tick(session, control):
    pad = Pad().with_controls([control])
    seen = advance(session, pad=pad)
    visible = pad if control != "GUIDE" else Pad()
    assert seen["pad"] == visible.to_bytes()
    assert advance(session, pad=Pad())["pad"] == Pad().to_bytes()


def test_sticks_and_triggers_have_intermediate_values(session):
    pad = Pad(left_stick=(-0.5, 0.25), right_stick=(0.125, -1.0), left_trigger=0.5, right_trigger=0.75, buttons=("X",))
    assert advance(session, pad=pad)["pad"] == pad.to_bytes()
    advance(session, pad=Pad())


def test_all_functions_of_all_libraries_report_the_same(session):
    for name in BUTTONS:
        advance(session, pad=Pad(buttons=(name,)))
    seen = advance(session, pad=Pad())
    assert (seen["n_different"], seen["pad_results"]) == (0, 0)


def test_keys_of_actions_with_a_control_are_sent_by_the_pad(session):
    seen = advance(session, held=("D", "H"), pad=Pad(right_trigger=1.0))
    assert seen["pad"] == Pad(buttons=("B",), left_stick=(1.0, 0.0), right_trigger=1.0).to_bytes()
    assert session.input.held == {"D", "H"}
    assert advance(session, held=(), pad=Pad())["pad"] == Pad().to_bytes()
    assert seen["presses"] == 0, "no key was sent"


def test_a_button_that_is_pressed_again_is_a_new_press(session):
    before = advance(session, held=("H",))["pad_presses"]
    for n in range(1, 6):
        session.step(Step(held=("H",), again=("H",), advance_s=3 * TICK_S))
        assert session.read("pad_presses") == before + n
    advance(session, held=())


def test_typed_keys_are_presses(session):
    before = advance(session)["pad_presses"]
    session.input.type(["H", "H", "H"])
    assert session.step(Step(advance_s=8 * TICK_S)).snapshot["pad_presses"] == before + 3


def test_the_packet_number_changes_with_the_state_only(session):
    before = advance(session)["n_packets"]
    assert session.step(Step(advance_s=20 * TICK_S)).snapshot["n_packets"] == before
    assert advance(session, pad=Pad(buttons=("Y",)))["n_packets"] == before + 1
    advance(session, pad=Pad())


def test_another_window_may_be_in_front(session):
    """The pad needs no focus: the small game loses it to another one."""
    with subprocess.Popen([PAD.options["program"], "sleep"]) as other:
        try:
            assert advance(session, pad=Pad(buttons=("A",)))["pad"] == Pad(buttons=("A",)).to_bytes()
        finally:
            other.kill()
    advance(session, pad=Pad())


def test_a_game_in_real_time_has_a_pad():
    with open_session(PROFILE, REALTIME) as game:
        assert game.info.clock_grade == "realtime"
        game.input.set_pad(Pad(buttons=("A",)))
        wait_for(lambda: game.read("pad") == Pad(buttons=("A",)).to_bytes(), "the button")


@pytest.fixture(scope="module")
def orphans():
    """The processes of games whose controller has died, by their clocks."""
    command = [sys.executable, "-c", CONTROLLER, *CLOCKS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found = dict(zip(CLOCKS, map(int, done.stdout.split()), strict=True))
    yield found
    for pid in found.values():
        with suppress(OSError):  # it has ended; the other one may still run
            os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_pad_is_at_rest_when_its_controller_dies(orphans, clock):
    pid = orphans[clock]
    options = SessionOptions(pid=pid, launch="never", clock="realtime")
    with open_session(PROFILE, options) as game:
        wait_for(lambda: game.read("pad") == Pad().to_bytes(), "a pad at rest")
        assert game.read("pad_results") == 0
    with open_session(PROFILE, msgspec.structs.replace(options, input_backend="pad")) as game:
        game.input.set_pad(Pad(buttons=("X",)))
        wait_for(lambda: game.read("pad") == Pad(buttons=("X",)).to_bytes(), "the pad of the next controller")
    with open_session(PROFILE, options) as game:
        wait_for(lambda: game.read("pad") == Pad().to_bytes(), "the release at the end of the session")
    with open_session(PROFILE, msgspec.structs.replace(options, input_backend="pad", is_read_only=True)) as game:
        with pytest.raises(ReadOnlyError, match="set the gamepad"):
            game.input.set_pad(Pad(buttons=("X",)))
        with pytest.raises(ReadOnlyError):
            game.step(Step(pad=Pad(buttons=("X",))))


def test_without_the_backend_the_game_has_the_pads_of_the_machine():
    with open_session(PROFILE, start_options("pad")) as game:
        game.clock.advance(5 * TICK_S)
        assert game.read("pad_results") != 0, "Wine has no pad here"
        game.input.set_pad(Pad())
        with pytest.raises(InputError, match="input_backend='pad'"):
            game.input.set_pad(Pad(buttons=("A",)))


def test_a_game_that_runs_without_the_clock_library_has_no_pad(game):
    options = SessionOptions(pid=game.pid, launch="never", clock="realtime", input_backend="pad")
    with pytest.raises(InputError, match=f"process {game.pid} has none"):
        open_session(PROFILE, options)
