"""The state of a gamepad, and keys that are sent by it."""

from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import InputError, ProfileError, WindowGoneError
from soulslab.games.facts import GAMES
from soulslab.siphon.input.held_input import HeldInput
from soulslab.siphon.input.pad_sender import PadSender, controls_of_keys
from soulslab.siphon.pad import BUTTONS, CONTROLS, Pad
from soulslab.siphon.profile import load_profile
from soulslab.siphon.profile.loading import parse_profile
from soulslab.siphon.session import Step

AXES = st.floats(-1, 1)
PADS = st.builds(
    Pad,
    buttons=st.lists(st.sampled_from(sorted(BUTTONS)), unique=True).map(tuple),
    left_stick=st.tuples(AXES, AXES),
    right_stick=st.tuples(AXES, AXES),
    left_trigger=st.floats(0, 1),
    right_trigger=st.floats(0, 1),
)
#: Profiles of games that can be played with a pad, and actions that have no control of it.
PLAYED = {"arena": set(), "dark_souls_3": set(), "elden_ring": set()}


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"buttons": ("Q",)}, "no button 'Q'"),
        ({"buttons": ("LEFT_TRIGGER",)}, "no button 'LEFT_TRIGGER'"),
        ({"left_stick": (0.0, 1.01)}, r"left_stick of a gamepad is \(0.0, 1.01\); its range is -1 to 1"),
        ({"right_stick": (float("nan"), 0.0)}, "right_stick"),
        ({"left_trigger": -0.1}, "left_trigger of a gamepad is -0.1; its range is 0 to 1"),
        ({"right_trigger": float("inf")}, "right_trigger"),
    ],
)
def test_impossible_states_are_errors(values, what):
    with pytest.raises(InputError, match=what):
        Pad(**values)


@given(PADS)
def test_the_bytes_are_those_of_xinput(pad):
    bits, left, right, *axes = struct.unpack("<HBB4h", pad.to_bytes())
    assert {name for name, bit in BUTTONS.items() if bits & bit} == set(pad.buttons)
    assert (left, right) == (round(pad.left_trigger * 255), round(pad.right_trigger * 255))
    assert axes == pytest.approx([value * 32767 for value in (*pad.left_stick, *pad.right_stick)], abs=0.5)


@given(PADS)
def test_a_state_is_sent_unchanged(pad):
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Step(pad=pad)), type=Step).pad == pad


@given(PADS, st.sets(st.sampled_from(CONTROLS)))
def test_controls_are_added_to_a_state(pad, controls):
    both = pad.with_controls(controls)
    assert set(both.buttons) == set(pad.buttons) | (controls & BUTTONS.keys())
    assert both.left_trigger == (1.0 if "LEFT_TRIGGER" in controls else pad.left_trigger)
    assert pad.with_controls(()) == msgspec.structs.replace(pad)
    assert both.with_controls(()) == both


def test_a_diagonal_is_at_the_edge_of_the_circle():
    right, up = Pad().with_controls({"LEFT_STICK_UP", "LEFT_STICK_RIGHT"}).left_stick
    assert right == up == pytest.approx(0.5**0.5)
    assert Pad().with_controls({"RIGHT_STICK_UP", "RIGHT_STICK_DOWN"}).right_stick == (0.0, 0.0)
    assert Pad(left_stick=(0.8, 0.0)).with_controls({"LEFT_STICK_RIGHT"}).left_stick == (1.0, 0.0)


def test_a_step_with_a_pad_changes_the_game():
    assert Step(pad=Pad()).changes_game
    assert Step(pad=Pad()).sends_input
    assert not Step().changes_game


# --- keys by a pad --------------------------------------------------------------------------------------------------


class Keyboard:
    """Records what it is asked to send."""

    backend = "keyboard"

    def __init__(self):
        self.sent = []
        self.checked = []
        self.refusal = None
        self.is_closed = False

    def check(self, keys):
        self.checked += [key.name for key in keys]
        if self.refusal:
            raise self.refusal

    def send(self, changes):
        self.sent += [(change.key.name, change.is_press) for change in changes]

    def move_mouse(self, dx_px, dy_px):
        self.sent.append((dx_px, dy_px))

    def close(self):
        self.is_closed = True


class Played:
    """An input with a pad, and the states that it has set."""

    def __init__(self):
        self.keyboard = Keyboard()
        self.states = []
        controls = {"SPACE": frozenset({"B"}), "W": frozenset({"LEFT_STICK_UP"}), "K": frozenset({"RIGHT_TRIGGER"})}
        sender = PadSender(self.keyboard, controls, lambda *state: self.states.append(state))
        self.input = HeldInput(sender, sender.set_pad)

    def take(self):
        states, self.states = self.states, []
        return states


def state(*controls):
    return Pad().with_controls(controls).to_bytes()


def test_keys_with_a_control_go_to_the_pad_and_others_to_the_keyboard():
    played = Played()
    played.input.set_held(["SPACE", "W", "ESC"])
    assert played.take() == [(state("B", "LEFT_STICK_UP"), False)]
    assert (played.keyboard.sent, played.keyboard.checked) == ([("ESC", True)], ["ESC"])
    assert played.input.held == {"SPACE", "W", "ESC"}
    played.input.set_held(["SPACE", "W"])
    assert played.take() == []
    assert played.keyboard.sent[1:] == [("ESC", False)]


def test_a_keyboard_that_cannot_be_used_does_not_matter_to_the_pad():
    played = Played()
    played.keyboard.refusal = WindowGoneError("minimised")
    played.input.set_held(["SPACE"])
    with pytest.raises(WindowGoneError):
        played.input.set_held(["SPACE", "ESC"])
    assert played.input.held == {"SPACE"}


def test_a_key_that_is_pressed_again_is_seen_up_in_between():
    played = Played()
    played.input.set_held(["SPACE", "K"])
    played.take()
    played.input.set_held(["SPACE", "K"], again=["SPACE"])
    assert played.take() == [(state("RIGHT_TRIGGER"), True), (state("B", "RIGHT_TRIGGER"), False)]
    played.input.set_held(["SPACE", "K"], again=["SPACE", "K"])
    assert played.take() == [(state(), True), (state("B", "RIGHT_TRIGGER"), False)]


def test_typed_keys_are_seen_down_in_between():
    played = Played()
    played.input.type(["SPACE", "K"])
    assert [states for states, _ in played.states] == [state("B"), state("RIGHT_TRIGGER"), state()]
    assert [must_be_seen for _, must_be_seen in played.states] == [True, True, False]


def test_the_pad_and_held_keys_are_combined():
    played = Played()
    played.input.set_held(["SPACE"])
    played.input.set_pad(Pad(right_stick=(0.5, 0.0), buttons=("A",)))
    played.input.set_held([])
    states = [states for states, _ in played.take()]
    assert states == [
        state("B"),
        Pad(right_stick=(0.5, 0.0), buttons=("A", "B")).to_bytes(),
        Pad(right_stick=(0.5, 0.0), buttons=("A",)).to_bytes(),
    ]
    played.input.close()
    assert played.take()[-1] == (state(), False)
    assert played.keyboard.is_closed


def test_the_mouse_moves():
    played = Played()
    played.input.move_mouse(3, 4)
    assert played.keyboard.sent == [(3, 4)]


def test_without_a_pad_only_rest_is_accepted():
    plain = HeldInput(Keyboard())
    plain.set_pad(Pad())
    with pytest.raises(InputError, match=r"the session has no gamepad; let it start the game with .* 'pad'"):
        plain.set_pad(Pad(left_trigger=0.1))
    plain.close()


# --- profiles -------------------------------------------------------------------------------------------------------


def minimal(**tables):
    return {"format": 1, "name": "a game", "process": {"executable": "game"}, **tables}


def test_profiles_name_controls_beside_keys():
    profile = parse_profile(minimal(keys={"roll": "SPACE", "dash": "SPACE"}, pad={"roll": "B", "dash": "A"}), "here")
    assert controls_of_keys(profile) == {"SPACE": {"A", "B"}}


@pytest.mark.parametrize(
    ("pad", "place", "problem"),
    [
        ({"roll": "Circle"}, "pad.roll", "unknown control 'Circle'"),
        ({"jump": "A"}, "pad.jump", "an action of .pad. needs a key in .keys."),
    ],
)
def test_mistakes_of_profiles(pad, place, problem):
    with pytest.raises(ProfileError, match=problem) as caught:
        parse_profile(minimal(keys={"roll": "SPACE"}, pad=pad), "here")
    assert caught.value.path == place


@pytest.mark.parametrize("game", PLAYED)
def test_every_action_of_the_games_has_a_control(game):
    profile = load_profile(GAMES / game / "profile.toml")
    assert profile.keys.keys() - profile.pad.keys() == PLAYED[game]
    assert len(set(profile.pad.values())) == len(profile.pad), "two actions share a control"
