import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ConfigError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.learn.environment import make_vector
from soulslab.learn.evaluate import EvaluationSettings, evaluate, quotas
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.settings import NetworkSettings
from soulslab.learn.telemetry import EvaluationProgress
from support.policies import q_policy

SETTINGS = EvaluationSettings(env_id="toys/Corridor-v0", n_fights=500, n_envs=64, deterministic=False)


class Listener:
    def __init__(self):
        self.messages = []

    def write(self, message):
        self.messages.append(message)

    def close(self):
        raise AssertionError("evaluate leaves sinks open")


@pytest.fixture
def policy():
    header = PolicyHeader(
        env_id="toys/Corridor-v0",
        env_options={},
        n_features=6,
        n_actions=4,
        network=NetworkSettings(widths=(8,)),
        soulslab="",
        commit="",
    )
    return Policy(header, torch.Generator().manual_seed(0))


@given(st.integers(1, 5000), st.integers(1, 300))
def test_quotas_add_up_and_are_equal(n_fights, n_envs):
    shares = quotas(n_fights, n_envs)
    assert shares.sum() == n_fights
    assert shares.max() - shares.min() <= 1


def test_an_environment_without_wins_has_no_win_rate():
    policy = q_policy(env_id="toys/Lights-v0", n_features=4, n_actions=4)
    listener = Listener()
    evaluation = evaluate(policy, EvaluationSettings(env_id="toys/Lights-v0", n_fights=4), sinks=[listener])
    assert evaluation.win_rate is None
    assert listener.messages[-1] == EvaluationProgress(n_done=4, n_fights=4, n_wins=None)


def test_plays_exactly_the_fights_asked_for(policy):
    listener = Listener()
    evaluation = evaluate(policy, SETTINGS, sinks=[listener])
    assert evaluation.n_fights == 500
    assert listener.messages[-1] == EvaluationProgress(n_done=500, n_fights=500, n_wins=evaluation.n_wins)
    assert sum(row.n_fights for row in evaluation.by_pose) == 500
    assert sum(row.n_wins for row in evaluation.by_pose) == evaluation.n_wins
    assert [row.name for row in evaluation.by_attack] == ["fall", "boredom"]
    n_lost_or_cut = 500 - evaluation.n_wins
    assert evaluation.by_attack[0].n_kills <= n_lost_or_cut
    assert evaluation.by_attack[0].mean_damage == pytest.approx(10.0 * evaluation.by_attack[0].n_kills / 500)
    assert sum(row.mean_damage for row in evaluation.by_attack) == pytest.approx(evaluation.mean_damage_taken)


def test_the_same_seed_plays_the_same_fights(policy):
    assert evaluate(policy, SETTINGS) == evaluate(policy, SETTINGS)
    other = msgspec.structs.replace(SETTINGS, seed=1)
    assert evaluate(policy, other).mean_return != evaluate(policy, SETTINGS).mean_return


def test_short_fights_are_not_over_represented(policy):
    # One fight per environment has no length bias by construction; many per environment must agree with it.
    many = evaluate(policy, msgspec.structs.replace(SETTINGS, n_fights=8000, n_envs=64))
    single = evaluate(policy, msgspec.structs.replace(SETTINGS, n_fights=8000, n_envs=8000, seed=9))
    assert many.win_rate == pytest.approx(single.win_rate, abs=0.025)
    np.testing.assert_allclose(many.mean_decisions, single.mean_decisions, rtol=0.05)


def test_another_environment_is_refused(policy):
    with pytest.raises(IncompatibleCheckpointError, match="was trained on toys/Corridor-v0"):
        evaluate(policy, msgspec.structs.replace(SETTINGS, env_id="toys/Lights-v0"))


def test_a_function_known_by_name_only_is_asked_for(policy):
    options = {"reward": "<function mine.reward>"}
    with pytest.raises(ConfigError, match="pass it from Python"):
        evaluate(policy, msgspec.structs.replace(SETTINGS, env_options=options))


def test_no_more_games_are_started_than_training_had_unless_asked_for(policy, monkeypatch):
    policy.header = msgspec.structs.replace(policy.header, n_envs=3)
    started = []

    def counted(env_id, n_envs, options):
        started.append(n_envs)
        return make_vector(env_id, n_envs, options)

    monkeypatch.setattr("soulslab.learn.evaluate.make_vector", counted)
    for n_fights, n_envs in ((7, None), (2, None), (7, 5), (4, 5)):
        asked = msgspec.structs.replace(SETTINGS, n_fights=n_fights, n_envs=n_envs)
        assert evaluate(policy, asked).n_fights == n_fights
    assert started == [3, 2, 5, 4]


def test_games_that_do_nothing_but_fail_end_the_evaluation(policy, monkeypatch):
    def make_failing(*arguments):
        env = make_vector(*arguments)
        step = env.step

        def failing(actions):
            *rest, terminated, truncated, info = step(actions)
            failed = terminated | truncated
            if failed.any():
                message = np.where(failed, "its window was closed", None)
                info["final_info"] |= {"_failure": failed, "failure": {"message": message}}
            return *rest, terminated, truncated, info

        env.step = failing
        return env

    monkeypatch.setattr("soulslab.learn.evaluate.make_vector", make_failing)
    with pytest.raises(
        EnvironmentUsageError, match=r"(1[7-9]|2\d) fights in a row.* evaluate again: its window was closed"
    ):
        evaluate(policy, msgspec.structs.replace(SETTINGS, n_fights=5, n_envs=2))


def test_a_fight_that_a_failure_ended_is_fought_again(policy, monkeypatch):
    """Every third end is one of a failed game; the fights that are asked for come to their own end all the same."""
    n_ends = n_failures = 0

    def make_failing(*arguments):
        env = make_vector(*arguments)
        step = env.step

        def failing(actions):
            nonlocal n_ends, n_failures
            *rest, terminated, truncated, info = step(actions)
            failed = np.zeros(env.num_envs, np.bool_)
            for i in np.flatnonzero(terminated | truncated):
                n_ends += 1
                failed[i] = n_ends % 3 == 0
            n_failures += int(failed.sum())
            if failed.any():
                info["final_info"]["_failure"] = failed
            return *rest, terminated, truncated, info

        env.step = failing
        return env

    monkeypatch.setattr("soulslab.learn.evaluate.make_vector", make_failing)
    evaluation = evaluate(policy, msgspec.structs.replace(SETTINGS, n_fights=50, n_envs=4))
    assert evaluation.n_fights == 50
    assert n_failures > 10
    assert n_ends - n_failures >= 50
