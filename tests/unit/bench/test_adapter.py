"""Our vector environment in the hands of stable-baselines3."""

import gymnasium
import numpy as np
import pytest
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

from soulslab.bench.adapter import VectorAdapter


def make():
    return gymnasium.make_vec(
        "soulslab/Arena-v0",
        num_envs=4,
        vectorization_mode="vector_entry_point",
        autoreset_mode="same_step",
        skip_locked=True,
    )


def test_it_plays_the_same_fights():
    adapter, env = VectorAdapter(make()), make()
    adapter.seed(5)
    expected, info = env.reset(seed=5)
    assert np.array_equal(adapter.reset(), expected)
    n_over = 0
    for _ in range(150):
        masks = get_action_masks(adapter)
        assert np.array_equal(masks, info["action_mask"])
        actions = masks.argmax(axis=1)
        obs, rewards, dones, infos = adapter.step(actions)
        expected, expected_rewards, terminated, truncated, info = env.step(actions)
        assert np.array_equal(obs, expected)
        assert np.array_equal(rewards, expected_rewards)
        assert np.array_equal(dones, terminated | truncated)
        assert [one["n_decisions"] for one in infos] == info["n_decisions"].tolist()
        for place, is_over in enumerate(dones):
            assert ("fight" in infos[place]) == is_over
            if is_over:
                n_over += 1
                assert np.array_equal(infos[place]["terminal_observation"], info["final_obs"][place])
                assert infos[place]["fight"]["won"] == info["final_info"]["fight"]["won"][place]
                assert infos[place]["TimeLimit.truncated"] == truncated[place]
    assert n_over > 0


def test_it_knows_masks_and_nothing_else():
    adapter = VectorAdapter(make())
    adapter.reset()
    assert is_masking_supported(adapter)
    assert not adapter.has_attr("nonsense")
    assert adapter.env_is_wrapped(gymnasium.Wrapper) == [False] * 4
    assert len(adapter.env_method("action_masks", indices=[1, 2])) == 2
    with pytest.raises(AttributeError, match="nonsense"):
        adapter.env_method("nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        adapter.set_attr("nonsense", 1)
    adapter.close()
