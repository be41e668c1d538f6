"""The network of action values: its gradients by hand against autograd's, its heads."""

import pytest
import torch

from soulslab.errors import EnvironmentUsageError
from soulslab.learn.rainbow.q_network import QNetwork
from soulslab.learn.rainbow.rainbow_settings import QNetworkSettings

N, F, A = 5, 7, 4

SHAPES = {
    "plain": QNetworkSettings(widths=(8,), has_layer_norm=False, is_dueling=False, n_quantiles=1),
    "dueling": QNetworkSettings(widths=(8, 6), has_layer_norm=False, n_quantiles=1),
    "quantiles": QNetworkSettings(widths=(8, 6), n_quantiles=3, is_dueling=False),
    "all": QNetworkSettings(widths=(8, 6, 5), n_quantiles=3),
}


def network(settings: QNetworkSettings, *, seed: int = 0, pixels=None) -> QNetwork:
    return QNetwork(F, A, settings, torch.Generator().manual_seed(seed), pixels=pixels)


def by_autograd(net: QNetwork, features, pixels, actions, gradient):
    """Return the flat gradient that autograd finds for the quantiles of the first rows."""
    n = len(gradient)
    net.gradients_flat.zero_()
    quantiles = net(features[:n], pixels[:n] if pixels is not None else None)
    chosen = quantiles[torch.arange(n), actions.squeeze(1)]
    torch.autograd.backward((chosen * gradient).sum())
    return net.gradients_flat.clone()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("n_learned", [3, 5])
def test_gradients_by_hand_are_those_of_autograd(name, n_learned):
    net = network(SHAPES[name])
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(N, F, generator=generator)
    actions = torch.randint(A, (n_learned, 1), generator=generator)
    gradient = torch.randn(n_learned, SHAPES[name].n_quantiles, generator=generator)
    expected = by_autograd(net, features, None, actions, gradient)
    net.gradients_flat.fill_(7.0)  # whatever was there before must not matter
    with torch.no_grad():
        both = net.forward_both(features, None, n_learned)
        net.backward(gradient, actions)
        assert torch.equal(both, net(features))
    torch.testing.assert_close(net.gradients_flat, expected, rtol=1e-4, atol=1e-6)
    assert float(expected.abs().max()) > 0.0


def test_gradients_reach_the_eye():
    settings = QNetworkSettings(widths=(8,), n_quantiles=2, channels=(2, 3))
    net = network(settings, pixels=(12, 10, 2))
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(N, F, generator=generator)
    pixels = torch.randint(256, (N, 12, 10, 2), generator=generator, dtype=torch.uint8)
    actions = torch.randint(A, (3, 1), generator=generator)
    gradient = torch.randn(3, 2, generator=generator)
    expected = by_autograd(net, features, pixels, actions, gradient)
    net.gradients_flat.fill_(7.0)
    with torch.no_grad():
        both = net.forward_both(features, pixels, 3)
        net.backward(gradient, actions)
        torch.testing.assert_close(both, net(features, pixels))
    torch.testing.assert_close(net.gradients_flat, expected, rtol=1e-4, atol=1e-6)


def test_a_dueling_network_has_the_value_as_the_mean_over_all_actions():
    net = network(QNetworkSettings(widths=(8,), n_quantiles=2))
    features = torch.randn(N, F, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        before = net(features)
        net.head.bias[:2] += 5.0  # the value's two quantiles
        after = net(features)
    torch.testing.assert_close(after - before, torch.full_like(before, 5.0))


def test_parameters_lie_in_one_tensor_whatever_is_loaded():
    one, other = network(SHAPES["all"], seed=0), network(SHAPES["all"], seed=1)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.parameters_flat, other.parameters_flat)
    other.parameters_flat.zero_()
    assert all(not parameter.any() for parameter in other.parameters())


def test_pixels_that_are_too_few_are_refused():
    with pytest.raises(EnvironmentUsageError, match=r"4x4 are too small for 3 stages of network\.channels"):
        network(QNetworkSettings(), pixels=(4, 4, 1))
