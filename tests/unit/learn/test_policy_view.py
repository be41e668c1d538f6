"""What a policy computes for one decision."""

import numpy as np
import pytest
import torch

from soulslab.learn.inputs import Inputs
from soulslab.learn.phases import PhasePolicy, Switch
from soulslab.learn.rainbow.rainbow_settings import BinsSettings, QNetworkSettings
from support.policies import actor_critic, q_policy, seeing_policy, some_inputs

BINNED = QNetworkSettings(
    widths=(8, 6), n_quantiles=3, channels=(4,), bins=(BinsSettings(feature=1, low=0.0, high=1.0, n=4, times=(2, 3)),)
)


def decision(policy, seed=0):
    features, masks = some_inputs(1, policy.header.n_inputs, policy.header.n_actions, seed)
    return Inputs(features), masks[0]


@pytest.mark.parametrize("policy", [actor_critic(), q_policy(), q_policy(network=BINNED)], ids=["ppo", "q", "bins"])
def test_scores_are_those_of_the_policy(policy):
    inputs, mask = decision(policy)
    before = policy.state()
    with torch.inference_mode():  # as during training
        view = policy.view(inputs, mask, int(mask.argmax()))
    expected = policy.scores(inputs, mask[None])
    assert view.kind == expected.kind
    np.testing.assert_allclose(view.scores, expected.numbers[0], rtol=1e-5, atol=1e-6)
    after = policy.state()
    assert all(np.array_equal(after[name], before[name]) for name in before)


def test_value_is_that_of_the_critic_in_units_of_return():
    policy = actor_critic()
    policy.value_moments.update(np.array([1.0, 5.0]))
    inputs, mask = decision(policy)
    expected = policy.judge(inputs)[0] * float(policy.value_moments.std) + 3.0
    assert policy.view(inputs, mask, 0).value == pytest.approx(expected, rel=1e-5)


def test_quantiles_have_the_values_as_means():
    policy = q_policy()
    inputs, mask = decision(policy)
    view = policy.view(inputs, mask, 2)
    assert view.quantiles.shape == (4, 3)
    np.testing.assert_allclose(view.quantiles.mean(axis=1), view.scores, rtol=1e-5)
    assert view.value == pytest.approx(float(view.scores[2]))
    assert [len(layer) for layer in view.hidden] == [8]


@pytest.mark.parametrize("policy", [actor_critic(), q_policy()], ids=["ppo", "q"])
def test_attribution_is_gradient_times_input(policy):
    """The sum of the attributions approximates the change of the score when all inputs grow by a small share."""
    inputs, mask = decision(policy, seed=3)
    action = int(mask.argmax())
    view = policy.view(inputs, mask, action)
    assert view.attribution.shape == (policy.header.n_inputs,)
    moments = policy.observation_moments if hasattr(policy, "observation_moments") else policy.moments
    mean, share = moments.mean.astype(np.float32), 1e-3

    def score(scale):
        scaled = Inputs((mean + (inputs.features - mean) * np.float32(scale)).astype(np.float32))
        found = policy.scores(scaled, mask[None])
        number = float(found.numbers[0, action])
        return np.log(number) if found.kind == "probability" else number

    slope = (score(1 + share) - score(1 - share)) / (2 * share)
    assert float(view.attribution.sum()) == pytest.approx(slope, rel=0.05, abs=1e-3)


def test_bins_count_for_their_feature():
    policy = q_policy(network=BINNED)
    inputs, mask = decision(policy)
    assert policy.view(inputs, mask, 0).attribution.shape == (6,)
    outputs = np.arange(policy.encoding.n_outputs, dtype=np.float32)
    folded = policy.encoding.fold(outputs)
    assert folded.sum() == outputs.sum()
    assert folded[1] == 1 + outputs[6:].sum()


def test_phase_policy_shows_the_policy_of_the_phase():
    first, second = actor_critic(seed=1), actor_critic(seed=2)
    policy = PhasePolicy([first, second], Switch(feature=0, at_most=(0.0,)))
    inputs, mask = decision(first)
    inputs.features[0, 0] = -1.0
    expected = second.view(inputs, mask, 0)
    assert np.array_equal(policy.view(inputs, mask, 0).scores, expected.scores)


def test_policy_with_pixels_alone_has_no_attribution():
    policy = seeing_policy()
    pixels = np.zeros((1, 24, 24, 2), np.uint8)
    view = policy.view(Inputs(np.zeros((1, 0), np.float32), pixels), np.ones(3, np.bool_), 0)
    assert view.attribution.shape == (0,)
    assert view.scores.shape == (3,)
