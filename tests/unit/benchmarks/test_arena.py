"""The benchmark of the arena: it measures equal fights, and the shares add up."""

import json
from itertools import groupby
from operator import itemgetter

import gymnasium
import numpy as np
import pytest

from benchmarks import arena
from benchmarks.arena import environment_timer, kernel_timer, record
from benchmarks.commands import run


def test_the_environment_plays_the_recorded_fights():
    recording = record(3, 400)
    env = gymnasium.make_vec(
        "soulslab/Arena-v0",
        num_envs=3,
        vectorization_mode="vector_entry_point",
        random_pose=True,
        autoreset_mode="same_step",
    )
    env.reset(seed=arena.SEED)
    for actions in recording.warm_up:
        env.step(actions)
    n_ended = 0
    for actions in recording.actions:
        _, _, terminated, truncated, info = env.step(actions)
        assert not info["n_masked"].any()  # every recorded action is open there, so these are the same fights
        n_ended += int((terminated | truncated).sum())
    assert n_ended == recording.n_ended > 0


def test_actions_are_sampled_from_the_allowed_ones():
    assert len(np.unique(record(64, 100).actions)) == 20


@pytest.mark.parametrize("switch", [False, True])
def test_timers_can_be_repeated(switch):
    recording = record(2, 50)
    for timer in (environment_timer(recording, copy=switch), kernel_timer(recording, features=switch)):
        assert timer() > 0.0
        assert timer() > 0.0


def test_tables_are_calculated_from_the_times():
    recording = arena.Recording(np.zeros((1, 8), np.int64), np.zeros((10, 8), np.int64), n_ended=4)
    times = {("copied step", 8): 1e-6, ("step", 8): 0.5e-6, ("kernel", 8): 0.4e-6, ("rules", 8): 0.3e-6}
    times |= {("call", 0): 0.8e-6, ("reset", arena.N_RESETS): 1e-6}
    (speed,) = arena._speed_rows([recording], times)
    assert (speed["steps/s"], speed["steps/s with copy=False"], speed["reached"]) == (1_000_000, 2_000_000, None)
    (share,) = arena._share_rows([recording], times)
    assert share["ns per step"] == pytest.approx(1000.0)
    # A call costs 0.1 us per fight, a reset 1 us for one step in 20.
    assert [share[f"{name} (%)"] for name in ("rules", "observation", "reset")] == pytest.approx([15.0, 10.0, 5.0])
    assert share["Python and copies (%)"] == pytest.approx(70.0)


def test_drawn_fights_are_measured_with_bosses_from_the_intervals(monkeypatch):
    made = []

    def make(*arguments, **options):
        made.append(make_vec(*arguments, **options))
        return made[-1]

    make_vec = gymnasium.make_vec
    monkeypatch.setattr(gymnasium, "make_vec", make)
    timers = arena.drawn_timers(record(8, 50))
    assert [name for name, _ in timers] == list(arena.DRAWN)
    assert all(timer() > 0.0 for timer in timers.values() for _ in range(2))
    hp = [np.unique(env.unwrapped._duels.simulator.fight["b_max_hp"]) for env in made]
    assert len(hp[0]) == 1
    for drawn in hp[1:]:
        assert len(drawn) > 8
        assert np.abs(drawn / hp[0] - 1).max() <= 0.1 + 1e-3
    rows = arena._drawn_rows({(name, arena.N_DRAWN_ENVS): 0.4e-6 * n for n, name in enumerate(arena.DRAWN, 1)})
    assert [row["reached"] for row in rows] == [None, True, False]


@pytest.mark.long
def test_measures_compilation_speed_and_shares(monkeypatch, tmp_path):
    monkeypatch.setattr(arena, "N_ENVS", (1, 8))
    file = tmp_path / "arena.json"
    assert run(["arena", "--quick", "--steps", "100", "--json", str(file)]) == 0
    first_step, speed, drawn, shares = (
        list(rows) for _, rows in groupby(json.loads(file.read_text()), itemgetter("table"))
    )
    assert [row["kernel cache"] for row in first_step] == ["empty", "filled"]
    assert first_step[0]["processor time (s)"] > first_step[1]["processor time (s)"] > 0
    assert [row["fights side by side"] for row in speed] == [1, 8]
    assert [row["target (steps/s)"] for row in speed] == [150_000, None]
    assert all(row["steps/s"] > 0 for row in speed)
    assert [row["fights against"] for row in drawn] == list(arena.DRAWN)
    assert [row["target (steps/s)"] for row in drawn] == [None, 1_000_000, 1_000_000]
    for row in shares:
        parts = [row[f"{name} (%)"] for name in ("rules", "observation", "reset", "Python and copies")]
        assert sum(parts) == pytest.approx(100.0)
