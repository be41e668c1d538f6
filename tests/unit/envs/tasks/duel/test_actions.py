"""Actions of the agent are decoded to one of the 20 actions and to keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.arena.live_fight import BUTTONS
from soulslab.arena.vocabulary import ACTIONS, N_ACTIONS, NOTHING, action_name
from soulslab.envs.tasks.duel.duel_actions import (
    ACTION_NAMES,
    DecodedAction,
    DuelActions,
    OpenActions,
    find_open_actions,
    keys_of,
)
from soulslab.errors import InvalidActionError

FREE = OpenActions(True, True, True)
KEYS = {name: name.upper() for name in BUTTONS}
open_sets = st.builds(OpenActions, st.booleans(), st.booleans(), st.booleans())
down_lists = st.lists(st.booleans(), min_size=len(BUTTONS), max_size=len(BUTTONS))


def buttons(*names):
    return [int(name in names) for name in BUTTONS]


def decode(*names, open_actions=FREE):
    choice = DuelActions("multi_binary").decode(buttons(*names), open_actions)
    return action_name(choice.action), choice.is_masked


@given(st.integers(0, N_ACTIONS - 1), open_sets)
def test_numbers_of_closed_actions_become_nothing(number, open_actions):
    mask = np.zeros(N_ACTIONS, np.bool_)
    n_open = open_actions.write(mask)
    assert n_open == mask.sum()
    assert mask[number] == open_actions.allows(number)
    wanted = DecodedAction(number, False) if mask[number] else DecodedAction(NOTHING, True)
    assert DuelActions("discrete").decode(np.int64(number), open_actions) == wanted


@given(down_lists, open_sets)
def test_buttons_are_decoded_to_an_open_action(down, open_actions):
    actions = DuelActions("multi_binary")
    choice = actions.decode(np.array(down, np.int8), open_actions)
    assert open_actions.allows(choice.action)
    assert choice.is_masked <= any(down)
    asked = {name for name, is_down in zip(BUTTONS, down, strict=True) if is_down}
    assert set(ACTIONS[choice.action]) <= asked | {"backward"}
    assert DuelActions("continuous").decode(np.array(down, np.float32), open_actions) == choice


def test_priority_of_buttons():
    assert decode() == ("nothing", False)
    assert decode("forward", "right") == ("forward+right", False)
    assert decode("forward", "backward", "left") == ("left", False)
    assert decode("forward", "roll") == ("forward+roll", False)
    assert decode("roll") == ("backward+roll", False)
    assert decode("roll", "light_attack", "parry") == ("parry", False)
    assert decode("forward", "heavy_attack") == ("heavy_attack", False)
    assert decode("forward", "light_attack", open_actions=OpenActions(True, True, False)) == ("forward", False)
    assert decode("light_attack", open_actions=OpenActions(True, True, False)) == ("nothing", True)
    assert decode("left", "roll", open_actions=OpenActions(False, True, True)) == ("left+roll", False)


def test_the_threshold_of_continuous_actions():
    actions = DuelActions("continuous", threshold=0.8)
    given_ = np.zeros(len(BUTTONS), np.float32)
    given_[0], given_[1] = 0.79, 0.8
    assert action_name(actions.decode(given_, FREE).action) == "right"
    assert actions.one_hot(given_).tolist() == buttons("right")


@pytest.mark.parametrize("mode", ["multi_binary", "continuous"])
@pytest.mark.parametrize(
    "action", [3, [1, 0], [2] * 8, [-1] * 8, ["a"] * 8, [[1], [1, 2]], None, [np.nan] * 8], ids=str
)
def test_actions_outside_of_the_button_spaces_are_refused(mode, action):
    with pytest.raises(InvalidActionError, match="is not in"):
        DuelActions(mode).decode(action, FREE)


def test_masks_of_buttons():
    actions = DuelActions("multi_binary")
    mask = actions.mask(np.ones(N_ACTIONS, np.bool_), OpenActions(False, True, False))
    assert dict(zip(actions.names, mask.tolist(), strict=True)) == {
        **dict.fromkeys(("forward", "right", "backward", "left", "roll"), True),
        **dict.fromkeys(("light_attack", "heavy_attack", "parry"), False),
    }


def test_keys_of_actions():
    assert keys_of(0, KEYS).held == ("FORWARD",)
    assert keys_of(0, KEYS).again == ()
    roll = keys_of(ACTION_NAMES.index("left+forward+roll"), KEYS)
    assert (set(roll.held), roll.again) == ({"LEFT", "FORWARD", "ROLL"}, ("ROLL",))
    assert keys_of(NOTHING, KEYS).held == ()


def test_open_actions_of_animations():
    assert find_open_actions("Idle", 0, 95.0) == FREE
    assert find_open_actions("Idle", 0, 0.0) == OpenActions(True, False, False)
    # 0.69, 0.73 and 0.75 s.
    assert [find_open_actions("RollingMedium", n / 60, 1.0) for n in (41, 42, 44, 45)] == [
        OpenActions(False, False, False),
        OpenActions(False, False, True),
        OpenActions(False, True, True),
        FREE,
    ]
    assert find_open_actions("FallLoop", 10.0, 95.0) == OpenActions(False, False, False)
    assert find_open_actions("#31", 0, 95.0) == FREE
