"""RLlib with the masks of our environments: modules that respect them, and a short training of PPO and DQN."""

import gymnasium
import numpy as np
import pytest
import torch

from soulslab.errors import EnvironmentUsageError

OPTIONS = {"boss": "judge", "phase": "1"}
# RLlib's own settings of its modules warn when they are made directly.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def rllib():
    """The integration; RLlib takes a second to import, and each process of the suite collects this file."""
    from soulslab.integrations import rllib  # noqa: PLC0415

    return rllib


@pytest.fixture(scope="module")
def env(rllib):
    made = rllib.make_masked("soulslab/Arena-v0", OPTIONS)
    yield made
    made.close()


def observations(env, n):
    """Return n observations of a fight with random allowed actions, float32 (n, A + F), and their masks."""
    rng = np.random.default_rng(0)
    found, masks = [], []
    obs, info = env.reset(seed=0)
    for _ in range(n):
        found.append(obs)
        masks.append(info["action_mask"])
        obs, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        if terminated or truncated:
            obs, info = env.reset()
    return torch.from_numpy(np.stack(found)), torch.from_numpy(np.stack(masks))


def module_of(kind, env, **settings):
    torch.manual_seed(0)
    return kind(observation_space=env.observation_space, action_space=env.action_space, model_config=settings)


def test_the_observation_begins_with_the_mask(env):
    plain = gymnasium.make("soulslab/Arena-v0", **OPTIONS)
    inner, info = plain.reset(seed=3)
    obs, _ = env.reset(seed=3)
    assert env.observation_space.contains(obs)
    np.testing.assert_array_equal(obs, np.concatenate((info["action_mask"], inner)))
    plain.close()


def test_an_environment_without_flat_observations_is_refused(rllib):
    with pytest.raises(EnvironmentUsageError, match="flat observations"):
        rllib.make_masked("soulslab/Arena-v0", {"observation": "dict"})


def test_ppo_gives_forbidden_actions_probability_0(rllib, env):
    module = module_of(rllib.MaskedPPOModule, env)
    obs, masks = observations(env, 40)
    for forward in (module.forward_inference, module.forward_exploration, module.forward_train):
        shares = torch.softmax(forward({"obs": obs})["action_dist_inputs"], dim=-1)
        assert (shares[~masks] == 0).all()
        assert (shares[masks] > 0).all()
    assert torch.isfinite(module.compute_values({"obs": obs})).all()


@pytest.mark.parametrize("n_atoms", [1, 8])
def test_dqn_neither_chooses_forbidden_actions_nor_uses_their_values(rllib, env, n_atoms):
    settings = {"double_q": True, "dueling": True, "num_atoms": n_atoms, "v_min": -1.0, "v_max": 1.0}
    module = module_of(rllib.MaskedDQNModule, env, epsilon=[(0, 0.5)], **settings)
    module.make_target_networks()
    obs, masks = observations(env, 200)
    rows = torch.arange(len(obs))
    for outputs in (module.forward_inference({"obs": obs}), module.forward_exploration({"obs": obs}, t=0)):
        assert masks[rows, outputs["actions"]].all()
    trained = module.forward_train({"obs": obs, "new_obs": obs})
    for name in ("qf_preds", "qf_next_preds", "qf_target_next_preds"):
        assert masks[rows, trained[name].argmax(-1)].all(), name


@pytest.mark.long
def test_ppo_and_dqn_train_on_the_arena(rllib):
    import ray  # noqa: PLC0415 - starts processes
    from ray.rllib.algorithms.dqn import DQNConfig  # noqa: PLC0415
    from ray.rllib.algorithms.ppo import PPOConfig  # noqa: PLC0415
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: PLC0415

    assert "soulslab/Arena-v0" in rllib.register_envs()
    ray.init(include_dashboard=False, num_cpus=1)
    try:
        ppo = PPOConfig().training(train_batch_size_per_learner=256, minibatch_size=64, num_epochs=2)
        dqn = (
            DQNConfig()
            .training(num_steps_sampled_before_learning_starts=100)
            .reporting(min_sample_timesteps_per_iteration=200)
        )
        for config, module in ((ppo, rllib.MaskedPPOModule), (dqn, rllib.MaskedDQNModule)):
            algorithm = (
                config.environment("soulslab/Arena-v0", env_config=OPTIONS)
                .env_runners(num_env_runners=0)
                .rl_module(rl_module_spec=RLModuleSpec(module_class=module))
                .build_algo()
            )
            before = [each.clone() for each in algorithm.get_module().parameters()]
            result = algorithm.train()
            assert result["num_env_steps_sampled_lifetime"] >= 200
            after = list(algorithm.get_module().parameters())
            assert all(torch.isfinite(each).all() for each in after)
            assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
            algorithm.stop()
    finally:
        ray.shutdown()
