import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import EnvironmentUsageError
from soulslab.learn.policy import ActorCritic, count_parameters, masked_log_probs, sample
from soulslab.learn.settings import NetworkSettings


def network(shared):
    settings = NetworkSettings(widths=(16, 16), shared=shared)
    return ActorCritic(6, 5, settings, torch.Generator().manual_seed(0))


def test_no_masked_action_in_a_hundred_thousand_draws():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(1000, 20, generator=generator) * 20.0
    blocked = torch.rand(1000, 20, generator=generator) < 0.8
    blocked[torch.arange(1000), torch.randint(20, (1000,), generator=generator)] = False
    log_probs = masked_log_probs(logits, blocked)
    for _ in range(100):
        actions = sample(log_probs, generator)
        assert not blocked.gather(1, actions).any()


def test_draws_follow_the_probabilities():
    probabilities = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2])
    log_probs = masked_log_probs(probabilities.log().nan_to_num(neginf=0.0).expand(100_000, 5), probabilities == 0)
    actions = sample(log_probs, torch.Generator().manual_seed(2))
    shares = np.bincount(actions.squeeze(1).numpy(), minlength=5) / 100_000
    np.testing.assert_allclose(shares, probabilities, atol=0.01)


@given(st.integers(0, 10_000))
def test_masked_probabilities_sum_to_one_and_give_no_gradient_to_forbidden_actions(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(8, 6, generator=generator) * 30.0).requires_grad_()
    blocked = torch.rand(8, 6, generator=generator) < 0.5
    blocked[:, 0] = False
    log_probs = masked_log_probs(logits, blocked)
    probabilities = log_probs.exp()
    entropy = -(probabilities * log_probs).sum()
    entropy.backward()
    assert (probabilities[blocked] == 0).all()
    torch.testing.assert_close(probabilities.sum(1), torch.ones(8))
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[blocked] == 0).all()


def test_a_row_that_forbids_everything_is_uniform_not_nan():
    log_probs = masked_log_probs(torch.tensor([[1.0, 2.0]]), torch.ones(1, 2, dtype=torch.bool))
    torch.testing.assert_close(log_probs.exp(), torch.full((1, 2), 0.5))


@pytest.mark.parametrize("shared", [True, False])
def test_parts_agree_with_the_whole(shared):
    net, obs = network(shared), torch.randn(7, 6, generator=torch.Generator().manual_seed(0))
    logits, values = net(obs)
    torch.testing.assert_close(net.logits(net.see(obs)[0]), logits)
    torch.testing.assert_close(net.value(obs), values)


@pytest.mark.parametrize("shared", [True, False])
def test_rescaling_keeps_the_critics_answers(shared):
    net, obs = network(shared), torch.randn(7, 6, generator=torch.Generator().manual_seed(0))
    before = net.value(obs) * 2.0 + 1.0
    net.rescale_critic((1.0, 2.0), (-3.0, 10.0))
    torch.testing.assert_close(net.value(obs) * 10.0 - 3.0, before)


def test_the_same_seed_gives_the_same_weights():
    first, second = network(shared=False), network(shared=False)
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])


def test_the_first_policy_is_nearly_uniform():
    probabilities = network(shared=False)(torch.randn(50, 6)).logits.softmax(1)
    assert (probabilities - 0.2).abs().max() < 0.02


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_features", [0, 3])
@pytest.mark.parametrize("channels", [(), (3, 4)])
def test_pixels_and_features_meet_in_the_trunk(shared, n_features, channels):
    generator = torch.Generator().manual_seed(0)
    settings = NetworkSettings(shared=shared, channels=channels)
    net = ActorCritic(n_features, 5, settings, generator, pixels=(84, 60, 2))
    n_parameters = sum(parameter.numel() for parameter in net.parameters())
    assert n_parameters == count_parameters(n_features, 5, settings, (84, 60, 2))
    features = torch.randn(7, n_features, generator=generator)
    pixels = torch.randint(256, (7, 84, 60, 2), dtype=torch.uint8, generator=generator)
    logits, values = net(features, pixels)
    torch.testing.assert_close(net.logits(net.see(features, pixels)[0]), logits)
    torch.testing.assert_close(net.value(net.see(features, pixels)[0]), values)
    for changed in (net(features, 255 - pixels), net(features + 1.0, pixels)) if n_features else ():
        assert (changed.logits != logits).any()
    # Nothing of one picture leaks into the answer about another.
    torch.testing.assert_close(net(features[2:3], pixels[2:3]).logits, logits[2:3])


def test_the_convolutions_are_those_of_the_channels_first_layout():
    net = ActorCritic(0, 5, NetworkSettings(), torch.Generator().manual_seed(0), pixels=(84, 84, 4))
    pixels = torch.randint(256, (3, 84, 84, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    expected = pixels.permute(0, 3, 1, 2).contiguous().float() / 255.0
    for layer in net.eye.layers:
        expected = layer(expected)
    torch.testing.assert_close(net.eye(pixels), expected)
    assert expected.shape == (3, net.eye.n_outputs) == (3, 4 * 4 * 32)


def test_too_few_pixels_are_an_error():
    with pytest.raises(EnvironmentUsageError, match=r"pixels of 20x84 are too small for network.convolutions = \(\("):
        ActorCritic(0, 5, NetworkSettings(), torch.Generator(), pixels=(20, 84, 1))
