"""The environment of the built-in fight with its real window: memory, keys, pictures and time."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from benchmarks.fault_injection import FAULTS
from soulslab.arena.boss_file import BOSS_DIR
from soulslab.arena.vocabulary import LIGHT_ATTACK, NOTHING
from soulslab.envs.arena import ArenaEnv
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.errors import ControlTakenError, DisplayError
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.local import open_session
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions
from support.players import script
from support.same_fight import ALL_TERMS, check_fight, check_observation
from support.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def judge():
    """A session with a game against the judge, for several tests."""
    with open_session(load_profile(PROFILE_PATH), SessionOptions(options={"boss": "judge"})) as session:
        yield session


@pytest.mark.parametrize(
    ("observation", "skip_locked"),
    [("features", False), pytest.param("features", True, marks=pytest.mark.long), ("relative", True)],
)
def test_the_same_fight_as_in_the_simulator(judge, observation, skip_locked):
    options = {"observation": observation, "reward": ALL_TERMS, "skip_locked": skip_locked}
    live, sim = ArenaLiveEnv(session=judge, **options), ArenaEnv(**options)
    check_fight(live, sim, 3)


def test_the_same_fight_by_pad_and_a_second_environment_is_refused():
    options = {"observation": "features", "reward": ALL_TERMS}
    live, sim = ArenaLiveEnv(input_backend="pad", **options), ArenaEnv(**options)
    try:
        check_fight(live, sim, 3)
        pid = live.session.info.pid
        second = ArenaLiveEnv(pid=pid)
        with pytest.raises(ControlTakenError, match=f"another environment of this process .* process {pid}; close it"):
            second.reset(seed=1)
        second.close()
        live.reset(seed=1)
        assert live.step(NOTHING)[4]["clock"] == "lockstep"
    finally:
        live.close()


@pytest.mark.parametrize(("boss", "phase"), [("own.toml", "1"), pytest.param("trickster", "2", marks=pytest.mark.long)])
def test_the_same_fight_against_other_bosses(boss, phase, tmp_path, monkeypatch):
    # The boss file is relative to the working directory; the game starts in another folder.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_bytes((BOSS_DIR / "frost_beast.toml").read_bytes())
    options = {"boss": boss, "phase": phase, "random_pose": True, "observation": "dict", "reward": ALL_TERMS}
    live, sim = ArenaLiveEnv(**options), ArenaEnv(**options)
    try:
        check_fight(live, sim, 8)
    finally:
        live.close()


def test_pictures_do_not_change_a_fight(judge):
    live, sim = ArenaLiveEnv(session=judge, observation="pixels+features"), ArenaEnv()
    pictures = [live.reset(seed=2)[0]["pixels"]]
    check_observation(live.reset(seed=2)[0]["features"], sim.reset(seed=2)[0])
    for action in script(2, 60):
        step = live.step(int(action))
        check_observation(step[0]["features"], sim.step(int(action))[0])
        pictures.append(step[0]["pixels"])
    assert {picture.shape for picture in pictures} == {(84, 84, 1)}
    assert pictures[0].std() > 5.0
    assert sum(bool((before != after).any()) for before, after in pairwise(pictures)) > 50


def test_the_window_is_rendered(judge):
    env = ArenaLiveEnv("rgb_array", session=judge)
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (*reversed(judge.info.window_px), 3)
    assert picture.std() > 5.0


def test_keys_are_delayed_by_the_latency(judge):
    env = ArenaLiveEnv(session=judge, latency_ms=150, observation="dict")
    env.reset(seed=0)
    stamina = [env.step(action)[0]["player_sp"][0] for action in (LIGHT_ATTACK, NOTHING, NOTHING)]
    assert stamina[0] == 95.0
    assert stamina[1] < 95.0


def test_in_real_time_no_tick_is_lost(judge):
    env = ArenaLiveEnv(session=judge, timing="realtime", game_speed=2.0, step_ms=200)
    env.reset(seed=0)
    n_before, before_s = ticks_at_rest(judge)
    judge.clock.run(2.0)
    infos = [env.step(NOTHING)[4] for _ in range(8)]
    assert judge.clock.speed == pytest.approx(2.0, rel=1e-3)
    # Less than 8 decisions, because the game was paused while its ticks were read.
    assert infos[-1]["game_time_s"] > 4 * 0.2
    n_after, after_s = ticks_at_rest(judge)
    assert n_after - n_before == pytest.approx(60 * (after_s - before_s), abs=1)
    assert sum(info["ticks"] for info in infos) > 0
    assert env.reset(seed=1)[1]["clock"] == "lockstep"


def ticks_at_rest(judge):
    """Pause, and play the ticks that became due while the window was drawing; return tick and game time."""
    judge.clock.pause()
    judge.clock.advance(1 / 60)
    return judge.read(judge.profile.clock.tick_attribute), judge.clock.game_time_s


def test_an_episode_in_place_without_a_seed_needs_no_load(judge):
    env = ArenaLiveEnv(session=judge, episodes="in_place", observation="dict")
    env.reset(seed=0)
    n_fights = env.game.read("fight.number")["fight.number"]
    for action in script(0, 3000):
        step = env.step(int(action))
        assert env.observation_space.contains(step[0])
        if step[2]:
            break
    assert step[2]
    observation, _ = env.reset()
    assert (observation["player_hp"][0], observation["boss_hp"][0]) == (454.0, 1037.0)
    assert env.game.read("fight.number")["fight.number"] == n_fights
    np.testing.assert_allclose(observation["player_pose"][:2], env.scenario.player_pose[:2], atol=0.5)


def test_demo_episodes_recover_and_begin_at_the_first_tick(judge):
    env = ArenaLiveEnv(session=judge, episodes="demo", on_failure="truncate")
    first, _ = env.reset(seed=5)
    FAULTS["fight loaded anew"](env)
    infos = (env.step(NOTHING)[4] for _ in range(20))
    error = next((info["failure"]["error"] for info in infos if "failure" in info), None)
    assert error in ("PointerError", "EntityNotFoundError")
    again, info = env.reset(seed=5)
    assert env.game.read("fight.tick", "fight.seed") == {"fight.tick": 0, "fight.seed": 5}
    np.testing.assert_array_equal(first, again)
    assert info["n_restarts"] == 0


def test_the_simulator_shows_its_fight_in_a_window(tmp_path):
    program = Path(__file__).parents[2] / "support" / "arena_human.py"
    with PrivateDisplay((800, 450)) as display:
        done = subprocess.run(
            [sys.executable, str(program), str(tmp_path)],
            env=os.environ | display.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    played, closed = done.stdout.splitlines()
    # Ten decisions take a second of game time; a slow machine needs more wall time.
    assert float(played.split()[1]) > 0.9
    assert closed == "closed the window was closed; reset() opens a new one"
    first, second = (cv2.imread(str(path)).astype(int) for path in sorted(tmp_path.glob("*.png")))
    assert first.std() > 10.0
    assert np.abs(first - second).mean() > 1.0


def test_a_window_without_a_display_is_a_clear_error(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    env = ArenaEnv(render_mode="human")
    with pytest.raises(DisplayError, match="no display"):
        env.reset()
