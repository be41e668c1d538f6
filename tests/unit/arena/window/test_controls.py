"""Conversion of keys and pads to commands."""

import math

import pytest
from panda3d.core import ButtonRegistry

from soulslab.arena.window.controls import DEAD_ZONE, ButtonEvent, Controls, PadState, Stick
from soulslab.arena.window.settings import BUTTON_NAMES, COMMANDS, KEYS, PAD_BUTTONS, PAD_PREFIX


def down(*names):
    return [ButtonEvent(name, is_press=True) for name in names]


def up(*names):
    return [ButtonEvent(name, is_press=False) for name in names]


@pytest.fixture
def controls():
    return Controls(KEYS)


def test_a_key_is_held_until_it_goes_up(controls):
    assert controls.process_events(down("w", "j")) == ["forward", "light_attack"]
    controls.next_tick()
    assert controls.held == {"forward", "light_attack"}
    assert controls.process_events(up("w")) == []
    assert controls.held == {"light_attack"}


def test_the_keyboards_repetition_presses_nothing(controls):
    controls.process_events(down("space"))
    assert controls.process_events(down("space", "space")) == []
    assert controls.process_events([*up("space"), *down("space")]) == ["roll"]


def test_a_direction_that_is_tapped_between_two_ticks_has_one_tick(controls):
    controls.process_events([*down("w"), *up("w")])
    assert controls.held == {"forward"}
    controls.next_tick()
    assert controls.held == set()


def test_a_pad_that_lets_go_leaves_the_key_down(controls):
    controls.process_events(down("w", PAD_PREFIX + "dpad_up"))
    controls.next_tick()
    controls.process_events(up(PAD_PREFIX + "dpad_up"))
    assert controls.held == {"forward"}


def test_without_the_keyboard_everything_is_let_go(controls):
    controls.process_events(down("w", "space"))
    controls.process_pads([PadState(forward=1.0)])
    controls.release_all()
    assert controls.held == set()
    assert controls.process_events(up("w")) == []


def test_other_keys_do_nothing(controls):
    assert controls.process_events(down("f5", "z")) == []
    assert controls.held == set()


def test_every_pad_button_does_something_known():
    assert set(PAD_BUTTONS.values()) <= set(COMMANDS)
    assert set(PAD_BUTTONS) <= set(BUTTON_NAMES)
    registry = ButtonRegistry.ptr()
    assert [name for name in BUTTON_NAMES if str(registry.findButton(name)) == "none"] == []
    # The left stick walks; with it all that a fight needs is on a pad.
    assert {"roll", "light_attack", "heavy_attack", "parry", "lock_on", "restart"} <= set(PAD_BUTTONS.values())


def test_a_trigger_without_a_button_is_pressed_by_its_depth(controls):
    assert controls.process_pads([PadState(right_trigger=0.4)]) == []
    assert controls.process_pads([PadState(right_trigger=0.6)]) == ["heavy_attack"]
    assert controls.process_pads([PadState(right_trigger=0.9)]) == []
    assert controls.held == {"heavy_attack"}
    assert controls.process_pads([PadState(left_trigger=1.0)]) == ["parry"]
    assert controls.held == {"parry"}


def test_a_pad_that_disappears_lets_go(controls):
    controls.process_pads([PadState(), PadState(left_trigger=1.0)])
    controls.process_events(down("d", PAD_PREFIX + "dpad_up"))
    controls.next_tick()
    assert controls.held == {"forward", "right", "parry"}
    assert controls.process_pads([PadState(left_trigger=1.0)]) == []
    assert controls.held == {"right", "parry"}
    controls.process_events(down(PAD_PREFIX + "dpad_up"))
    controls.next_tick()
    assert controls.process_pads([]) == []
    assert controls.held == {"right"}
    assert controls.process_pads([PadState(left_trigger=1.0)]) == ["parry"]


def test_sticks_walk_in_eight_directions_and_come_and_go(controls):
    controls.process_pads([PadState(), PadState(right=0.7, forward=0.7)])
    assert controls.held == {"forward", "right"}
    controls.process_pads([PadState(right=-1.0)])
    assert controls.held == {"left"}
    controls.process_pads([])
    assert controls.held == set()


@pytest.mark.parametrize(
    ("degrees", "held"),
    [
        (0, {"forward"}),
        (45, {"forward", "right"}),
        (90, {"right"}),
        (135, {"backward", "right"}),
        (180, {"backward"}),
        (-135, {"backward", "left"}),
        (-90, {"left"}),
        (-45, {"forward", "left"}),
    ],
)
def test_each_way_of_a_stick(degrees, held):
    angle = math.radians(degrees)
    assert Stick().move(0.9 * math.sin(angle), 0.9 * math.cos(angle)) == held


def test_a_worn_stick_rests():
    assert Stick().move(0.7 * DEAD_ZONE, 0.7 * DEAD_ZONE) == frozenset()


def test_a_stick_does_not_flutter_between_two_directions():
    stick, edge = Stick(), math.pi / 8
    seen = [stick.move(math.sin(edge + wobble), math.cos(edge + wobble)) for wobble in (-0.05, 0.05, -0.05, 0.05, 0.2)]
    assert seen == [{"forward"}] * 4 + [{"forward", "right"}]
