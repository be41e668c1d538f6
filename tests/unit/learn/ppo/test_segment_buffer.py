"""Rollouts from the steps of actors: the right steps, values and weights, whatever is missing."""

import numpy as np
import pytest
import torch

from soulslab.learn.actors.transition_actor import Actor, step_shape
from soulslab.learn.actors.transport import InProcessTransport, Weights
from soulslab.learn.environment import make_vector
from soulslab.learn.inputs import Inputs, PixelShape
from soulslab.learn.ppo.rollout import Rollout
from soulslab.learn.ppo.segment_buffer import SegmentBuffer
from soulslab.learn.replay.step_rows import Outcome, row_type
from soulslab.learn.settings import NetworkSettings
from support.policies import actor_critic

GAMMA = 0.9
POLICY = actor_critic()
SHAPE = step_shape(POLICY.header)
SEEING = NetworkSettings(convolutions=((4, 4, 2),), widths=(8,))


def rows_of(numbers, stream=0, *, starts=(), terminated=(), truncated=(), final=()):
    """Return rows whose first feature is their number; the other arguments are numbers of rows."""
    rows = np.zeros(len(numbers), row_type(SHAPE))
    rows["features"][:, 0] = numbers
    rows["reward"] = numbers
    rows["stream"] = stream
    rows["n_decisions"] = 1
    rows["is_first"] = np.isin(numbers, starts)
    for outcome, where in ((1, terminated), (2, truncated), (3, final)):
        rows["outcome"][np.isin(numbers, where)] = outcome
    return rows


def collected(buffer, n_steps, n_streams):
    """Return the next rollout, and the numbers of its steps, (T, N)."""
    rollout = Rollout(n_steps, n_streams, 6, 4)
    buffer.collect(POLICY, rollout, torch.Generator())
    return rollout, rollout.rewards.astype(int)


def value_of(number):
    """Return the value of the row with a number, in units of return."""
    features = np.zeros((1, 6), np.float32)
    features[0, 0] = number
    return float(POLICY.judge(Inputs(features))[0] * POLICY.value_moments.std + POLICY.value_moments.mean)


def test_segments_follow_each_other_and_bootstrap_from_the_row_after_them():
    buffer = SegmentBuffer(SHAPE, 1, 3, GAMMA)
    buffer.append(rows_of(range(3), starts=[0]))
    assert not buffer.is_full  # the row after the last step is missing
    buffer.append(rows_of(range(3, 7), truncated=[4], final=[5], starts=[6]))
    rollout, numbers = collected(buffer, 3, 1)
    assert numbers[:, 0].tolist() == [0, 1, 2]
    assert rollout.values[:, 0] == pytest.approx([value_of(i) for i in range(4)], abs=1e-6)
    assert not rollout.dones.any()
    assert not buffer.is_full
    buffer.append(rows_of([7]))
    rollout, numbers = collected(buffer, 3, 1)
    assert numbers[:, 0].tolist() == [3, 4, 6]
    assert rollout.dones[:, 0].tolist() == [False, True, False]
    assert rollout.bootstrap[:, 0] == pytest.approx([0.0, value_of(5), 0.0], abs=1e-6)
    assert rollout.discounts[:, 0].tolist() == [GAMMA] * 3


def test_a_stream_that_stops_delays_nothing_but_its_own_steps():
    buffer = SegmentBuffer(SHAPE, 2, 2, GAMMA)
    buffer.append(rows_of([100, 101], 1, starts=[100]))
    buffer.append(rows_of(range(8), 0, starts=[0]))
    assert buffer.is_full
    assert collected(buffer, 2, 2)[1].T.tolist() == [[0, 1], [2, 3]]
    # The stream goes on with another episode: the last row of the broken one is its final observation.
    buffer.append(rows_of([200, 201, 202], 1, starts=[200]))
    rollout, numbers = collected(buffer, 2, 2)
    found = {tuple(column): n for n, column in enumerate(numbers.T.tolist())}
    assert set(found) == {(4, 5), (100, 200)}
    n = found[100, 200]
    assert rollout.dones[:, n].tolist() == [True, False]
    assert rollout.bootstrap[:, n] == pytest.approx([value_of(101), 0.0], abs=1e-6)


def test_an_episode_whose_final_observation_is_missing_ends_a_step_earlier():
    buffer = SegmentBuffer(SHAPE, 1, 3, GAMMA)
    buffer.append(rows_of(range(6), starts=[0, 3], truncated=[2]))
    rollout, numbers = collected(buffer, 3, 1)
    assert numbers[:, 0].tolist() == [0, 1, 3]
    assert rollout.dones[:, 0].tolist() == [False, True, False]
    assert rollout.bootstrap[1, 0] == pytest.approx(value_of(2), abs=1e-6)


def test_weights_are_truncated_ratios_of_the_masked_policies():
    buffer = SegmentBuffer(SHAPE, 1, 4, GAMMA)
    rows = rows_of(range(5), starts=[0])
    mask = np.array([True, False, True, True])
    rows["blocked"] = np.packbits(~mask)
    rows["action"] = [0, 2, 3, 1, 0]  # the fourth is forbidden
    rows["log_prob"] = np.log([0.9, 0.01, 0.2, 0.5, 1.0])
    buffer.append(rows)
    rollout, _ = collected(buffer, 4, 1)
    inputs = Inputs(rows["features"][:4])
    now = POLICY.scores(inputs, np.tile(mask, (4, 1))).numbers[np.arange(4), rows["action"][:4]]
    np.testing.assert_allclose(rollout.log_probs[:3, 0].exp(), now[:3], rtol=1e-5)
    np.testing.assert_allclose(rollout.weights[:, 0], np.minimum(1.0, now / [0.9, 0.01, 0.2, 0.5]), rtol=1e-5)
    assert rollout.weights[1, 0] == 1.0
    assert rollout.weights[3, 0] == 0.0


def test_what_is_loaded_continues_as_what_was_saved():
    buffer = SegmentBuffer(SHAPE, 2, 3, GAMMA)
    buffer.append(rows_of(range(10), 0, starts=[0]))
    buffer.append(rows_of(range(100, 103), 1, starts=[100]))
    collected(buffer, 3, 2)
    other = SegmentBuffer(SHAPE, 2, 3, GAMMA)
    other.load(buffer.state())
    more = rows_of(range(103, 112), 1)
    for each in (buffer, other):
        each.append(more)
    np.testing.assert_array_equal(collected(buffer, 3, 2)[1], collected(other, 3, 2)[1])
    with pytest.raises(ValueError, match="sizes"):
        SegmentBuffer(SHAPE, 3, 3, GAMMA).load(buffer.state())


def test_stacks_of_frames_are_those_that_the_actor_saw():
    shape = PixelShape(24, 24, 1)
    policy = actor_critic(env_id="toys/Dot-v0", n_features=0, n_actions=3, pixels=shape, frame_stack=3, network=SEEING)
    env = make_vector("toys/Dot-v0", 2, {})
    sizes = step_shape(policy.header)
    channel = InProcessTransport(row_type(sizes), 2)
    channel.publish(Weights(version=1, epsilon=0.0, tensors=policy.weights()))
    actor, seen = Actor(env, policy, channel, np.random.default_rng(0)), []
    actor.reset(0)
    for _ in range(61):
        seen.append(actor._observer.inputs.pixels.copy())
        actor.step()
    rows = channel.take()
    assert (rows["outcome"] == Outcome.FINAL).any()
    buffer = SegmentBuffer(sizes, 2, 20, GAMMA)
    buffer.append(rows)
    for start in (0, 20, 40):
        rollout = Rollout(20, 2, 0, 3, policy.header.stacked_pixels)
        buffer.collect(policy, rollout, torch.Generator())
        np.testing.assert_array_equal(rollout.pixels.numpy(), np.stack(seen[start : start + 20]))
        # The actions are those of the present policy, so nothing is to be corrected.
        np.testing.assert_allclose(rollout.weights, 1.0, atol=1e-4)
    env.close()
