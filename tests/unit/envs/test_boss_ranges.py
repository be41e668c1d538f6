"""Fights against a range of generated bosses: each fight draws one of them."""

import gymnasium
import msgspec
import numpy as np
import pytest

from soulslab.arena.boss_catalog import find_boss, find_bosses
from soulslab.arena.reference_player import ReferencePlayer
from soulslab.envs.duels import ArenaOptions
from soulslab.errors import EnvironmentUsageError
from soulslab.fights.recording import reference_actions
from soulslab.learn.policy import Policy
from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, RunSettings, TrainSettings
from soulslab.learn.train import train

ID = "soulslab/Arena-v0"
RANGE = "generated:2-5"
SEEDS = {2, 3, 4, 5}
N = 16


def vector(n=N, **options):
    options = {"boss": RANGE, "random_pose": True, "autoreset_mode": "same_step", **options}
    return gymnasium.make_vec(ID, num_envs=n, vectorization_mode="vector_entry_point", **options)


def play(env, n_steps, seed=0):
    """Play with random actions; return all observations, and the reports of the fights that ended."""
    rng = np.random.default_rng(seed)
    seen, fights = [], []
    for _ in range(n_steps):
        seen.append(env.step(rng.integers(0, 20, env.num_envs))[0])
        report = env.unwrapped._duels.fight_report()
        over = env.unwrapped._duels.simulator.results["terminated"] == 1
        fights += [{name: values[i] for name, values in report.items()} for i in np.flatnonzero(over)]
    return np.array(seen), fights


@pytest.fixture(scope="module")
def fights():
    env = vector()
    env.reset(seed=1)
    return play(env, 400)[1], env.unwrapped.attack_names


def test_each_fight_draws_a_boss_and_reports_which(fights):
    reports, _ = fights
    assert len(reports) > N
    assert {int(fight["boss_seed"]) for fight in reports} == SEEDS


def test_a_report_counts_the_attacks_of_its_boss_by_name(fights):
    reports, names = fights
    assert set(names) == {move.id for boss in find_bosses(RANGE) for move in boss.moves}
    for fight in reports:
        own = {move.id for move in find_boss(f"generated:{fight['boss_seed']}").moves}
        for counts in ("damage_by_attack", "uses_by_attack", "hits_by_attack"):
            assert {name for name, count in zip(names, fight[counts], strict=True) if count} <= own
        assert fight["damage_by_attack"].sum() == pytest.approx(fight["damage_taken"])
        if fight["killed_by"] >= 0:
            assert fight["damage_by_attack"][fight["killed_by"]] > 0
    assert any(fight["killed_by"] >= 0 for fight in reports)


def test_a_seed_repeats_the_bosses_and_the_fights():
    env = vector()
    env.reset(seed=5)
    first, reports = play(env, 150)
    env.reset(seed=5)
    again, same = play(env, 150)
    assert np.array_equal(first, again)
    assert [fight["boss_seed"] for fight in reports] == [fight["boss_seed"] for fight in same]


def test_a_saved_state_continues_with_the_same_bosses():
    env, other = vector(), vector()
    env.reset(seed=5)
    play(env, 60)
    other.reset(seed=6)
    other.unwrapped.set_state(env.unwrapped.get_state())
    assert np.array_equal(play(env, 150, seed=1)[0], play(other, 150, seed=1)[0])


def test_a_state_of_another_boss_is_refused():
    env = vector()
    env.reset(seed=5)
    duels = env.unwrapped._duels.simulator.duels
    n_moves = env.unwrapped._duels.simulator.fight["n_moves"]
    fewest, most = int(n_moves.argmin()), int(n_moves.max())
    assert n_moves[fewest] < most
    for changes, problem in (({"fight": fewest, "b_move": most - 1}, "b_move is"), ({"fight": 4}, "fight is 4")):
        state = env.unwrapped.get_state()
        changed = state["duels"].view(duels.dtype)
        for name, value in changes.items():
            changed[name][0] = value
        with pytest.raises(EnvironmentUsageError, match=f"no fight can be in this state: {problem}"):
            env.unwrapped.set_state(state)
    with pytest.raises(EnvironmentUsageError, match="of another boss"):
        vector(boss="generated:2-4").unwrapped.set_state(env.unwrapped.get_state())


def test_a_stopped_training_is_resumed_bit_for_bit(tmp_path):
    settings = TrainSettings(
        env=EnvSettings(n_envs=8, options={"boss": RANGE, "random_pose": True, "reward": "sparse"}),
        learner=PPOSettings(n_steps=32, minibatch_size=64, n_epochs=1),
        network=NetworkSettings(widths=(8,), shared=True),
        run=RunSettings(total_steps=6_000),
    )
    train(settings, tmp_path / "whole")
    short = msgspec.structs.replace(settings, run=msgspec.structs.replace(settings.run, max_seconds=1e-9))
    assert train(short, tmp_path / "parts").env_steps < 1000
    train(settings, tmp_path / "parts", resume=True)
    one, other = (Policy.load(tmp_path / name / "policy.safetensors").state() for name in ("whole", "parts"))
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_single_fights_have_the_boss_of_their_observations():
    env = gymnasium.make(ID, boss=RANGE, observation="dict")
    names = set()
    for seed in range(12):
        observation, _ = env.reset(seed=seed)
        boss = env.unwrapped.boss
        assert observation in env.observation_space
        assert int(observation["boss_max_hp"]) == boss.hp
        names.add(boss.name)
    assert names == {f"Generated boss {seed}" for seed in SEEDS}


def test_the_reference_player_knows_the_boss_of_each_fight(monkeypatch):
    """A player with the knowledge of another boss plays the same fight in another way."""
    env, other, seed = gymnasium.make(ID, boss=RANGE), find_bosses(RANGE)[0], 0
    env.reset(seed=seed)
    while env.unwrapped.boss == other:
        seed += 1
        env.reset(seed=seed)
    actions = reference_actions(ArenaOptions(boss=RANGE), seed)
    for number, action in enumerate(actions, start=1):
        *_, terminated, _, _ = env.step(action)
        assert terminated == (number == len(actions))
    monkeypatch.setattr("soulslab.fights.recording.ReferencePlayer", lambda _, n: ReferencePlayer(other, n))
    assert not np.array_equal(actions, reference_actions(ArenaOptions(boss=RANGE), seed))


@pytest.mark.parametrize(
    ("env_id", "options", "problem"),
    [
        (ID, {"boss": "generated:5-2"}, "generated:5-2: a range has from 1 to 1024 bosses"),
        (ID, {"boss": "generated:0-1024"}, "generated:0-1024: a range has from 1 to 1024 bosses"),
        (ID, {"boss": "generated:2147483648-2147483649"}, "generated:2147483648: the seed must be from 0"),
        (ID, {"boss": "generated:1-"}, "unknown boss 'generated:1-'"),
        (ID, {"boss": "generated:0-511", "boss_intervals": (1, 1)}, "boss_intervals: the boss must be the path"),
        (
            ID,
            {"boss": "generated:6000-6064"},
            "65 bosses would have to be checked for fairness, 0.5 s each, and at most",
        ),
        ("soulslab/ArenaLive-v0", {"boss": RANGE}, "generated:2-5: 4 bosses, but one is needed here"),
    ],
)
def test_wrong_ranges_are_refused(env_id, options, problem):
    with pytest.raises(EnvironmentUsageError, match=problem):
        gymnasium.make(env_id, **options)
