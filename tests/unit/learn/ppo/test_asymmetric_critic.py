"""PPO whose critic sees features that are hidden from the actor."""

import msgspec
import numpy as np
import pytest
import torch

from soulslab.config import load_settings
from soulslab.errors import ConfigError, CorruptCheckpointError, IncompatibleCheckpointError
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.inputs import Inputs, PixelShape
from soulslab.learn.live_feed import describe_moment
from soulslab.learn.players import load_player, start_from
from soulslab.learn.policy import Policy
from soulslab.learn.settings import EnvSettings, NetworkSettings, TrainSettings
from soulslab.learn.train import train
from support.policies import actor_critic

NAMES = ("a", "b", "c", "d", "e", "f")
HIDDEN = {"hidden_features": ("b", "d"), "critic_sees_hidden": True}
MASK = np.ones((1, 4), np.bool_)
MEMORY, PIXELS = {"memory": 5}, {"pixels": PixelShape(24, 24, 1)}


def make_policy(*, pixels=None, **network):
    settings = NetworkSettings(**{"widths": (8,), "convolutions": ((4, 8, 4),), **HIDDEN, **network})
    policy = actor_critic(network=settings, feature_names=NAMES, pixels=pixels)
    policy.value_moments.update(np.array([1.0, 5.0]))
    with torch.no_grad():
        policy.network.actor.weight.mul_(100.0)  # the initial policy is nearly uniform
    return policy


def inputs_of(policy, *, hidden=None, seen=None):
    """Return inputs, of which the hidden features or those that the actor sees may have another value."""
    rng = np.random.default_rng(1)
    features = rng.normal(0.5, 2.0, (1, 6)).astype(np.float32)
    if hidden is not None:
        features[:, [1, 3]] = hidden
    if seen is not None:
        features[:, [0, 2, 4, 5]] = seen
    pixels = rng.integers(256, size=(1, 24, 24, 1), dtype=np.uint8) if policy.header.pixels is not None else None
    if not policy.header.n_memory:
        return Inputs(features, pixels)
    memory = rng.normal(size=(1, policy.header.n_memory)).astype(np.float32)
    return Inputs(features, pixels, memory, np.zeros_like(memory))


@pytest.mark.parametrize(
    "kind", [{}, MEMORY, PIXELS, {**MEMORY, **PIXELS}], ids=["features", "memory", "pixels", "all"]
)
def test_the_critic_sees_hidden_features_and_the_actor_does_not(tmp_path, kind):
    policy = make_policy(**kind)
    policy.save(tmp_path / "policy.safetensors")
    for one in (policy, Policy.load(tmp_path / "policy.safetensors"), policy.copy()):
        before, hidden, seen = inputs_of(one), inputs_of(one, hidden=-4.0), inputs_of(one, seen=-4.0)
        scores, values = ([of(each) for each in (before, hidden, seen)] for of in (one.scores, one.judge))
        assert (scores[1].numbers == scores[0].numbers).all()
        assert (scores[2].numbers != scores[0].numbers).any()
        assert values[1] != values[0]
        assert values[2] != values[0]
        if one.header.n_memory:
            assert (hidden.next_memory == before.next_memory).all()
            assert (seen.next_memory != before.next_memory).any()


@pytest.mark.parametrize("kind", [{}, MEMORY], ids=["features", "memory"])
def test_the_policy_loss_does_not_reach_what_only_the_critic_reads(kind):
    network = make_policy(**kind).network
    obs = torch.randn(3, 2, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    if network.memory is None:
        logits, values = network(obs.flatten(0, 1))
        values = values.view(3, 2)
    else:
        logits, values = network.unroll(obs, None, torch.zeros(2, 5), torch.zeros(3, 2, 1, dtype=torch.bool))
    [of_actor] = torch.autograd.grad(logits.square().sum(), obs, retain_graph=True)
    assert (of_actor[..., [1, 3]] == 0.0).all()
    assert (of_actor[..., [0, 2, 4, 5]] != 0.0).any()
    critic = [*network.critic_trunk.parameters(), *network.critic.parameters()]
    assert torch.autograd.grad(logits.square().sum(), critic, retain_graph=True, allow_unused=True) == (None,) * 4
    # The last value depends on the hidden features of its own step, and with memory on earlier ones that the actor saw.
    [of_critic] = torch.autograd.grad(values[2].sum(), obs)
    assert (of_critic[2][..., [1, 3]] != 0.0).all()
    assert (of_critic[:2][..., [1, 3]] == 0.0).all()
    assert bool((of_critic[:2] != 0.0).any()) == bool(kind)


def test_hidden_features_that_are_not_available_change_no_action_and_leave_no_value():
    policy = make_policy()
    known, unknown = inputs_of(policy), inputs_of(policy, hidden=np.nan)
    shown, without = policy.view(known, MASK[0], 1), policy.view(unknown, MASK[0], 1)
    assert shown.value == pytest.approx(float(policy.judge(known)[0]) * 2.0 + 3.0)
    np.testing.assert_allclose(shown.scores, policy.scores(known, MASK).numbers[0], rtol=1e-6)
    assert (shown.attribution[[1, 3]] == 0.0).all()
    assert without.value is None
    assert describe_moment(unknown, MASK[0], 1, without).value is None
    assert policy.act(unknown, MASK) == policy.act(known, MASK)
    for one, other in zip(
        (shown.scores, shown.attribution, *shown.hidden),
        (without.scores, without.attribution, *without.hidden),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def blind(corridor, *, sees):
    """Return settings whose actor sees nothing of the corridor."""
    return msgspec.structs.replace(
        corridor,
        env=msgspec.structs.replace(corridor.env, options={"is_named": True}),
        network=NetworkSettings(widths=(32,), hidden_features=("*",), critic_sees_hidden=sees),
        run=msgspec.structs.replace(corridor.run, total_steps=20_000),
    )


def test_it_learns_values_from_what_the_actor_does_not_see(corridor, tmp_path):
    cells = Inputs(np.eye(6, dtype=np.float32)[:5])
    for sees in (True, False):
        train(blind(corridor, sees=sees), tmp_path / str(sees))
        policy = load_player(tmp_path / str(sees))
        values = policy.judge(cells)
        assert (values[0] < values[4]) if sees else (values == values[0]).all()
        assert (policy.scores(cells).numbers == policy.scores(cells).numbers[0]).all()
        # To the right is nearly always correct, so even an actor that sees nothing wins.
        fights = EvaluationSettings(env_id="toys/Corridor-v0", env_options={"is_named": True}, n_fights=50)
        assert evaluate(policy, fights).mean_return == 1.0


def test_a_stopped_run_is_resumed_bit_for_bit(corridor, tmp_path):
    whole = blind(corridor, sees=True)
    whole = msgspec.structs.replace(whole, run=msgspec.structs.replace(whole.run, total_steps=8000))
    train(whole, tmp_path / "whole")
    short = msgspec.structs.replace(whole, run=msgspec.structs.replace(whole.run, max_seconds=1e-9))
    assert train(short, tmp_path / "parts").env_steps < 8000
    train(whole, tmp_path / "parts", resume=True)
    one, other = (load_player(tmp_path / name).state() for name in ("whole", "parts"))
    for name, tensor in one.items():
        np.testing.assert_array_equal(other[name], tensor, err_msg=name)


def test_it_learns_from_pixels_with_features_for_the_critic_alone(dot, tmp_path):
    settings = msgspec.structs.replace(
        dot,
        env=EnvSettings(id="toys/Dot-v0", n_envs=8, frame_stack=2, options={"form": "dict"}),
        network=msgspec.structs.replace(dot.network, shared=False, hidden_features=("*",), critic_sees_hidden=True),
    )
    train(settings, tmp_path / "run")
    policy = load_player(tmp_path / "run")
    fights = EvaluationSettings(env_id="toys/Dot-v0", env_options={"form": "dict"}, n_fights=20)
    assert evaluate(policy, fights).mean_return > 0.9
    pixels = np.zeros((1, 24, 24, 2), np.uint8)
    early, late = (Inputs(np.full((1, 1), age, np.float32), pixels) for age in (0.0, 1.0))
    assert policy.judge(early) != policy.judge(late)
    assert (policy.scores(early).numbers == policy.scores(late).numbers).all()


def test_shared_hidden_layers_are_refused(tmp_path):
    overrides = ["network.critic_sees_hidden=true", "network.shared=true"]
    with pytest.raises(ConfigError, match=r"network\.critic_sees_hidden: needs network\.shared = false, because"):
        load_settings(TrainSettings, None, overrides)
    path = tmp_path / "policy.safetensors"
    make_policy().save(path)
    tensors, header = read_archive(path)
    header["network"]["shared"] = True
    write_archive(path, tensors, header)
    with pytest.raises(CorruptCheckpointError, match=r"malformed header: network\.critic_sees_hidden: needs"):
        Policy.load(path)


def test_a_run_starts_only_from_a_policy_with_the_same_critic(tmp_path):
    path = tmp_path / "policy.safetensors"
    make_policy().save(path)
    with pytest.raises(
        IncompatibleCheckpointError, match=r"has network\.critic_sees_hidden = True, but this run has F"
    ):
        start_from(make_policy(critic_sees_hidden=False), path)
    same = make_policy()
    same.network.rescale_critic((0.0, 1.0), (1.0, 2.0))
    start_from(same, path)
    assert same.judge(inputs_of(same)) == make_policy().judge(inputs_of(same))
