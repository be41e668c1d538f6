"""N parallel duels: fights do not depend on N, on the other duels, or on compilation."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.arena.boss_file import boss_names
from soulslab.arena.records import MAX_DECISIONS
from soulslab.arena.vocabulary import NOTHING
from soulslab.errors import InvalidActionError
from support.players import scripts
from support.stage import Stage, make_simulator

PHASES = ("1", "2", "full")
HERE = Path(__file__).parent
TESTS = HERE.parents[1]


def run_python(program, **environment):
    """Run a program in a new interpreter that can import this module; return its output."""
    places = [str(HERE), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), **environment}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def trajectories(boss, seeds, n_steps=300, **options):
    """Return the state and the observation of a duel at each step, by seed."""
    options = {"random_pose": True, "states": True, "autoreset": "same_step", **options}
    simulator = make_simulator(boss, seeds, **options)
    actions = scripts(seeds, n_steps)
    digests = [hashlib.sha256() for _ in seeds]
    ended = 0
    for t in range(n_steps):
        ended += simulator.step(actions[t])
        for i, digest in enumerate(digests):
            for array in (simulator.duels, simulator.features, simulator.states, simulator.masks, simulator.results):
                digest.update(array[i].tobytes())
    return {seed: digest.hexdigest() for seed, digest in zip(seeds, digests, strict=True)}, ended


@pytest.mark.parametrize("boss", boss_names())
@pytest.mark.parametrize("skip_locked", [False, True])
def test_a_duel_is_the_same_alone_and_in_any_company(boss, skip_locked):
    many = [*range(100, 164)]
    alone = {}
    for seed in (103, 140):
        alone |= trajectories(boss, [seed], skip_locked=skip_locked)[0]
    among_7, _ = trajectories(boss, [140, 7, 8, 103, 9, 140, 10], skip_locked=skip_locked)
    among_64, ended = trajectories(boss, many, skip_locked=skip_locked)
    for seed in (103, 140):
        assert alone[seed] == among_7[seed] == among_64[seed]
    assert len(set(among_64.values())) == 64
    assert ended > 64


_WITHOUT_JIT = """
import json, sys
import numba
assert numba.config.DISABLE_JIT
from test_simulator import PHASES, boss_names, trajectories
found = {f"{b} {p}": trajectories(b, [1, 2], 50, phase=p)[0] for b in boss_names() for p in PHASES}
json.dump(found, sys.stdout, sort_keys=True)
"""


def test_a_duel_is_the_same_with_the_compiler_off():
    interpreted = json.loads(run_python(_WITHOUT_JIT, NUMBA_DISABLE_JIT="1"))
    for boss in boss_names():
        for phase in PHASES:
            compiled, _ = trajectories(boss, [1, 2], 50, phase=phase)
            assert interpreted[f"{boss} {phase}"] == {str(seed): digest for seed, digest in compiled.items()}


def test_another_seed_is_another_fight():
    first, second = (make_simulator("judge", [seed]) for seed in (1, 2))
    for _ in range(30):
        first.step(np.array([NOTHING]))
        second.step(np.array([NOTHING]))
    assert first.duels.tobytes() != second.duels.tobytes()


@settings(max_examples=25)
@given(
    boss=st.sampled_from(boss_names()),
    phase=st.sampled_from(PHASES),
    seed=st.integers(0, 2**32),
    random_pose=st.booleans(),
    skip_locked=st.booleans(),
)
def test_everything_stays_finite_and_in_its_limits(boss, phase, seed, random_pose, skip_locked):
    n = 16
    simulator = make_simulator(
        boss,
        range(seed, seed + n),
        phase=phase,
        random_pose=random_pose,
        skip_locked=skip_locked,
        states=True,
        autoreset="same_step",
    )
    actions = scripts(range(seed, seed + n), 150)
    ground, d = simulator.boss.ground, simulator.duels
    floats = [name for name in d.dtype.names if d[name].dtype.kind == "f"]  # integers are always finite
    for t in range(150):
        simulator.step(actions[t])
        for name in floats:
            assert np.isfinite(d[name]).all(), name
        assert ((d["p_hp"] >= 0) & (d["p_hp"] <= 454)).all()
        assert ((d["p_sp"] >= 0) & (d["p_sp"] <= 95)).all()
        assert ((d["b_hp"] >= 0) & (d["b_hp"] <= simulator.boss.hp)).all()
        for x, y in (("p_fx", "p_fy"), ("b_fx", "b_fy"), ("c_fx", "c_fy"), ("p_dx", "p_dy")):
            np.testing.assert_allclose(np.hypot(d[x], d[y]), 1, atol=1e-9)
        boss_off = np.hypot(d["b_x"] - ground.centre_m[0], d["b_y"] - ground.centre_m[1])
        player_off = np.hypot(d["p_x"] - ground.centre_m[0], d["p_y"] - ground.centre_m[1])
        assert (boss_off <= ground.radius_m + 1e-9).all()
        assert (player_off <= ground.radius_m + 1e-9 + 6 * d["p_falling"]).all()
        assert (d["n_projectiles"] == (d["q_ticks"] > 0).sum(axis=1)).all()
        assert simulator.masks[:, NOTHING].all()


_FLAT = """
import numpy as np, resource, tracemalloc
from support.players import scripts
from support.stage import make_simulator
n = 1024
simulator = make_simulator("trickster", range(n), random_pose=True, states=True, autoreset="same_step")
rng = np.random.default_rng(0)
actions = rng.integers(0, 20, (64, n))
def play(steps):
    for t in range(steps):
        simulator.step(actions[t % 64])
play(200)
tracemalloc.start()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
play(2000)
traced, _ = tracemalloc.get_traced_memory()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, traced)
assert all(np.isfinite(simulator.duels[name].astype(float)).all() for name in simulator.duels.dtype.names)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows reports the peak memory of a process in another way")
def test_two_million_decisions_leave_memory_flat():
    rss_kb, traced_bytes = map(int, run_python(_FLAT).split())
    assert rss_kb < 1024
    assert traced_bytes < 16_384


def test_a_fight_is_truncated_after_3000_decisions():
    stage = Stage()
    for _ in range(MAX_DECISIONS - 1):
        stage.simulator.step(np.array([NOTHING]))
    assert not stage.d.over
    stage.simulator.step(np.array([NOTHING]))
    result, report = stage.simulator.results[0], stage.simulator.reports[0]
    assert (result.truncated, result.terminated, stage.d.over) == (1, 0, 1)
    assert (report.won, report.n_decisions) == (0, 3000)
    assert stage.d.p_hp == 454


@pytest.mark.parametrize("action", [-1, 20, 10**12])
def test_an_invalid_action_changes_no_duel(action):
    simulator = make_simulator("judge", range(3))
    before = simulator.duels.tobytes()
    with pytest.raises(InvalidActionError, match=f"action {action} of duel 1: must be 0 to 19"):
        simulator.step(np.array([0, action, 0]))
    assert simulator.duels.tobytes() == before


def test_a_reset_touches_only_the_duels_it_is_meant_for():
    simulator = make_simulator("judge", range(3))
    for _ in range(20):
        simulator.step(np.array([0, 0, 0]))
    before = [record.tobytes() for record in simulator.duels]
    simulator.reset(np.array([False, True, False]))
    after = [record.tobytes() for record in simulator.duels]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]
    assert simulator.duels["decision"].tolist() == [20, 0, 20]


def test_a_finished_duel_is_reset_at_its_next_step():
    stage = Stage(autoreset="next_step")
    stage.d.p_hp = 0.0
    stage.decide()
    assert stage.simulator.results[0].terminated
    stage.decide()
    result = stage.simulator.results[0]
    assert (stage.d.decision, stage.d.p_hp) == (0, 454)
    assert (result.reward, result.terminated, result.n_decisions) == (0, 0, 0)
