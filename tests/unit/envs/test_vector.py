"""The arena vector environment: the semantics of Gymnasium, exact continuation, and errors."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from soulslab.arena.boss_file import boss_names
from soulslab.envs.arena import ArenaEnv, ArenaVectorEnv
from soulslab.errors import EnvironmentUsageError, InvalidActionError, NotResetError
from support.players import scripts

N = 5
MODES = list(AutoresetMode)


def thrift(step):
    """A reward function: damage to the boss, and remaining health of the player."""
    return (step.before["boss_hp"] - step.after["boss_hp"]) + step.after["player_hp"] / 1000


def both(mode, n=N, **options):
    """Return the arena vector environment, and Gymnasium's vector of single environments."""
    slow = SyncVectorEnv([lambda: ArenaEnv(**options)] * n, autoreset_mode=mode)
    return ArenaVectorEnv(num_envs=n, autoreset_mode=mode, **options), slow


def assert_same_observations(fast, slow):
    if isinstance(slow, dict):
        assert set(fast) == set(slow)
        for key, values in slow.items():
            assert fast[key].dtype == values.dtype, key
            assert np.array_equal(fast[key], values), key
    else:
        assert fast.dtype == slow.dtype
        assert np.array_equal(fast, slow)


def assert_info_holds(fast, slow):
    """Check that the info has all values of Gymnasium's info."""
    for key, values in slow.items():
        if key.startswith("_"):
            continue
        has = slow["_" + key]
        assert fast["_" + key][has].all(), key
        if key == "final_obs":
            for i in np.flatnonzero(has):
                space_like = values[i]
                assert_same_observations(fast[key][i], space_like)
            assert all(fast[key][i] is None for i in np.flatnonzero(~has))
        elif isinstance(values, dict):
            assert_info_holds(fast[key], values)
        else:
            assert np.array_equal(fast[key][has], np.array(values[has].tolist())), key


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options",
    [
        {"boss": "judge"},
        {"boss": "trickster", "observation": "dict", "random_pose": True, "phase": "2"},
        {"boss": "frost_beast", "skip_locked": True, "reward": thrift, "random_pose": True},
        {"boss": "trickster", "observation": "relative", "random_pose": True},
        {"boss": "generated:2-5", "observation": "relative", "random_pose": True, "skip_locked": True},
        {"boss": "trickster", "skip_locked": True, "max_episode_steps": 20},
        {"boss": "trickster", "observation": "boxes", "phase": "2"},
        {"boss": "judge", "late_share": 0.5, "max_episode_steps": 7},
        {"boss": "judge", "late_share": 0.5, "position_noise_m": 1.0, "observation": "dict", "skip_locked": True},
        {"boss": "judge", "skip_locked": True, "reward": {"win": 1.0, "time": -0.01, "hit_streak": 0.1}},
    ],
    ids=lambda options: "-".join(str(getattr(value, "__name__", value)) for value in options.values()),
)
def test_the_same_as_gymnasium_s_own_vector_of_single_fights(mode, options):
    fast, slow = both(mode, **options)
    first, second = fast.reset(seed=11), slow.reset(seed=11)
    assert_same_observations(first[0], second[0])
    assert_info_holds(first[1], second[1])
    n_ended = 0
    for actions in scripts(range(N), 400):
        one, other = fast.step(actions), slow.step(actions)
        assert_same_observations(one[0], other[0])
        for fast_values, slow_values in zip(one[1:4], other[1:4], strict=True):
            assert fast_values.dtype == slow_values.dtype
            assert np.array_equal(fast_values, slow_values)
        assert set(other[4]) <= set(one[4])
        fast_final, slow_final = (step[4].pop("final_info", None) for step in (one, other))
        if slow_final is not None:  # for a fight that ended, ours has the last step, Gymnasium's the reset
            for name in ("n_decisions", "n_masked"):
                other[4]["_" + name] &= ~(one[2] | one[3])
            del other[4]["reward_terms"]
        assert_info_holds(one[4], other[4])
        if slow_final is not None:
            assert set(slow_final) <= set(fast_final)
            assert_info_holds(fast_final, slow_final)
        over = one[2] | one[3]
        n_ended += int(over.sum())
        np.testing.assert_array_equal(
            one[4].get("_final_obs", np.zeros(N, bool)), over & (mode is AutoresetMode.SAME_STEP)
        )
        if mode is AutoresetMode.DISABLED and over.any():
            first, second = (env.reset(options={"reset_mask": over.copy()}) for env in (fast, slow))
            assert_same_observations(first[0], second[0])
            np.testing.assert_array_equal(first[1]["_action_mask"], second[1]["_action_mask"])
    assert n_ended >= 10


@pytest.mark.parametrize("boss", boss_names())
def test_fight_i_is_the_single_fight_seeded_with_seed_plus_i(boss):
    envs = ArenaVectorEnv(num_envs=4, boss=boss, random_pose=True)
    obs, _ = envs.reset(seed=40)
    for i in range(4):
        np.testing.assert_array_equal(ArenaEnv(boss=boss, random_pose=True).reset(seed=40 + i)[0], obs[i])


def test_a_list_of_seeds():
    envs = ArenaVectorEnv(num_envs=3, random_pose=True)
    listed, _ = envs.reset(seed=[7, 8, 9])
    np.testing.assert_array_equal(listed, ArenaVectorEnv(num_envs=3, random_pose=True).reset(seed=7)[0])
    some, _ = envs.reset(seed=[7, None, 9])
    assert [np.array_equal(a, b) for a, b in zip(some, listed, strict=True)] == [True, False, True]


def test_a_reset_mask_resets_some_fights_only():
    envs = ArenaVectorEnv(num_envs=3, autoreset_mode="disabled")
    envs.reset(seed=0)
    for actions in scripts(range(3), 10):
        obs, *_ = envs.step(actions)
    mask = np.array([False, True, False])
    after, info = envs.reset(seed=5, options={"reset_mask": mask})
    assert [np.array_equal(a, b) for a, b in zip(after, obs, strict=True)] == [True, False, True]
    np.testing.assert_array_equal(info["_action_mask"], mask)
    np.testing.assert_array_equal(after[1], ArenaEnv().reset(seed=6)[0])


# --- copies -------------------------------------------------------------------------------------------------


def test_copies_are_kept_and_buffers_are_overwritten():
    copying, buffered = ArenaVectorEnv(num_envs=2), ArenaVectorEnv(num_envs=2, copy=False)
    for env, is_buffer in ((copying, False), (buffered, True)):
        env.reset(seed=0)
        obs, reward, _, _, info = env.step(np.array([16, 0]))
        later_obs, _, _, _, later = env.step(np.array([0, 16]))
        assert np.shares_memory(obs, later_obs) == is_buffer
        assert np.shares_memory(info["action_mask"], later["action_mask"]) == is_buffer
        assert np.shares_memory(info["n_decisions"], later["n_decisions"]) == is_buffer
        assert reward.dtype == np.float64


@pytest.mark.parametrize("observation", ["features", "relative", "dict"])
def test_fights_with_and_without_copies_are_equal(observation):
    envs = [
        ArenaVectorEnv(num_envs=3, autoreset_mode="same_step", copy=copy, observation=observation)
        for copy in (True, False)
    ]
    for env in envs:
        env.reset(seed=1)
    for actions in scripts(range(3), 200):
        one, other = (env.step(actions) for env in envs)
        assert_same_observations(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
        np.testing.assert_array_equal(one[4]["action_mask"], other[4]["action_mask"])


def test_infos_cannot_change_the_environment():
    env = ArenaVectorEnv(num_envs=2)
    _, info = env.reset(seed=0)
    info["_action_mask"][:] = False
    *_, info = env.step(np.array([0, 0]))
    with pytest.raises(ValueError, match="read-only"):
        info["_n_decisions"][:] = False
    assert env.reset(seed=0)[1]["_action_mask"].all()


# --- saving -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize(
    "options",
    [{}, {"observation": "relative"}, {"observation": "dict", "reward": thrift}],
    ids=["features", "relative", "dict"],
)
def test_a_saved_state_continues_exactly(mode, options):
    env = ArenaVectorEnv(num_envs=N, autoreset_mode=mode, random_pose=True, **options)
    env.reset(seed=3)
    actions = scripts(range(N), 400)
    for row in actions[:150]:
        env.step(row)
    saved = env.get_state()
    assert all(isinstance(array, np.ndarray) for array in saved.values())
    other = ArenaVectorEnv(num_envs=N, autoreset_mode=mode, random_pose=True, **options)
    other.set_state(saved)
    n_ended = 0
    for row in actions[150:]:
        one, two = env.step(row), other.step(row)
        assert_same_observations(one[0], two[0])
        for a, b in zip(one[1:4], two[1:4], strict=True):
            np.testing.assert_array_equal(a, b)
        assert_info_holds(one[4], two[4])
        n_ended += int((one[2] | one[3]).sum())
    assert n_ended > N
    for name, array in env.get_state().items():
        np.testing.assert_array_equal(array, other.get_state()[name])


def test_a_saved_state_is_a_copy():
    env = ArenaVectorEnv(num_envs=2)
    env.reset(seed=0)
    saved = env.get_state()
    kept = {name: array.copy() for name, array in saved.items()}
    env.step(np.array([0, 16]))
    for name, array in kept.items():
        np.testing.assert_array_equal(saved[name], array)


def test_a_state_of_another_number_of_fights_is_refused():
    env, other = ArenaVectorEnv(num_envs=2), ArenaVectorEnv(num_envs=3)
    env.reset(seed=0)
    other.reset(seed=0)
    before = other.get_state()
    with pytest.raises(
        EnvironmentUsageError, match=r"set_state: 'duels' must be uint8 \(3, \d+\), not uint8 \(2, \d+\)"
    ):
        other.set_state(env.get_state())
    with pytest.raises(EnvironmentUsageError, match=r"'masks' must be bool .* not None"):
        other.set_state({name: array for name, array in before.items() if name != "masks"})
    for name, array in other.get_state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize(
    "options", [{"boss": "trickster"}, {"phase": "2"}, {"reward": "sparse"}, {"observation": "relative"}], ids=str
)
def test_a_state_of_another_type_of_fight_is_refused(options):
    env, other = ArenaVectorEnv(num_envs=2), ArenaVectorEnv(num_envs=2, **options)
    env.reset(seed=0)
    other.reset(seed=0)
    before = other.get_state()
    for state in (env.get_state(), {name: a for name, a in before.items() if name != "fight"}):
        with pytest.raises(EnvironmentUsageError, match="set_state: the state is of another boss, other options"):
            other.set_state(state)
    for name, array in other.get_state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("num_envs", [0, -1, "3", 2.5, True, None])
def test_an_invalid_number_of_fights_is_refused(num_envs):
    with pytest.raises(EnvironmentUsageError, match="num_envs must be a whole number from 1"):
        ArenaVectorEnv(num_envs=num_envs)


# --- errors -------------------------------------------------------------------------------------------------


def test_stepping_before_reset():
    with pytest.raises(NotResetError, match="no fight has begun"):
        ArenaVectorEnv(num_envs=2).step(np.array([0, 0]))


def test_a_first_reset_of_some_fights():
    env = ArenaVectorEnv(num_envs=3)
    some = {"reset_mask": np.array([True, False, True])}
    with pytest.raises(NotResetError, match=r"reset: fights \[1\] have not begun"):
        env.reset(seed=0, options=some)
    with pytest.raises(NotResetError, match="step: no fight has begun"):
        env.step(np.zeros(3, int))
    env.reset(seed=0)
    env.reset(options=some)


def test_stepping_fights_that_are_over_without_autoreset():
    env = ArenaVectorEnv(num_envs=2, autoreset_mode="disabled")
    env.reset(seed=0)
    with pytest.raises(NotResetError, match=r"fights \[.*\] are over; reset them with options="):
        for actions in scripts(range(2), 3000):
            env.step(actions)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.array([0, 20, 0]), "action 20 of duel 1: must be 0 to 19"),
        (np.array([0, 0, -1]), "action -1 of duel 2: must be 0 to 19"),
        (np.array([0, 0]), r"actions must be 3 whole numbers, one per fight, not int64 \(2,\)"),
        (np.zeros((3, 1), int), r"not int64 \(3, 1\)"),
        (np.zeros(3), r"not float64 \(3,\)"),
        (5, r"not int64 \(\)"),
        ([0, "roll", 0], "actions must be 3 whole numbers"),
    ],
    ids=str,
)
def test_invalid_actions_change_no_fight(actions, message):
    env = ArenaVectorEnv(num_envs=3)
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(InvalidActionError, match=message):
        env.step(actions)
    for name, array in env.get_state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize(
    "actions", [[1, 2, 3], np.array([1, 2, 3], np.int32), np.array([1, 2, 3], np.uint8), np.arange(6)[::2]], ids=repr
)
def test_integers_of_any_type_are_actions(actions):
    env = ArenaVectorEnv(num_envs=3)
    env.reset(seed=0)
    assert env.step(actions)[4]["n_masked"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("mask", [[True, False, True], np.array([1, 0, 1]), np.array([True])], ids=str)
def test_a_wrong_reset_mask(mask):
    env = ArenaVectorEnv(num_envs=3)
    with pytest.raises(EnvironmentUsageError, match=r"reset_mask'\] must be a bool array of shape \(3,\)"):
        env.reset(seed=0, options={"reset_mask": mask})


def test_other_wrong_use():
    with pytest.raises(EnvironmentUsageError, match="num_envs must be a whole number from 1, not 0"):
        ArenaVectorEnv(num_envs=0)
    with pytest.raises(EnvironmentUsageError, match="unknown mode 'samestep'; did you mean 'same_step'"):
        ArenaVectorEnv(autoreset_mode="samestep")
    with pytest.raises(EnvironmentUsageError, match="seed: 2 seeds for 3 fights"):
        ArenaVectorEnv(num_envs=3).reset(seed=[1, 2])


@pytest.mark.parametrize("seed", [-1, 2**64, 2.5, "2", True], ids=str)
def test_wrong_seeds(seed):
    wrong = pytest.raises(EnvironmentUsageError, match=r"seed: .* is not a whole number from 0 to 2\*\*64 - 1")
    with wrong:
        ArenaVectorEnv(num_envs=3).reset(seed=[1, seed, 3])
    with wrong:
        ArenaEnv().reset(seed=seed)
    if isinstance(seed, int):
        with wrong:
            ArenaVectorEnv(num_envs=3).reset(seed=seed)
