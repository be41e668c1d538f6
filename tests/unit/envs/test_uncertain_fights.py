"""Fights for policies that have to work in another fight: drawn bosses, latency, late and wrong observations."""

import gymnasium
import msgspec
import numpy as np
import pytest

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_pool import N_SPARE, RENEW_DECISIONS
from soulslab.arena.duel_rules import replay_ticks
from soulslab.arena.uncertainty import Uncertainty, uncertainty_path
from soulslab.arena.vocabulary import N_DIRECTIONS, NOTHING
from soulslab.config import dump_settings
from soulslab.errors import BossFileError, EnvironmentUsageError
from support.stage import make_simulator

ID = "soulslab/Arena-v0"
N = 8


@pytest.fixture
def fitted(tmp_path):
    """A boss file with the interval of its health and of one pause."""
    path = tmp_path / "fitted.toml"
    boss = find_boss("judge")
    path.write_text(dump_settings(boss), encoding="utf-8")
    intervals = {"hp": (boss.hp - 100.0, boss.hp + 100.0), "pause_s[0][1]": (1.2, 1.5)}
    uncertainty_path(path).write_text(dump_settings(Uncertainty(intervals=intervals)), encoding="utf-8")
    return path


def vector(n=N, **options):
    return gymnasium.make_vec(ID, num_envs=n, vectorization_mode="vector_entry_point", **options)


def features_of(env, n_steps, seed=0):
    """The observations of a seeded run with random actions."""
    rng = np.random.default_rng(seed)
    return np.array([env.step(rng.integers(0, 20, env.num_envs))[0] for _ in range(n_steps)])


# --- drawn bosses ---------------------------------------------------------------------------------------------


def test_each_fight_has_a_boss_from_the_intervals(fitted):
    env = vector(boss=fitted, boss_intervals=(1, 1))
    env.reset(seed=1)
    simulator = env.unwrapped._duels.simulator
    hp = simulator.fight["b_max_hp"][simulator.duels["fight"]]
    assert len(np.unique(hp)) > N / 2
    assert ((hp >= simulator.boss.hp - 100) & (hp <= simulator.boss.hp + 100)).all()
    assert len(np.unique(simulator.fight["pause_high"][:, 0])) > 10
    assert len(np.unique(simulator.fight["pause_high"][:, 1])) == 1


def test_the_width_of_the_intervals_changes(fitted):
    env = vector(boss=fitted, boss_intervals=(3, 0.5), interval_decisions=4 * RENEW_DECISIONS)
    env.reset(seed=1)
    duels = env.unwrapped._duels
    fight = duels.simulator.fight
    widest = np.ptp(fight["b_max_hp"])
    assert widest > 350
    assert duels.pool.width == 3
    for _ in range(60):
        duels.pool.count_decisions(4 * RENEW_DECISIONS)
    assert duels.pool.width == 0.5
    unused = np.setdiff1d(np.arange(len(fight)), duels.simulator.duels["fight"])
    assert np.ptp(fight["b_max_hp"][unused]) <= 100


def test_a_running_fight_keeps_its_boss(fitted):
    env = vector(boss=fitted, boss_intervals=(1, 1))
    env.reset(seed=1)
    duels = env.unwrapped._duels
    rows = duels.simulator.duels["fight"].copy()
    before = duels.simulator.fight[rows].tobytes()
    others = duels.simulator.fight.tobytes()
    duels.pool.count_decisions((N_SPARE + 5) * RENEW_DECISIONS)
    assert duels.simulator.fight[rows].tobytes() == before
    assert duels.simulator.fight.tobytes() != others


def test_a_seed_repeats_the_fights_and_their_bosses(fitted):
    env = vector(boss=fitted, boss_intervals=(2, 1))
    env.reset(seed=5)
    first = features_of(env, 50)
    env.unwrapped._duels.pool.count_decisions(3 * RENEW_DECISIONS)
    env.reset(seed=5)
    assert np.array_equal(features_of(env, 50), first)


def test_a_saved_state_continues_with_the_same_bosses(fitted):
    options = {"boss": fitted, "boss_intervals": (2, 1), "random_pose": True}
    env, other = vector(**options), vector(**options)
    env.reset(seed=5)
    env.unwrapped._duels.pool.count_decisions(5 * RENEW_DECISIONS)
    features_of(env, 30)
    other.reset(seed=6)
    other.unwrapped.set_state(env.unwrapped.get_state())
    assert np.array_equal(features_of(env, 200, seed=1), features_of(other, 200, seed=1))


def test_a_state_with_a_rounding_error_is_accepted(fitted):
    env = vector(boss=fitted, boss_intervals=(0.1, 0.7))
    env.reset(seed=5)
    state = env.unwrapped.get_state()
    state["boss_factors"][:2] = np.nextafter(0.1, 0), np.nextafter(0.7, 1)  # as earlier versions saved them
    env.unwrapped.set_state(state)
    np.testing.assert_array_equal(env.unwrapped.get_state()["boss_factors"], state["boss_factors"])


@pytest.mark.parametrize("widths", [(1.0, 0.3), (0.3, 0.9), (1.0, 0.1), (0.7, 0.1)])
def test_the_width_is_never_beyond_the_given_ones(fitted, widths):
    pool = vector(boss=fitted, boss_intervals=widths, interval_decisions=10).unwrapped._duels.pool
    pool.count_decisions(10)
    assert min(widths) <= pool.width <= max(widths)


@pytest.mark.parametrize("observation", ["dict", "boxes"])
@pytest.mark.parametrize("hp", ["drawn", "known"])
def test_the_space_contains_drawn_health(fitted, observation, hp):
    boss = find_boss(str(fitted))
    if hp == "known":
        intervals = {"hp": (float(boss.hp), float(boss.hp)), "pause_s[0][1]": (1.2, 1.5)}
        uncertainty_path(fitted).write_text(dump_settings(Uncertainty(intervals=intervals)), encoding="utf-8")
    env = vector(boss=fitted, boss_intervals=(1, 1), observation=observation)
    observed, _ = env.reset(seed=1)
    assert env.observation_space.contains(observed)
    assert (env.unwrapped.single_observation_space["boss_hp"].high[0] == boss.hp) == (hp == "known")


@pytest.mark.parametrize(
    ("name", "value"), [("boss_numbers", -1), ("boss_factors", 99.0), ("boss_factors", np.nan), ("boss_decisions", -1)]
)
def test_an_impossible_state_is_refused(fitted, name, value):
    env = vector(boss=fitted, boss_intervals=(1, 1))
    env.reset(seed=5)
    state = env.unwrapped.get_state()
    state[name][0] = value
    with pytest.raises(EnvironmentUsageError, match="no fight can be in this state"):
        env.unwrapped.set_state(state)


def test_one_fight_draws_its_boss_too(fitted):
    env = gymnasium.make(ID, boss=fitted, boss_intervals=(1, 1), render_mode="rgb_array")
    hp = set()
    for seed in range(5):
        env.reset(seed=seed)
        hp.add(int(env.unwrapped.duel_state["boss_max_hp"]))
        assert env.render().shape[-1] == 3
    assert len(hp) > 2


def test_a_boss_without_intervals_is_refused(tmp_path, fitted):
    with pytest.raises(EnvironmentUsageError, match="must be the path of a fitted boss file"):
        gymnasium.make(ID, boss="judge", boss_intervals=(1, 1))
    uncertainty_path(fitted).unlink()
    with pytest.raises(BossFileError, match="uncertainty"):
        gymnasium.make(ID, boss=fitted, boss_intervals=(1, 1))


# --- latency --------------------------------------------------------------------------------------------------


def test_keys_that_are_a_decision_late_are_those_of_the_decision_before():
    late, exact = (make_simulator(seeds=range(N), features=True, latency_ticks=(6, 6)) for _ in range(2))
    exact.duels["latency"] = 0
    for simulator in (exact, late):
        simulator.duels["b_wait"] = 10_000  # no hit locks the player
    rng = np.random.default_rng(0)
    before = np.full(N, NOTHING)
    for _ in range(100):
        actions = np.where(rng.random(N) < 0.8, rng.integers(0, N_DIRECTIONS, N), NOTHING)
        late.step(actions)
        exact.step(before)
        assert np.array_equal(late.features, exact.features)
        before = actions


@pytest.mark.parametrize("ticks", [1, 5, 6, 7, 12])
def test_a_roll_begins_after_the_latency(ticks):
    simulator = make_simulator(latency_ticks=(ticks, ticks), features=False)
    first = 8
    began = []
    for k in range(4):
        before = simulator.duels.copy()
        simulator.step(np.array([first if k == 0 else NOTHING]))
        for tick, duel in enumerate(replay_ticks(before, simulator.fight[0], first if k == 0 else NOTHING, 6)):
            if duel.p_anim == simulator.fight[0].rolling:
                began.append(6 * k + tick)
    assert began[0] == ticks


@pytest.mark.parametrize("ticks", [0, 3, 8])
def test_the_replay_of_a_step_ends_where_the_step_ended(ticks):
    simulator = make_simulator(latency_ticks=(ticks, ticks), features=False)
    rng = np.random.default_rng(0)
    for _ in range(60):
        before = simulator.duels.copy()
        action = int(rng.choice(np.flatnonzero(simulator.masks[0])))
        simulator.step(np.array([action]))
        ticks = replay_ticks(before, simulator.fight[0], action, 6)
        for name in ("p_x", "p_y", "p_hp", "b_x", "b_hp", "p_anim", "p_ticks", "last_action", "second_last_action"):
            assert before[name][0] == ticks[name][-1] == simulator.duels[name][0], name


def test_the_latency_of_each_fight_is_drawn():
    env = vector(64, latency_ms=(0, 120))
    env.reset(seed=0)
    assert set(env.unwrapped._duels.simulator.duels["latency"].tolist()) == set(range(8))


# --- observations ---------------------------------------------------------------------------------------------


def test_late_observations_are_those_of_the_step_before():
    exact, late = vector(64), vector(64, late_share=0.3)
    exact.reset(seed=3)
    first, _ = late.reset(seed=3)
    seen, shown = np.array(first), 0
    names = list(late.unwrapped.feature_names)
    time = names.index("boss_animation_duration")
    for _ in range(40):
        observation = late.step(np.full(64, NOTHING))[0]
        same = (observation == seen).all(axis=1)
        shown += int(same.sum())
        assert (observation[~same, time] != seen[~same, time]).all()
        seen = observation
    assert 0.2 < shown / (40 * 64) < 0.4


def test_positions_are_wrong_by_at_most_the_error():
    env = vector(64, position_noise_m=0.4)
    observation, _ = env.reset(seed=3)
    simulator = env.unwrapped._duels.simulator
    names = list(env.unwrapped.feature_names)
    errors = []
    for _ in range(20):
        for field, name in (("p_x", "player_x"), ("b_y", "boss_y")):
            axis = 0 if name.endswith("x") else 1
            low, extent = simulator.fight[0].low[axis], simulator.fight[0].extent[axis]
            errors.append(observation[:, names.index(name)] * extent + low - simulator.duels[field])
        observation = env.step(np.full(64, NOTHING))[0]
    assert 0.3 < np.abs(errors).max() < 0.401
    assert abs(np.mean(errors)) < 0.05


@pytest.mark.parametrize("observation", ["features", "relative", "dict", "boxes"])
@pytest.mark.parametrize("boss", ["judge", "generated:5"])
def test_wrong_positions_stay_in_the_observation_space(boss, observation):
    env = vector(32, boss=boss, position_noise_m=10.0, observation=observation, random_pose=True)
    observed, _ = env.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(60):
        assert env.observation_space.contains(observed)
        observed = env.step(rng.integers(0, N_DIRECTIONS, 32))[0]


def test_the_rules_do_not_see_the_errors():
    exact, wrong = (
        make_simulator(seeds=range(N), noise_m=noise, late_share=late) for noise, late in ((0, 0), (1.0, 0.5))
    )
    for simulator in (exact, wrong):
        simulator.duels["b_wait"] = 10_000  # the boss draws no random numbers
    for _ in range(30):
        for simulator in (exact, wrong):
            simulator.step(np.zeros(N, np.int64))
    for name in exact.duels.dtype.names:
        if name != "rng":
            assert np.array_equal(exact.duels[name], wrong.duels[name]), name


def test_options_that_contradict_each_other_are_refused():
    with pytest.raises(EnvironmentUsageError, match=r"latency_ms: 50.* is greater than 20"):
        gymnasium.make(ID, latency_ms=(50, 20))
    with pytest.raises(EnvironmentUsageError, match="latency_ms"):
        gymnasium.make(ID, latency_ms=(0, 300))
    with pytest.raises(EnvironmentUsageError, match="late or wrong states"):
        gymnasium.make(ID, reward=lambda transition: transition.terms["win"], position_noise_m=0.1)


def test_the_options_are_written_and_read():
    assert msgspec.to_builtins(vector(1, latency_ms=(0, 120)).unwrapped._duels.options)["latency_ms"] == (0, 120)
