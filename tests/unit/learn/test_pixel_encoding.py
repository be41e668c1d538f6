"""Encoders of pixels, random shifts of pixels, and runs that use them."""

import re

import msgspec
import numpy as np
import pytest
import torch

from soulslab.errors import ConfigError
from soulslab.learn.actors.transition_actor import step_shape
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.inputs import PixelShape
from soulslab.learn.pixel_encoding import ImpalaEncoder, PixelEncoder, residual_size, shift_pixels, stack_size
from soulslab.learn.players import load_player
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.ppo.ppo_algorithm import PPO
from soulslab.learn.rainbow.behaviour_cloning import cloner_of
from soulslab.learn.rainbow.demonstration_learning import shown_replay
from soulslab.learn.rainbow.q_learner import Learner
from soulslab.learn.rainbow.rainbow_settings import (
    DemonstrationSettings,
    QLearningSettings,
    QNetworkSettings,
    RainbowSettings,
)
from soulslab.learn.rainbow.recurrent_learner import RecurrentLearner
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.sequence_replay import SequenceReplay
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, ReplaySettings, TrainSettings
from soulslab.learn.train import train
from support.policies import seeing_policy

LIMIT_PX = 2
OFFSETS = [(dy, dx) for dy in range(-LIMIT_PX, LIMIT_PX + 1) for dx in range(-LIMIT_PX, LIMIT_PX + 1)]


def random_pixels(*shape):
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def cropped(picture, dy, dx):
    """Return the crop at an offset of a picture, (H, W, C), whose edges were replicated."""
    height, width, _ = picture.shape
    padded = np.pad(picture, ((LIMIT_PX, LIMIT_PX), (LIMIT_PX, LIMIT_PX), (0, 0)), "edge")
    return padded[LIMIT_PX + dy :, LIMIT_PX + dx :][:height, :width]


def offset_of(picture, shifted):
    """Return the offset by which a picture was shifted."""
    (found,) = [each for each in OFFSETS if np.array_equal(cropped(picture.numpy(), *each), shifted.numpy())]
    return found


def make_ppo(shift_px, n_envs=50, **network):
    header = PolicyHeader(
        env_id="toys/Dot-v0",
        env_options={},
        n_features=0,
        n_actions=3,
        pixels=PixelShape(8, 9, 1),
        frame_stack=2,
        network=NetworkSettings(convolutions=((2, 3, 2),), widths=(4,), **network),
        soulslab="",
        commit="",
    )
    generator = torch.Generator().manual_seed(0)
    settings = PPOSettings(n_steps=4, minibatch_size=n_envs, shift_px=shift_px)
    learner = PPO(settings, Policy(header, generator), n_envs, generator)
    learner._rollout.pixels.copy_(random_pixels(*learner._rollout.pixels.shape))
    return learner


def test_shifted_pixels_are_the_crop_of_a_padded_picture():
    pixels = random_pixels(len(OFFSETS), 6, 7, 3)
    before = pixels.clone()
    shifted = shift_pixels(pixels, torch.tensor(OFFSETS))
    for picture, found, offset in zip(pixels, shifted, OFFSETS, strict=True):
        np.testing.assert_array_equal(found, cropped(picture.numpy(), *offset), err_msg=str(offset))
    assert torch.equal(pixels, before)


def test_the_steps_of_a_sequence_have_the_same_shift():
    pixels = random_pixels(3, 2, 6, 7, 1)
    for given in (pixels, pixels.flatten(0, 1), pixels.transpose(2, 3).contiguous().transpose(2, 3)):
        shifted = shift_pixels(given, torch.tensor([(1, -2), (0, 2)])).view(3, 2, 6, 7, 1)
        for step, found in zip(pixels, shifted, strict=True):
            assert [offset_of(*pair) for pair in zip(step, found, strict=True)] == [(1, -2), (0, 2)]


def test_ppo_shifts_each_transition_of_a_minibatch():
    learner = make_ppo(LIMIT_PX)
    batches, order = list(learner._minibatches()), learner._order
    originals = learner._rollout.pixels.flatten(0, 1)[order]
    found = [offset_of(*pair) for pair in zip(originals, torch.cat([b.pixels for b in batches]), strict=True)]
    assert len(found) == 200
    assert set(found) == set(OFFSETS)
    again = torch.cat([batch.pixels for batch in learner._minibatches()])
    assert found != [offset_of(*pair) for pair in zip(learner._rollout.pixels.flatten(0, 1)[order], again, strict=True)]


def test_ppo_shifts_all_steps_of_an_environment_alike_if_the_policy_has_a_memory():
    learner = make_ppo(LIMIT_PX, memory=3)
    batches = list(learner._minibatches())
    originals, shifted = learner._rollout.pixels[:, learner._order], torch.cat([b.pixels for b in batches], dim=1)
    steps = [[offset_of(*pair) for pair in zip(*step, strict=True)] for step in zip(originals, shifted, strict=True)]
    assert steps == [steps[0]] * 4
    assert len(set(steps[0])) > len(OFFSETS) // 2


def test_without_shifts_ppo_draws_only_the_order_of_its_transitions():
    learner, generator = make_ppo(0), torch.Generator()
    generator.set_state(learner._generator.get_state())
    batches, order = list(learner._minibatches()), torch.randperm(200, generator=generator)
    assert torch.equal(torch.cat([b.pixels for b in batches]), learner._rollout.pixels.flatten(0, 1)[order])
    assert torch.equal(learner._generator.get_state(), generator.get_state())


def test_rainbow_shifts_each_sample():
    policy, pixels, rng = seeing_policy(), random_pixels(400, 8, 9, 2), np.random.default_rng(0)
    found = policy.place_pixels(pixels, LIMIT_PX, 200, rng)
    offsets = [offset_of(*pair) for pair in zip(pixels, found, strict=True)]
    assert set(offsets) == set(OFFSETS)
    assert offsets[:200] == offsets[200:]
    before = rng.bit_generator.state
    assert policy.place_pixels(pixels, 0, 200, rng) is pixels
    assert policy.place_pixels(None, LIMIT_PX, 200, rng) is None
    assert rng.bit_generator.state == before


def pixel_rows(shape):
    """Return 60 steps of one environment with random pixels, in which no episode ends."""
    rng = np.random.default_rng(0)
    rows = np.zeros(60, row_type(shape))
    rows["pixels"] = rng.integers(256, size=rows["pixels"].shape)
    rows["n_decisions"], rows["action"] = 1, rng.integers(3, size=60)
    rows["is_first"][0] = 1
    return rows


def pixels_seen(network):
    """Return a list to which the encoder of a network appends its inputs."""
    seen = []
    network.eye.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    return seen


@pytest.mark.parametrize("learner", [{}, {"is_double": False}, {"munchausen": 0.9}])
def test_rainbow_shifts_present_and_next_pixels_independently(learner):
    policy, rng = seeing_policy(), np.random.default_rng(0)
    replay = ReplayBuffer(step_shape(policy.header), ReplaySettings(capacity=60), 1)
    replay.append(pixel_rows(step_shape(policy.header)))
    settings = QLearningSettings(batch_size=16, shift_px=LIMIT_PX, **learner)
    made = Learner(settings, ReplaySettings(), policy, replay, rng)
    online, target = pixels_seen(policy.network), pixels_seen(made._target)
    made.update(0.0)
    batch = made._batch
    here = [offset_of(*pair) for pair in zip(batch.pixels, online[0], strict=True)]
    following = [offset_of(*pair) for pair in zip(batch.next_pixels, target[0], strict=True)]
    assert len(set(here)) > 5
    assert here != following
    if not learner:
        assert torch.equal(online[1], target[0])
    if "munchausen" in learner:
        assert torch.equal(online[0], target[1])


def test_recurrent_rainbow_shifts_all_steps_of_a_sequence_alike():
    network = QNetworkSettings(widths=(8,), n_quantiles=3, channels=(2,), memory=5)
    policy, replay_settings = (
        seeing_policy(network=network),
        ReplaySettings(capacity=60, sequence_steps=6, burn_in_steps=4),
    )
    replay = SequenceReplay(step_shape(policy.header), replay_settings, 1, 2)
    replay.append(pixel_rows(step_shape(policy.header)))
    settings = QLearningSettings(batch_size=72, n_steps=2, shift_px=LIMIT_PX)
    learner = RecurrentLearner(settings, replay_settings, policy, replay, np.random.default_rng(0))
    seen = pixels_seen(policy.network), pixels_seen(learner._target)
    learner.update(0.0)
    found = []
    for pixels in map(torch.cat, seen):
        pairs = zip(learner._sequences.pixels, pixels, strict=True)
        offsets = [offset_of(*pair) for pair in pairs]
        assert offsets == offsets[:12] * replay.length
        found.append(offsets[:12])
    assert found[0] != found[1]
    assert len(set(found[0])) > 5


def test_cloning_shifts_pixels():
    seen, weights = [], []
    for shift_px in (LIMIT_PX, LIMIT_PX, 0):
        policy = seeing_policy()
        shape = step_shape(policy.header)
        shown = shown_replay(pixel_rows(shape), shape, ReplaySettings())
        pixels = pixels_seen(policy.network)
        cloner = cloner_of(policy, shown, np.random.default_rng(0), DemonstrationSettings(), shift_px)
        cloner.update()
        seen.append([offset_of(*pair) for pair in zip(cloner._batch.pixels, pixels[0], strict=True)])
        weights.append(policy.network.parameters_flat)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 15
    assert set(seen[2]) == {(0, 0)}
    assert torch.equal(weights[0], weights[1])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (TrainSettings(learner=PPOSettings(shift_px=4)), "the observations of toys/Corridor-v0 have no pixels; set it"),
        (RainbowSettings(learner=QLearningSettings(shift_px=4)), "toys/Corridor-v0 have no pixels; set it to 0"),
        (
            TrainSettings(learner=PPOSettings(shift_px=24), env=EnvSettings(id="toys/Dot-v0")),
            "can be shifted by 23 at most",
        ),
    ],
)
def test_shifts_need_pixels(settings, problem, tmp_path):
    if settings.env.id != "toys/Dot-v0":
        settings = msgspec.structs.replace(settings, env=msgspec.structs.replace(settings.env, id="toys/Corridor-v0"))
    with pytest.raises(ConfigError, match=rf"learner\.shift_px: is \d+, but .*{re.escape(problem)}"):
        train(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("pixels", [(24, 24, 2), (84, 60, 4), (9, 8, 1)])
def test_sizes_are_those_of_the_encoders(pixels):
    stack = ((3, 4, 2), (5, 3, 1))
    for encoder, size in (
        (PixelEncoder(pixels, stack), stack_size(pixels, stack)),
        (ImpalaEncoder(pixels, (3, 5)), residual_size(pixels, (3, 5))),
    ):
        assert sum(parameter.numel() for parameter in encoder.parameters()) == size.n_parameters
        assert encoder(random_pixels(6, *pixels)).shape == (6, encoder.n_outputs) == (6, size.n_outputs)


def test_ppo_learns_with_residual_convolutions_and_shifts(dot, tmp_path):
    settings = msgspec.structs.replace(
        dot,
        learner=msgspec.structs.replace(dot.learner, shift_px=2),
        network=msgspec.structs.replace(dot.network, channels=(4,)),
        run=msgspec.structs.replace(dot.run, total_steps=3000),
    )
    policy = load_player(train(settings, tmp_path / "run").policy_path)
    assert isinstance(policy.network.eye, ImpalaEncoder)
    # A policy that does not see the direction has 0.5.
    assert evaluate(policy, EvaluationSettings(env_id="toys/Dot-v0", n_fights=50, n_envs=10)).mean_return > 0.8


@pytest.mark.parametrize(("memory", "channels"), [(0, (4,)), (5, ())])
def test_a_run_with_shifts_is_resumed_bit_for_bit(corridor, tmp_path, memory, channels):
    whole = msgspec.structs.replace(
        corridor,
        env=EnvSettings(id="toys/PixelCorridor-v0", n_envs=8),
        learner=msgspec.structs.replace(corridor.learner, minibatch_size=32, shift_px=1),
        network=NetworkSettings(convolutions=((4, 3, 2),), channels=channels, widths=(8,), memory=memory),
        run=msgspec.structs.replace(corridor.run, total_steps=600),
    )
    short = msgspec.structs.replace(whole, run=msgspec.structs.replace(whole.run, max_seconds=1e-9))
    train(whole, tmp_path / "whole")
    assert train(short, tmp_path / "parts").env_steps < 600
    train(whole, tmp_path / "parts", resume=True)
    one, other = (load_player(tmp_path / name).state() for name in ("whole", "parts"))
    for name, tensor in one.items():
        np.testing.assert_array_equal(other[name], tensor, err_msg=name)
