"""The actor sends exactly the steps that it took, and nothing of a step with NaN or infinity."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from soulslab.envs.registration import ARENA_ID
from soulslab.errors import NonFiniteError
from soulslab.learn.actors.transition_actor import Actor, step_shape
from soulslab.learn.actors.transport import InProcessTransport, Weights
from soulslab.learn.checkpoint import load_rng, rng_state
from soulslab.learn.environment import make_vector, sizes
from soulslab.learn.inputs import ExtraInputs, Inputs
from soulslab.learn.replay.step_rows import Outcome, row_type
from support.policies import MEMORY, q_policy

CORRIDOR, DOT, LIGHTS = "toys/Corridor-v0", "toys/Dot-v0", "toys/Lights-v0"


@pytest.fixture
def short_walks(monkeypatch):
    """Walks of the corridor that are cut off so soon that many are."""
    monkeypatch.setattr("support.toys.LIMIT", 4)


def open_actor(env_id, n_envs=3, options=None, *, epsilon=0.5, seed=1, wrap=None, has_values=False, **header):
    """Return an actor that has its weights and has been reset, its channel, its policy, and its environment."""
    env = make_vector(env_id, n_envs, options or {})
    _, n_features, n_actions, pixels, _ = sizes(env)
    policy = q_policy(env_id=env_id, n_features=n_features, n_actions=n_actions, pixels=pixels, **header)
    channel = InProcessTransport(row_type(step_shape(policy.header, has_values=has_values)), env.num_envs)
    publish(channel, policy, 1, epsilon)
    env_of_actor = wrap(env) if wrap else env
    actor = Actor(env_of_actor, policy, channel, np.random.default_rng(seed), has_values=has_values)
    actor.reset(seed)
    return actor, channel, policy, env


def publish(channel, policy, version, epsilon, factors=None):
    tensors, factors = policy.weights(), factors or {}
    channel.publish(Weights(version=version, epsilon=epsilon, tensors=tensors, reward_factors=factors))


class Diary:
    """Lives the same life again, one environment and one number at a time, and says what the rows should be."""

    def __init__(self, env_id, n_envs, options, extras, n_actions, seed=1):
        self._env = make_vector(env_id, n_envs, options or {})
        self._extras, self._n_actions = extras, n_actions
        self._obs, self._info = self._env.reset(seed=seed)
        self._actions = [[] for _ in range(n_envs)]
        self._n_decisions = [0] * n_envs
        self._is_first = [True] * n_envs

    def live(self, rows):
        """Take the actions of these rows; return what the step should have left behind, a dict for each row."""
        n_envs = self._env.num_envs
        before = [self._seen(self._obs, i) for i in range(n_envs)]
        masks = self._masks(self._info)
        is_first, self._is_first = self._is_first, [False] * n_envs
        actions = rows["action"][:n_envs].astype(np.int64)
        # Buffers that the environment overwrites were read above.
        self._obs, rewards, terminated, truncated, self._info = self._env.step(actions)
        steps, finals = [], []
        for i in range(n_envs):
            taken = self._taken(i)
            self._actions[i].insert(0, int(actions[i]))
            self._n_decisions[i] += taken
            outcome = Outcome.GOES_ON
            if terminated[i]:
                outcome = Outcome.TERMINATED
            elif truncated[i]:
                outcome = Outcome.TRUNCATED
                final = self._seen(self._info["final_obs"], i)
                finals.append({**final, "stream": i, "outcome": Outcome.FINAL, "blocked": self._final_blocked(i)})
            steps.append(
                {
                    **before[i],
                    "reward": rewards[i],
                    "action": actions[i],
                    "n_decisions": taken,
                    "stream": i,
                    "outcome": outcome,
                    "is_first": is_first[i],
                    "blocked": ~masks[i],
                }
            )
            if terminated[i] or truncated[i]:
                self._actions[i], self._n_decisions[i], self._is_first[i] = [], 0, True
        return steps + finals

    def _seen(self, obs, i):
        """Return what is seen in environment i: features with extra inputs, and a frame if there is one."""
        parts = obs
        if not isinstance(obs, dict):
            parts = obs[i] if isinstance(obs[i], dict) else {"": obs[i]}
        else:
            parts = {name: part[i] for name, part in obs.items()}
        flat = [np.ravel(part) for part in parts.values() if np.ndim(part) < 2]
        frames = [part for part in parts.values() if np.ndim(part) >= 2]
        features = np.concatenate([*flat, self._extra(i)])
        return {"features": features.copy(), **({"pixels": frames[0].reshape(24, 24, 1).copy()} if frames else {})}

    def _extra(self, i):
        extra = np.zeros(self._extras.previous_actions * self._n_actions)
        for age, action in enumerate(self._actions[i][: self._extras.previous_actions]):
            extra[age * self._n_actions + action] = 1.0
        if not self._extras.time_left_decisions:
            return extra
        return np.append(extra, max(0.0, 1.0 - self._n_decisions[i] / self._extras.time_left_decisions))

    def _taken(self, i):
        final = self._info.get("final_info", {})
        if "n_decisions" in final and final["_n_decisions"][i]:
            return int(final["n_decisions"][i])
        return int(self._info["n_decisions"][i]) if "n_decisions" in self._info else 1

    def _final_blocked(self, i):
        final = self._info.get("final_info", {})
        return ~final["action_mask"][i] if "action_mask" in final else np.zeros(self._n_actions, np.bool_)

    def _masks(self, info):
        if "action_mask" in info:
            return np.array(info["action_mask"])
        return np.ones((self._env.num_envs, self._n_actions), np.bool_)


def assert_row(row, expected, n_actions):
    """Assert that a row says what it should, and nothing beside it."""
    blocked = np.unpackbits(row["blocked"])[:n_actions].astype(np.bool_)
    np.testing.assert_array_equal(blocked, expected.pop("blocked"))
    np.testing.assert_allclose(row["features"], expected.pop("features"), rtol=1e-6, atol=1e-7)
    if "pixels" in expected:
        np.testing.assert_array_equal(row["pixels"], expected.pop("pixels"))
    for name in ("reward", "action", "n_decisions", "stream", "outcome", "is_first"):
        assert row[name] == np.float32(expected.get(name, 0)), name


@pytest.mark.parametrize(
    ("env_id", "n_envs", "options", "header"),
    [
        (CORRIDOR, 5, {}, {}),
        (CORRIDOR, 5, {}, {"extras": MEMORY}),
        (CORRIDOR, 3, {}, {"extras": ExtraInputs(time_left_decisions=4)}),
        (LIGHTS, 3, {}, {"extras": ExtraInputs(previous_actions=1)}),
        (DOT, 3, {}, {"frame_stack": 3}),
        (DOT, 2, {"form": "dict"}, {"frame_stack": 2, "extras": MEMORY}),
        (ARENA_ID, 4, {"skip_locked": True, "random_pose": True}, {"extras": MEMORY}),
    ],
    ids=["corridor", "extras", "time", "lights", "pixels", "both", "arena"],
)
@pytest.mark.usefixtures("short_walks")
def test_rows_equal_the_episodes(env_id, n_envs, options, header):
    actor, channel, policy, env = open_actor(env_id, n_envs, options, **header)
    n_actions = policy.header.n_actions
    diary = Diary(env_id, n_envs, options, policy.header.extras, n_actions)
    seen, n_decisions = set(), 0
    for _ in range(150):
        n_decisions += actor.step()
        rows = channel.take()
        expected = diary.live(rows)
        assert len(rows) == len(expected)
        for row, wanted in zip(rows, expected, strict=True):
            assert_row(row, wanted, n_actions)
        seen |= set(rows["outcome"].tolist())
    assert actor.env_steps == n_decisions
    if env_id != LIGHTS:
        assert Outcome.GOES_ON in seen
    if env_id in (CORRIDOR, LIGHTS):
        assert Outcome.TERMINATED in seen
    if env_id in (CORRIDOR, DOT):
        assert {Outcome.TRUNCATED, Outcome.FINAL} <= seen
    env.close()


# --- who acts -----------------------------------------------------------------------------------------------


def test_without_epsilon_the_best_open_action_is_taken():
    actor, channel, policy, _ = open_actor(CORRIDOR, 16, epsilon=0.0, extras=MEMORY)
    for _ in range(50):
        actor.step()
    rows = channel.take()
    rows = rows[rows["outcome"] != Outcome.FINAL]
    mask = ~np.unpackbits(rows["blocked"], axis=1)[:, :4].astype(np.bool_)
    np.testing.assert_array_equal(policy.act(rows["features"], mask), rows["action"])


def test_random_actions_are_open_and_equally_likely():
    actor, channel, _, _ = open_actor(LIGHTS, 50, epsilon=1.0)
    for _ in range(600):
        actor.step()
    counts = np.bincount(channel.take()["action"], minlength=4)
    assert counts[3] == 0
    np.testing.assert_allclose(counts[:3] / counts.sum(), 1 / 3, atol=0.01)


class Whims(VectorEnv):
    """Forbids other actions at each step, and counts those that were taken all the same."""

    def __init__(self, n_envs, n_actions):
        self.num_envs, self.n_actions = n_envs, n_actions
        self.single_observation_space, self.single_action_space = Box(-9.0, 9.0, (6,), np.float32), Discrete(n_actions)
        self.observation_space = batch_space(self.single_observation_space, n_envs)
        self.action_space = batch_space(self.single_action_space, n_envs)
        self._rng = np.random.default_rng(0)
        self.n_taken = np.zeros(n_actions, np.int64)
        self.n_forbidden = 0

    def reset(self, **_arguments):
        return self._look()

    def step(self, actions):
        self.n_forbidden += np.count_nonzero(~self._mask[np.arange(self.num_envs), actions])
        self.n_taken += np.bincount(actions, minlength=self.n_actions)
        obs, info = self._look()
        return obs, np.zeros(self.num_envs), *np.zeros((2, self.num_envs), np.bool_), info

    def _look(self):
        share = self._rng.random((self.num_envs, 1))  # from all open to one alone
        self._mask = self._rng.random((self.num_envs, self.n_actions)) < share
        self._mask[np.arange(self.num_envs), self._rng.integers(self.n_actions, size=self.num_envs)] = True
        obs = self._rng.normal(size=(self.num_envs, 6)).astype(np.float32)
        return obs, {"action_mask": self._mask.copy()}


def test_no_mask_is_violated_in_a_million_steps():
    env = Whims(10_000, 5)
    policy = q_policy(n_actions=5)
    channel = InProcessTransport(row_type(step_shape(policy.header)), env.num_envs)
    publish(channel, policy, 1, 0.3)
    actor = Actor(env, policy, channel, np.random.default_rng(0))
    actor.reset(0)
    for _ in range(100):
        actor.step()
        channel.take()
    assert env.n_forbidden == 0
    assert env.n_taken.sum() == 1_000_000
    assert env.n_taken.min() > 10_000


def test_epsilon_is_the_share_of_random_actions():
    actor, channel, policy, _ = open_actor(LIGHTS, 50, epsilon=0.3)
    for _ in range(600):
        actor.step()
    rows = channel.take()
    best = policy.act(rows["features"], np.tile([True, True, True, False], (len(rows), 1)))
    assert (rows["action"] == best).mean() == pytest.approx(0.7 + 0.3 / 3, abs=0.01)


def test_the_newest_weights_act_and_results_have_their_version():
    actor, channel, policy, _ = open_actor(LIGHTS, 2, epsilon=0.0)
    assert actor.weights_version == -1
    actor.step()
    assert actor.weights_version == 1
    assert [result.weights_version for result in channel.take_episodes()] == [1, 1]
    learned = q_policy(5, env_id=LIGHTS, n_features=4, n_actions=4)
    publish(channel, learned, 7, 0.0)
    actor.step()
    assert actor.weights_version == 7
    assert [result.weights_version for result in channel.take_episodes()] == [7, 7]
    np.testing.assert_array_equal(policy.weights()["parameters"], learned.weights()["parameters"])
    publish(channel, q_policy(6, env_id=LIGHTS, n_features=4, n_actions=4), 7, 0.0)  # no newer than what it has
    actor.step()
    np.testing.assert_array_equal(policy.weights()["parameters"], learned.weights()["parameters"])


def test_it_acts_at_random_before_there_are_weights():
    env = make_vector(LIGHTS, 50, {})
    policy = q_policy(env_id=LIGHTS, n_features=4, n_actions=4)
    channel = InProcessTransport(row_type(step_shape(policy.header)), env.num_envs)
    actor = Actor(env, policy, channel, np.random.default_rng(0))
    actor.reset(0)
    for _ in range(20):
        actor.step()
    assert set(channel.take()["action"].tolist()) == {0, 1, 2}


@pytest.mark.parametrize("n_envs", [1, 4])
def test_rows_hold_the_values_with_which_actions_were_chosen(n_envs):
    actor, channel, policy, _ = open_actor(LIGHTS, n_envs, epsilon=0.3, has_values=True)
    for _ in range(400):
        actor.step()
    rows = channel.take()
    valued = rows[rows["is_valued"] == 1]
    values = policy.values(Inputs(valued["features"])).numpy()
    np.testing.assert_allclose(valued["action_value"], values[np.arange(len(values)), valued["action"]], rtol=1e-5)
    np.testing.assert_allclose(valued["best_value"], values[:, :3].max(axis=1), rtol=1e-5)  # the last one is forbidden
    # Without a chosen action, nothing is computed for values alone.
    assert 1.0 - len(valued) / len(rows) == pytest.approx(0.3**n_envs, abs=0.06)
    assert not rows["best_value"][rows["is_valued"] == 0].any()


@pytest.mark.parametrize("env_id", [ARENA_ID, "support.slow_arena:SlowArena-v0"])
def test_changed_weights_of_the_reward_apply_from_the_next_episode_on(env_id, monkeypatch):
    monkeypatch.setattr("support.slow_arena.STEP_S", 0.0)
    weights = {"boss_damage": 3.0, "player_damage": -2.0, "time": -0.125}
    changed = {**weights, "player_damage": 0.0, "time": 0.5}
    lives = []
    for reward in (weights, changed, weights):
        options = {"phase": "1", "skip_locked": True, "reward": reward}
        actor, channel, policy, env = open_actor(env_id, 2, options, epsilon=1.0)
        for i in range(300):
            if i == 100 and len(lives) == 2:
                publish(channel, policy, 2, 1.0, {"player_damage": 0.0, "time": -4.0, "unknown": 2.0})
            actor.step()
        lives.append((channel.take(), channel.take_episodes()))
        env.close()
    (before, _), (after, after_results), (both, results) = lives
    episode = np.zeros(2, np.int64)
    for i, row in enumerate(both):
        stream = row["stream"]
        if row["is_first"]:
            episode[stream] = i >= 200
        expected = after if episode[stream] else before
        assert row["reward"] == pytest.approx(expected["reward"][i], abs=1e-6)
    assert episode.all()
    assert (before["reward"] != after["reward"]).any()
    # The results of the last episodes are those of the other weights, with their terms.
    assert results[-1].total_reward == pytest.approx(after_results[-1].total_reward)
    assert results[-1].reward_terms == pytest.approx(after_results[-1].reward_terms)
    assert results[0].weights_version == 1 and results[-1].weights_version == 2


@pytest.mark.parametrize(("env_id", "options"), [(CORRIDOR, {}), (ARENA_ID, {"phase": "1", "skip_locked": True})])
def test_results_are_the_sums_of_the_rows(env_id, options):
    actor, channel, _, env = open_actor(env_id, 4, options)
    for _ in range(400):
        actor.step()
    rows, results = channel.take(), channel.take_episodes()
    assert results
    found = []
    for stream in range(4):
        own = rows[(rows["stream"] == stream) & (rows["outcome"] != Outcome.FINAL)]
        begins = np.flatnonzero(own["is_first"])
        for begin, end in zip(begins, [*begins[1:], None], strict=True):
            episode = own[begin:end]
            if episode["outcome"][-1] != Outcome.GOES_ON:
                found.append((len(episode), int(episode["n_decisions"].sum()), float(episode["reward"].sum())))
    told = [(result.n_steps, result.n_decisions, result.total_reward) for result in results]
    assert sorted(each[:2] for each in told) == sorted(each[:2] for each in found)
    assert sum(each[2] for each in told) == pytest.approx(sum(each[2] for each in found), abs=1e-3)
    assert all(sum(result.actions) == result.n_steps for result in results)
    env.close()


# --- going on -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [{}, {"extras": MEMORY}])
def test_what_is_loaded_goes_on_as_what_was_saved(header):
    actor, channel, _, env = open_actor(CORRIDOR, 4, **header)
    rng = np.random.default_rng(1)
    other_env = make_vector(CORRIDOR, 4, {})
    other_policy = q_policy(**header)
    other_channel = InProcessTransport(row_type(step_shape(other_policy.header)), other_env.num_envs)
    publish(other_channel, other_policy, 1, 0.5)
    other = Actor(other_env, other_policy, other_channel, rng)
    for _ in range(33):
        actor.step()
    channel.take()
    channel.take_episodes()
    other.reset(99)
    other.load(actor.state())
    other_env.unwrapped.set_state(env.unwrapped.get_state())
    load_rng(rng, rng_state(actor._rng))
    for _ in range(33):
        actor.step()
        other.step()
    assert other.env_steps == actor.env_steps
    np.testing.assert_array_equal(other_channel.take(), channel.take())
    assert other_channel.take_episodes() == channel.take_episodes()


def test_a_reset_forgets_the_running_episodes():
    actor, channel, _, _ = open_actor(CORRIDOR, 4, epsilon=1.0)
    actor.step()
    channel.take()
    actor.reset(5)
    actor.step()
    assert channel.take()["is_first"].all()
    while not (results := channel.take_episodes()):
        actor.step()
    assert results[0].n_steps <= 20


# --- what cannot be trusted ---------------------------------------------------------------------------------


class Poisoned(VectorWrapper):
    """Gives NaN at one step: in the observation of environment 1, or in that in which an episode was cut off."""

    def __init__(self, env, what, at):
        super().__init__(env)
        self._what, self._at, self._n = what, at, 0

    def step(self, actions):
        obs, rewards, terminated, truncated, info = super().step(actions)
        self._n += 1
        if self._n >= self._at:
            if self._what == "observation":
                obs = np.array(obs)
                obs[1, 3] = np.inf
            elif truncated.any():
                info["final_obs"][int(np.flatnonzero(truncated)[0])][0] = np.nan
        return obs, rewards, terminated, truncated, info


def assert_nothing_of_the_bad_step(actor, channel, n_envs, message):
    """Step until an error comes; assert that all steps before were handed over, and none of that one."""
    n_steps = n_rows = n_decisions = 0
    with pytest.raises(NonFiniteError, match=message) as caught:
        while n_steps < 1000:
            n_decisions += actor.step()
            rows = channel.take()
            channel.take_episodes()
            n_rows += int((rows["outcome"] != Outcome.FINAL).sum())
            n_steps += 1
    assert n_rows == n_steps * n_envs > 0
    assert actor.env_steps == n_decisions
    assert len(channel.take()) == 0
    assert channel.take_episodes() == []
    return caught.value


def test_a_reward_that_is_nan_is_refused():
    actor, channel, _, _ = open_actor(CORRIDOR, 4, {"nan_at": 5})
    error = assert_nothing_of_the_bad_step(actor, channel, 4, "reward.*nan")
    assert (error.what, error.env_index) == ("reward", 2)


def test_an_observation_that_is_infinite_is_refused():
    actor, channel, _, _ = open_actor(CORRIDOR, 4, wrap=lambda env: Poisoned(env, "observation", 6))
    error = assert_nothing_of_the_bad_step(actor, channel, 4, "observation.*inf")
    assert (error.what, error.env_index) == ("observation", 1)


@pytest.mark.usefixtures("short_walks")
def test_a_last_observation_that_is_nan_is_refused():
    actor, channel, _, _ = open_actor(CORRIDOR, 4, wrap=lambda env: Poisoned(env, "final", 3))
    error = assert_nothing_of_the_bad_step(actor, channel, 4, "observation.*nan")
    assert error.step == 4


def test_a_first_observation_that_is_nan_is_refused():
    class Born(VectorWrapper):
        def reset(self, **arguments):
            obs, info = super().reset(**arguments)
            obs[0, 0] = np.nan
            return obs, info

    with pytest.raises(NonFiniteError, match="observation"):
        open_actor(CORRIDOR, 2, wrap=Born)
