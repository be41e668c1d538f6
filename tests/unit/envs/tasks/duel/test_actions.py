"""Conversion of the agent's actions to one of the 20 actions and to keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.arena.live_fight import BUTTONS
from soulslab.arena.vocabulary import ACTIONS, N_ACTIONS, NOTHING, action_name
from soulslab.envs.tasks.duel.duel_actions import ACTION_NAMES, Actions, Choice, keys_of
from soulslab.envs.tasks.duel.duel_masks import Freedom, Locks
from soulslab.errors import InvalidActionError

FREE = Freedom(True, True, True)
KEYS = {name: name.upper() for name in BUTTONS}
freedoms = st.builds(Freedom, st.booleans(), st.booleans(), st.booleans())
downs = st.lists(st.booleans(), min_size=len(BUTTONS), max_size=len(BUTTONS))


def buttons(*names):
    return [int(name in names) for name in BUTTONS]


def chosen(*names, freedom=FREE):
    choice = Actions("multi_binary").choose(buttons(*names), freedom)
    return action_name(choice.action), choice.is_masked


@given(st.integers(0, N_ACTIONS - 1), freedoms)
def test_a_number_is_an_action_if_it_is_allowed(number, freedom):
    mask = np.zeros(N_ACTIONS, np.bool_)
    n_open = freedom.write(mask)
    assert n_open == mask.sum()
    assert mask[number] == freedom.allows(number)
    wanted = Choice(number, False) if mask[number] else Choice(NOTHING, True)
    assert Actions("discrete").choose(np.int64(number), freedom) == wanted


@given(downs, freedoms)
def test_any_buttons_map_to_an_allowed_action(down, freedom):
    actions = Actions("multi_binary")
    choice = actions.choose(np.array(down, np.int8), freedom)
    assert freedom.allows(choice.action)
    assert choice.is_masked <= any(down)
    asked = {name for name, is_down in zip(BUTTONS, down, strict=True) if is_down}
    assert set(ACTIONS[choice.action]) <= asked | {"backward"}
    assert Actions("continuous").choose(np.array(down, np.float32), freedom) == choice


def test_priority_of_several_buttons():
    assert chosen() == ("nothing", False)
    assert chosen("forward", "right") == ("forward+right", False)
    assert chosen("forward", "backward", "left") == ("left", False)
    assert chosen("forward", "roll") == ("forward+roll", False)
    assert chosen("roll") == ("backward+roll", False)
    assert chosen("roll", "light_attack", "parry") == ("parry", False)
    assert chosen("forward", "heavy_attack") == ("heavy_attack", False)
    assert chosen("forward", "light_attack", freedom=Freedom(True, True, False)) == ("forward", False)
    assert chosen("light_attack", freedom=Freedom(True, True, False)) == ("nothing", True)
    assert chosen("left", "roll", freedom=Freedom(False, True, True)) == ("left+roll", False)


def test_the_threshold_of_continuous_actions():
    actions = Actions("continuous", threshold=0.8)
    given_ = np.zeros(len(BUTTONS), np.float32)
    given_[0], given_[1] = 0.79, 0.8
    assert action_name(actions.choose(given_, FREE).action) == "right"
    assert actions.one_hot(given_).tolist() == buttons("right")


@pytest.mark.parametrize("mode", ["multi_binary", "continuous"])
@pytest.mark.parametrize(
    "action", [3, [1, 0], [2] * 8, [-1] * 8, ["a"] * 8, [[1], [1, 2]], None, [np.nan] * 8], ids=str
)
def test_invalid_buttons(mode, action):
    with pytest.raises(InvalidActionError, match="is not in"):
        Actions(mode).choose(action, FREE)


def test_masks_of_buttons():
    actions = Actions("multi_binary")
    mask = actions.mask(np.ones(N_ACTIONS, np.bool_), Freedom(False, True, False))
    assert dict(zip(actions.names, mask.tolist(), strict=True)) == {
        **dict.fromkeys(("forward", "right", "backward", "left", "roll"), True),
        **dict.fromkeys(("light_attack", "heavy_attack", "parry"), False),
    }


def test_keys():
    assert keys_of(0, KEYS).held == ("FORWARD",)
    assert keys_of(0, KEYS).again == ()
    roll = keys_of(ACTION_NAMES.index("left+forward+roll"), KEYS)
    assert (set(roll.held), roll.again) == ({"LEFT", "FORWARD", "ROLL"}, ("ROLL",))
    assert keys_of(NOTHING, KEYS).held == ()


def test_locks():
    locks = Locks()
    assert locks.freedom("Idle", 0, 95.0) == FREE
    assert locks.freedom("Idle", 0, 0.0) == Freedom(True, False, False)
    # 0.69, 0.73 and 0.75 s.
    assert [locks.freedom("RollingMedium", n / 60, 1.0) for n in (41, 42, 44, 45)] == [
        Freedom(False, False, False),
        Freedom(False, False, True),
        Freedom(False, True, True),
        FREE,
    ]
    assert locks.freedom("FallLoop", 10.0, 95.0) == Freedom(False, False, False)
    assert locks.freedom("#31", 0, 95.0) == FREE
