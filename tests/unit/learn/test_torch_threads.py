import numpy as np
import pytest
import torch

from soulslab.learn.torch_device import flushes_denormals, one_core

TINY = np.float64(2.0**-1040)


def test_the_processor_is_left_as_it_was_found():
    n_threads = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), one_core():
        assert torch.get_num_threads() == 1
        assert TINY * 1.0 == 0.0
        raise ZeroDivisionError
    assert torch.get_num_threads() == n_threads
    assert TINY * 1.0 > 0.0


def test_the_end_of_an_inner_block_leaves_the_mode_of_the_outer_block():
    assert not flushes_denormals()
    with one_core():
        with one_core():
            assert flushes_denormals()
        assert flushes_denormals()
        assert torch.get_num_threads() == 1
        assert TINY * 1.0 == 0.0
    assert not flushes_denormals()
