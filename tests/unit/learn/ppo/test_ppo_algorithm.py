import msgspec
import numpy as np
import pytest
import torch

from soulslab.learn.environment import make_vector, sizes
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.ppo.ppo_algorithm import PPO
from soulslab.learn.ppo.rollout import Collector
from soulslab.learn.settings import NetworkSettings, PPOSettings
from soulslab.learn.train import train


@pytest.fixture
def learner_and_collector():
    env = make_vector("toys/Corridor-v0", 16, {})
    generator = torch.Generator().manual_seed(0)
    header = PolicyHeader(
        env_id="toys/Corridor-v0",
        env_options={},
        n_features=6,
        n_actions=4,
        network=NetworkSettings(widths=(16,)),
        soulslab="",
        commit="",
    )
    policy = Policy(header, generator)
    settings = PPOSettings(n_steps=8, minibatch_size=32, lr=1e-2, lr_end=1e-3, entropy=0.5, entropy_end=0.1)
    collector = Collector(env, settings.gamma)
    collector.reset(1)
    return PPO(settings, policy, 16, generator), collector


def iterate(learner, collector, progress):
    """Play one rollout and learn from it."""
    learner.collect(collector)
    return learner.update(progress, collector.env_steps)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_learns_the_corridor(corridor, tmp_path, shared, seed):
    settings = msgspec.structs.replace(
        corridor,
        network=NetworkSettings(widths=(32,), shared=shared),
        run=msgspec.structs.replace(corridor.run, seed=seed),
    )
    result = train(settings, tmp_path / "run")
    assert result.win_rate > 0.97
    assert [milestone.win_rate for milestone in result.milestones] == [0.5, 0.8, 0.9]
    evaluation = evaluate(Policy.load(result.policy_path), EvaluationSettings(env_id="toys/Corridor-v0", n_fights=200))
    assert evaluation.win_rate == 1.0
    # A shortest walk takes 4 decisions on average; a jump beyond the end wastes one, which costs next to nothing.
    assert 3.7 < evaluation.mean_decisions < 5.3


def test_learns_the_lights_through_gymnasiums_loop_and_never_pulls_the_masked_lever(corridor, tmp_path):
    settings = msgspec.structs.replace(
        corridor,
        env=msgspec.structs.replace(corridor.env, id="toys/Lights-v0", n_envs=16),
        run=msgspec.structs.replace(corridor.run, total_steps=8000),
    )
    result = train(settings, tmp_path / "run")
    assert result.win_rate is None
    evaluation = evaluate(Policy.load(result.policy_path), EvaluationSettings(env_id="toys/Lights-v0", n_fights=99))
    # A greedy policy that finds every lit lever earns exactly 1; the masked one would pay 10.
    assert evaluation.mean_return == 1.0
    assert evaluation.n_wins is None


def test_schedules_are_linear(learner_and_collector):
    learner, collector = learner_and_collector
    stats = [iterate(learner, collector, progress) for progress in (0.0, 0.5, 1.0)]
    assert [s.lr for s in stats] == pytest.approx([1e-2, 5.5e-3, 1e-3])
    assert [s.entropy_coef for s in stats] == pytest.approx([0.5, 0.3, 0.1])


def test_before_the_first_gradient_step_the_ratio_is_one(learner_and_collector):
    learner, collector = learner_and_collector
    learner._settings = msgspec.structs.replace(learner._settings, minibatch_size=128, n_epochs=1)
    stats = iterate(learner, collector, 0.0)
    assert stats.approx_kl == pytest.approx(0.0, abs=1e-6)
    assert stats.clip_fraction == 0.0


def test_a_small_target_kl_stops_after_the_first_epoch(learner_and_collector):
    learner, collector = learner_and_collector
    learner._settings = msgspec.structs.replace(learner._settings, n_epochs=50, target_kl=1e-6)
    iterate(learner, collector, 0.0)
    n_gradient_steps = learner.state()["adam/0/step"]
    assert n_gradient_steps == 128 // 32


def test_every_minibatch_has_the_same_size_and_every_transition_its_turn(learner_and_collector):
    learner, _ = learner_and_collector
    learner._rollout.log_probs.copy_(torch.arange(128.0).view(8, 16))
    parts = [batch.log_probs for batch in learner._minibatches()]
    assert [len(part) for part in parts] == [32] * 4
    assert torch.cat(parts).sort().values.tolist() == list(range(128))


def test_the_critic_learns_the_value_of_walks_cut_short(learner_and_collector):
    learner, collector = learner_and_collector
    for _ in range(30):
        iterate(learner, collector, 0.0)
    stats = learner.take_stats(seconds=2.0)[-1]
    assert stats.updates_per_second == 15.0
    assert stats.explained_variance > 0.3
    numbers = msgspec.structs.asdict(stats)
    assert numbers.pop("teacher_loss") is None
    assert np.isfinite(list(numbers.values())).all()


@pytest.mark.parametrize(
    ("form", "frame_stack", "least"),
    [pytest.param("hw", 2, 0.9, marks=pytest.mark.long), ("dict", 2, 0.9), ("khw", 1, None)],
)
def test_learns_from_two_frames_where_the_dot_flies_and_cannot_from_one(dot, tmp_path, form, frame_stack, least):
    env = msgspec.structs.replace(dot.env, options={"form": form}, frame_stack=frame_stack)
    result = train(msgspec.structs.replace(dot, env=env), tmp_path / "run")
    policy = Policy.load(result.policy_path)
    assert str(policy.header.pixels) == ("24x24x2" if form == "khw" else "24x24x1")
    evaluation = evaluate(
        policy, EvaluationSettings(env_id="toys/Dot-v0", env_options={"form": form}, n_fights=100, n_envs=10)
    )
    if least is None:
        assert evaluation.mean_return < 0.6
    else:
        assert evaluation.mean_return > least


def test_a_learner_from_pixels_goes_on_bit_for_bit(dot):
    def learner():
        env = make_vector(dot.env.id, 8, {})
        header = PolicyHeader(
            env_id=dot.env.id,
            env_options={},
            n_features=0,
            n_actions=3,
            pixels=sizes(env).pixels,
            frame_stack=2,
            network=dot.network,
            soulslab="",
            commit="",
        )
        generator = torch.Generator().manual_seed(0)
        policy = Policy(header, generator)
        return PPO(dot.learner, policy, 8, generator), Collector(env, 0.9, frame_stack=2), policy

    (first, first_collector, first_policy), (second, second_collector, second_policy) = learner(), learner()
    first_collector.reset(1)
    iterate(first, first_collector, 0.0)
    second.load(first.state())
    second_policy.load_state(first_policy.state())
    for ppo, collector in ((first, first_collector), (second, second_collector)):
        collector.reset(2)
        iterate(ppo, collector, 0.0)
    for name, tensor in first_policy.state().items():
        assert second_policy.state()[name].tobytes() == tensor.tobytes(), name
