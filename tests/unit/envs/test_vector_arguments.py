"""Arguments of all vector environments."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from soulslab.envs.arguments import autoreset_mode_of, options_of_each, reset_mask_of
from soulslab.errors import EnvironmentUsageError


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_mode_has_two_names(mode):
    assert autoreset_mode_of(mode) is autoreset_mode_of(mode.value) is autoreset_mode_of(mode.name.lower()) is mode


@pytest.mark.parametrize("mode", ["NextSteps", "", None, 3, ["NextStep"]])
def test_other_modes_are_refused(mode):
    with pytest.raises(EnvironmentUsageError, match="autoreset_mode"):
        autoreset_mode_of(mode)


def test_reset_masks():
    assert reset_mask_of(None, 3).tolist() == [True] * 3
    mask = np.array([True, False])
    assert reset_mask_of(mask, 2) is mask


@pytest.mark.parametrize("mask", [[True, True], np.ones(2), np.ones(3, np.bool_), True])
def test_other_masks_are_refused(mask):
    with pytest.raises(EnvironmentUsageError, match=r"shape \(2,\)"):
        reset_mask_of(mask, 2)


def test_a_list_has_one_game_for_each_environment():
    options = {"server": ["a:1", "b:2"], "token": ("one", "two"), "frame_skip": 2, "actions": ["nothing", "roll"]}
    first, second = options_of_each(options, 2)
    assert first == {**options, "server": "a:1", "token": "one"}
    assert second == {**options, "server": "b:2", "token": "two"}
    assert options_of_each({"pid": 3, "session": None}, 1) == [{"pid": 3, "session": None}]


def test_a_session_factory_is_used_by_all_environments():
    assert options_of_each({"session": list}, 3) == [{"session": list}] * 3


ONE_SESSION = SimpleNamespace()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server": ["a:1"]}, "server is a list of 1, but there are 3 environments"),
        ({"pid": [1, 2, 3, 4]}, "pid is a list of 4"),
        ({"server": "a:1"}, r"server: environments 0 and 1 would control the same game \(a:1\)"),
        ({"server": ["a:1", "b:1", "a:1"]}, r"environments 0 and 2 would control the same game \(a:1\)"),
        ({"pid": 7}, r"pid: environments 0 and 1 would control the same game \(7\)"),
        ({"pid": [7, 8, 8]}, "environments 1 and 2"),
        ({"session": ONE_SESSION}, "session: environments 0 and 1 would control the same game; give"),
    ],
)
def test_two_environments_on_one_game_are_refused(options, message):
    with pytest.raises(EnvironmentUsageError, match=message):
        options_of_each(options, 3)
