"""What the training loop does in the same way for every algorithm."""

import msgspec
import numpy as np
import pytest

from soulslab.errors import ConfigError, IncompatibleCheckpointError
from soulslab.learn import training_loop
from soulslab.learn.archive import read_archive
from soulslab.learn.environment import make_vector
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.evaluated_fights import N_FIGHTS, read_evaluated_fights
from soulslab.learn.players import load_player
from soulslab.learn.rainbow.local_actor import LocalActor
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import (
    QLearningSettings,
    QNetworkSettings,
    RainbowRunSettings,
    RainbowSettings,
)
from soulslab.learn.run_folder import BEST_POLICY_NAME, StopReason
from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, RunSettings, TrainSettings
from soulslab.learn.telemetry import CheckpointSaved, Evaluated, FightStats, LearningStats
from soulslab.learn.train import train
from soulslab.learn.training_loop import FinishedEvaluation
from soulslab.testing.paced_env import PACED_ID

LIMITS = {"total_steps": 2400, "seed": 3, "evaluate_every": 400, "evaluate_fights": 20, "evaluate_envs": 20}
PPO = TrainSettings(
    env=EnvSettings(id="toys/Corridor-v0", n_envs=16),
    learner=PPOSettings(n_steps=8, minibatch_size=64, lr=3e-3),
    network=NetworkSettings(widths=(16,)),
    run=RunSettings(**LIMITS),
)
RAINBOW = RainbowSettings(
    env=EnvSettings(id="toys/Corridor-v0", n_envs=4),
    learner=QLearningSettings(batch_size=32, updates_per_step=0.5, learning_starts=100, lr=3e-3, gamma=0.9),
    network=QNetworkSettings(widths=(16,), n_quantiles=4),
    run=RainbowRunSettings(**LIMITS),
)


@pytest.fixture(params=[PPO, RAINBOW], ids=["ppo", "rainbow"])
def settings(request):
    return request.param


def with_run(settings, **changes):
    return msgspec.structs.replace(settings, run=msgspec.structs.replace(settings.run, **changes))


class Listener:
    def __init__(self):
        self.messages = []

    def write(self, message):
        self.messages.append(message)

    def close(self):
        pass

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]


def win_rate(path):
    """The win rate of a policy in the fights of the run's own evaluations."""
    played = EvaluationSettings(env_id="toys/Corridor-v0", n_fights=20, n_envs=20, seed=3)
    return evaluate(load_player(path), played).win_rate


def test_a_run_evaluates_and_records_some_fights(settings, tmp_path):
    listener = Listener()
    result = train(settings, tmp_path / "run", sinks=[listener])
    evaluations = listener.of(Evaluated)
    assert [each.env_steps // 400 for each in evaluations] == sorted({each.env_steps // 400 for each in evaluations})
    assert len(evaluations) >= 4
    assert win_rate(tmp_path / "run" / BEST_POLICY_NAME) == max(each.win_rate for each in evaluations)
    assert result.win_rate == evaluations[-1].win_rate
    # The first fights of each evaluation are recorded.
    fights = read_evaluated_fights(tmp_path / "run")
    assert [fight.env_steps for fight in fights] == [each.env_steps for each in evaluations for _ in range(N_FIGHTS)]
    assert len({fight.seed for fight in fights}) == N_FIGHTS
    assert all(fight.actions for fight in fights)


class FixedWinRates:
    """Evaluations whose win rates are given, so that no test depends on how well a run learns.

    Attributes:
        weights: Copies of the tensors of the evaluated policies.
    """

    def __init__(self, monkeypatch, rates):
        self.weights = []
        self._rates = iter(rates)
        monkeypatch.setattr(training_loop, "evaluate", self)

    def __call__(self, policy, settings, **others):
        self.weights.append(policy.state())
        return msgspec.structs.replace(evaluate(policy, settings, **others), win_rate=next(self._rates))


def has_weights(path, expected):
    found = load_player(path).state()
    assert found.keys() == expected.keys()
    return all(np.array_equal(found[name], array) for name, array in expected.items())


def test_a_run_keeps_the_newest_policy_with_the_highest_win_rate(settings, tmp_path, monkeypatch):
    rates = [0.25, 0.75, 0.75, 0.5, 0.0, 0.25]
    listener, fixed = Listener(), FixedWinRates(monkeypatch, rates)
    train(settings, tmp_path / "run", sinks=[listener])
    evaluations = listener.of(Evaluated)
    assert [each.win_rate for each in evaluations] == rates
    best = tmp_path / "run" / BEST_POLICY_NAME
    assert load_player(best).header.env_steps == evaluations[2].env_steps
    assert [has_weights(best, weights) for weights in fixed.weights] == [False, False, True, False, False, False]


def test_a_worse_policy_does_not_replace_the_best_one_after_a_resume(settings, tmp_path, monkeypatch):
    run, listener = tmp_path / "run", Listener()
    fixed = FixedWinRates(monkeypatch, [0.25, 0.75, 0.5, 0.0, 0.5, 0.75])
    train(with_run(settings, total_steps=1600), run, sinks=[listener])
    # The header of the checkpoint holds the win rate of the best policy.
    _, header = read_archive(sorted((run / "checkpoints").iterdir())[-1])
    assert header["best_win_rate"] == 0.75
    for total_steps, is_best in ((2000, [0, 1, 0, 0, 0]), (2400, [0, 0, 0, 0, 0, 1])):
        train(with_run(settings, total_steps=total_steps), run, resume=True, sinks=[listener])
        assert [has_weights(run / BEST_POLICY_NAME, weights) for weights in fixed.weights] == is_best
    assert load_player(run / BEST_POLICY_NAME).header.env_steps == listener.of(Evaluated)[-1].env_steps


def test_a_run_without_evaluations_keeps_no_best_policy(settings, tmp_path):
    train(with_run(settings, total_steps=200, evaluate_every=0), tmp_path / "run")
    assert not (tmp_path / "run" / BEST_POLICY_NAME).exists()


def test_the_moving_average_does_not_end_a_run_before_its_first_evaluation(tmp_path):
    listener = Listener()
    settings = with_run(RAINBOW, total_steps=2400, evaluate_every=2000, stop_win_rate=0.0)
    result = train(settings, tmp_path / "run", sinks=[listener])
    assert result.reason is StopReason.WIN_RATE
    assert [each.env_steps // 1000 for each in listener.of(Evaluated)] == [2]


def test_an_evaluated_win_rate_ends_the_run(settings, tmp_path):
    result = train(with_run(settings, total_steps=20_000, stop_win_rate=0.6), tmp_path / "run")
    assert result.reason is StopReason.WIN_RATE
    assert result.win_rate > 0.6


def test_a_run_starts_from_the_weights_of_another_run(settings, tmp_path):
    train(with_run(settings, evaluate_every=0), tmp_path / "first")
    before = load_player(tmp_path / "first").state()
    listener = Listener()
    second = with_run(settings, start_from=str(tmp_path / "first"), max_seconds=1e-9)
    assert train(second, tmp_path / "second", sinks=[listener]).reason is StopReason.TIME
    assert listener.of(CheckpointSaved)
    after = load_player(tmp_path / "second").state()
    assert after.keys() == before.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)


def test_a_run_does_not_start_from_a_policy_with_other_layers(settings, tmp_path):
    train(with_run(settings, total_steps=200, evaluate_every=0), tmp_path / "first")
    network = msgspec.structs.replace(settings.network, widths=(8,))
    other = with_run(msgspec.structs.replace(settings, network=network), start_from=str(tmp_path / "first"))
    with pytest.raises(IncompatibleCheckpointError, match=r"has network.widths = \(16,\), but this run has \(8,\)"):
        train(other, tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_a_run_does_not_start_from_a_policy_of_another_algorithm(tmp_path):
    train(with_run(PPO, total_steps=200, evaluate_every=0), tmp_path / "first")
    with pytest.raises(IncompatibleCheckpointError, match="is not a policy of the format 'soulslab-action-values'"):
        train(with_run(RAINBOW, start_from=str(tmp_path / "first")), tmp_path / "second")


class Operator:
    """The control of a run that learns from its own environments, as a fleet does from games."""

    def __init__(self, changes):
        self.changes = changes

    def open_actor(self, folder, header):
        env = make_vector(folder.settings.env.id, folder.settings.env.n_envs, folder.settings.env.options)
        return LocalActor(env, QPolicy(header), folder.settings.run.seed)

    def is_stop_requested(self):
        return False

    def takes_save_request(self):
        return False

    def changed_settings(self):
        return self.changes

    def take_evaluation(self, algorithm):
        del algorithm


class EvaluatingOperator(Operator):
    """Its games complete evaluations with given win rates, each when the run has taken 100 decisions more.

    Attributes:
        candidates: Copies of the evaluated policies.
    """

    def __init__(self, rates):
        super().__init__({})
        self.candidates = []
        self._rates = iter(rates)

    def take_evaluation(self, algorithm):
        if self.candidates and algorithm.env_steps < self.candidates[-1].header.env_steps + 100:
            return None
        last = self.candidates[-1] if self.candidates else None
        algorithm.policy_header()
        with algorithm.best_estimate() as policy:
            self.candidates.append(policy.copy())
        if last is None:
            return None
        known = {"n_fights": 1, "mean_return": 0.0, "low": 0.0, "high": 1.0}
        result = Evaluated(env_steps=last.header.env_steps, win_rate=next(self._rates), **known)
        return FinishedEvaluation(result, last)


def test_a_run_keeps_the_best_policy_that_games_have_evaluated(tmp_path):
    rates = [0.25, 0.75, 0.75, 0.5, 0.0]
    listener, operator = Listener(), EvaluatingOperator([*rates, *[0.0] * 20])
    train(with_run(RAINBOW, total_steps=1000, evaluate_every=0), tmp_path / "run", sinks=[listener], fleet=operator)
    assert [each.win_rate for each in listener.of(Evaluated)][:5] == rates
    best = tmp_path / "run" / BEST_POLICY_NAME
    assert load_player(best).header.env_steps == operator.candidates[2].header.env_steps
    assert [has_weights(best, each.state()) for each in operator.candidates[1:4]] == [False, True, False]


def test_settings_that_changed_while_a_run_trained_are_kept_by_a_resumed_run(tmp_path):
    folder, settings = tmp_path / "run", with_run(RAINBOW, total_steps=400, evaluate_every=0)
    train(settings, folder, fleet=Operator({"learner.lr": 1e-5}))
    listener = Listener()
    resumed = with_run(settings, total_steps=800)
    train(resumed, folder, resume=True, sinks=[listener])
    assert {each.lr for each in listener.of(LearningStats)} == {1e-5}
    # A later order counts more.
    listener = Listener()
    train(
        with_run(settings, total_steps=1200),
        folder,
        resume=True,
        sinks=[listener],
        fleet=Operator({"learner.lr": 1e-3}),
    )
    assert listener.of(LearningStats)[-1].lr == 1e-3


def test_changed_weights_of_the_reward_apply_to_evaluations_and_to_a_resumed_run(tmp_path):
    options = {"step_s": 1e-6, "n_steps": 5, "n_features": 4, "n_actions": 3, "reward": {"first": 0.0, "step": 0.5}}
    env = EnvSettings(id=f"soulslab.testing.paced_env:{PACED_ID}", n_envs=1, options=options)
    settings = with_run(msgspec.structs.replace(RAINBOW, env=env), total_steps=300, evaluate_every=100)
    folder, listener = tmp_path / "run", Listener()
    operator = Operator({"env.options.reward.step": -4.0})
    train(settings, folder, sinks=[listener], fleet=operator)
    assert [each.mean_return for each in listener.of(Evaluated)] == [-20.0] * 3
    # Until the first weights, after 100 steps, the actor does not know the change: the first episodes had 2.5.
    fights = listener.of(FightStats)
    total = sum(each.n_fights * each.reward_terms["step"] for each in fights)
    assert -20.0 < total / sum(each.n_fights for each in fights) < 0.0
    resumed = with_run(settings, total_steps=500)
    listener = Listener()
    result = train(resumed, folder, resume=True, sinks=[listener])
    assert {each.mean_return for each in listener.of(Evaluated)} == {-20.0}
    assert listener.of(FightStats)[-1].reward_terms["step"] == -20.0
    assert result.mean_return < -14.0
    with pytest.raises(ConfigError, match=r"run\.actor: cannot be 'apart'"):
        train(with_run(resumed, actor="apart"), folder, resume=True)


def test_a_setting_that_cannot_change_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot change while a run trains"):
        train(with_run(RAINBOW, total_steps=400), tmp_path / "run", fleet=Operator({"learner.gamma": 0.5}))
