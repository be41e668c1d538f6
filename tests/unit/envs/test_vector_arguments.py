"""Arguments that all vector environments take."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from soulslab.envs.vector_arguments import autoreset_mode_of, reset_mask_of
from soulslab.errors import EnvironmentUsageError


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_mode_has_two_names(mode):
    assert autoreset_mode_of(mode) is autoreset_mode_of(mode.value) is autoreset_mode_of(mode.name.lower()) is mode


@pytest.mark.parametrize("mode", ["NextSteps", "", None, 3, ["NextStep"]])
def test_other_modes_are_refused(mode):
    with pytest.raises(EnvironmentUsageError, match="autoreset_mode"):
        autoreset_mode_of(mode)


def test_a_mask_chooses():
    assert reset_mask_of(None, 3).tolist() == [True] * 3
    mask = np.array([True, False])
    assert reset_mask_of(mask, 2) is mask


@pytest.mark.parametrize("mask", [[True, True], np.ones(2), np.ones(3, np.bool_), True])
def test_other_masks_are_refused(mask):
    with pytest.raises(EnvironmentUsageError, match=r"shape \(2,\)"):
        reset_mask_of(mask, 2)
