"""Environments of real games, tested with a stand-in window."""

from contextlib import contextmanager
from pathlib import Path

import gymnasium
import msgspec
import numpy as np
import pytest

from soulslab.arena.vocabulary import N_ACTIONS, NOTHING
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.envs.tasks.souls.souls_env import SoulsDuelEnv
from soulslab.errors import EnvironmentUsageError, SiphonError
from soulslab.games import profile_path
from soulslab.games.arena import stand_in
from soulslab.siphon.clock import held_start
from soulslab.siphon.input import pad_sender
from soulslab.siphon.input.xtest import XTestSender
from soulslab.siphon.local import open_session
from soulslab.siphon.pad import Pad
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.server import serve
from soulslab.siphon.session import SessionOptions, Step
from support.players import script

#: Size and colours of pictures in SoulsGym.
PIXELS = {"width_px": 160, "height_px": 90, "is_grey": False}
GAME = profile_path(Path("dark_souls_3"))


@pytest.fixture(scope="module")
def window():
    """A session with a running stand-in window, for several tests."""
    with open_session(stand_in(GAME), SessionOptions(launch="always")) as session:
        yield session


@contextmanager
def started(env_id):
    """Yield an environment with a new window and a pad after a reset, and its first observation.

    The start is deterministic, so that all windows have played the same ticks at their first observation.
    """
    options = {"launch_seed": 0, "max_episode_steps": None, "observation": "dict"}
    env = gymnasium.make(env_id, stand_in=True, input_backend="pad", **options)
    env.unwrapped.holder.seed = 0
    try:
        yield env, env.reset(seed=5)[0]
    finally:
        env.close()


def play(env, first):
    """Play all actions, then a script; return the observations, the first one included."""
    seen = [first]
    each = [action for number in range(N_ACTIONS) for action in (number, number, NOTHING)]
    for action in (*each, *script(1, 60)):
        observation, _, is_over, _, _ = env.step(int(action))
        seen.append(observation)
        if is_over:
            break
    assert len(seen) > len(each)
    return seen


@pytest.mark.parametrize(
    "env_id",
    ["soulslab/DarkSouls3Iudex-v0", pytest.param("soulslab/EldenRingMargit-v0", marks=pytest.mark.long)],
)
def test_every_action_by_pad_is_that_by_keyboard_and_fights_begin_in_place(env_id):
    with started(env_id) as (env, first), pytest.MonkeyPatch.context() as patch:
        patch.setattr(XTestSender, "send", lambda _, changes: pytest.fail(f"the keyboard sent {changes}"))
        pad = play(env, first)
    with pytest.MonkeyPatch.context() as patch:  # the pad is connected and has no controls, so keys are sent
        patch.setattr(pad_sender, "controls_of_keys", lambda _: {})
        patch.setattr(held_start, "SLICE_NS", 2_000_000)  # the window is found ready at another moment of its tick
        with started(env_id) as (env, first):
            keyboard = play(env, first)
            check_fights_in_place(env)
    assert len(pad) == len(keyboard)
    for by_pad, by_key in zip(pad, keyboard, strict=True):
        for name, value in by_key.items():
            np.testing.assert_allclose(by_pad[name], value, atol=1e-5, err_msg=name)


def check_fights_in_place(env):
    """Check two fights that begin without a restart of the game."""
    log, rng = env.unwrapped.episode.log, np.random.default_rng(3)
    n_resets = log.n_resets
    for _ in range(2):
        seen, info = env.reset(seed=5)
        assert env.observation_space.contains(seen)
        assert (info["clock"], info["game_time_s"]) == ("lockstep", 0.0)
        assert seen["player_hp"] == seen["player_max_hp"]
        assert seen["boss_hp"] == seen["boss_max_hp"]
        begin = seen["player_pose"]
        for n in range(1, 61):
            seen, _, is_over, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            assert env.observation_space.contains(seen)
            assert info["game_time_s"] == pytest.approx(n / 10)
            if is_over:
                break
        assert np.abs(seen["player_pose"] - begin).max() > 0.1
    assert log.n_resets == n_resets + 2
    assert log.n_game_restarts == 0


def test_the_lock_on_and_a_stick_by_pad():
    with open_session(stand_in(GAME), SessionOptions(launch="always", input_backend="pad")) as session:
        session.clock.pause()
        locked = session.read("lock_on")
        session.step(Step(held=(session.profile.keys["lock_on"],), advance_s=0.1))
        assert session.read("lock_on") != locked
        start = session.step(Step(held=())).snapshot["player.position"]
        session.step(Step(pad=Pad(left_stick=(0.6, 0.8)), advance_s=0.5))
        moved = session.step(Step(pad=Pad(), advance_s=0.2)).snapshot["player.position"]
        assert np.linalg.norm(moved - start) > 0.5
        assert np.linalg.norm(session.step(Step(advance_s=0.5)).snapshot["player.position"] - moved) < 0.1


def test_pictures_of_the_game():
    options = {"stand_in": True, "launch_seed": 0, "size_px": (640, 360), "render_mode": "rgb_array"}
    env = gymnasium.make("soulslab/DarkSouls3IudexPixels-v0", pixels=PIXELS, **options)
    first, _ = env.reset(seed=0)
    second = env.step(0)[0]
    assert first.shape == second.shape == (90, 160, 3)
    assert first.std() > 5.0
    assert (first != second).any()
    assert env.render().shape == (360, 640, 3)
    env.close()


def test_a_running_stand_in_window_is_used(window):
    env = SoulsDuelEnv("dark_souls_3", "iudex", session=window, stand_in=True)
    _, info = env.reset(seed=1)
    assert env.step(int(info["action_mask"].argmax()))[4]["game_time_s"] == pytest.approx(0.1)


def test_a_stand_in_window_without_the_option_stand_in_is_refused(window):
    env = SoulsDuelEnv("dark_souls_3", "iudex", session=window)
    with pytest.raises(EnvironmentUsageError, match=r"the stand-in window .* give stand_in=True"):
        env.reset(seed=1)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (SoulsDuelEnv, {"game": "dark_souls_3", "boss": "iudex", "stand_in": True}),
        (ArenaLiveEnv, {"mask": "dark_souls_3"}),
    ],
)
def test_a_stand_in_window_of_a_server_is_used(window, make, options):
    """Like ``soulslab arena --mask`` with ``soulslab siphon serve``, which use the profile and clock of the game."""
    with (
        open_session(load_profile(GAME), SessionOptions(launch="never", pid=window.info.pid)) as game,
        serve(game) as server,
    ):
        window.clock.run(1.0)
        for _ in range(2):  # the first environment leaves the game paused
            env = make(server=server.address, token=server.token, **options)
            _, info = env.reset(seed=1)
            info = env.step(int(info["action_mask"].argmax()))[4]
            assert info["clock"] == "scaled"
            assert 0.0 < info["game_time_s"] < 0.5  # 0.1 on an idle machine
            env.close()


def test_a_window_with_another_title_is_an_error(window):
    """The program has the expected name and memory."""
    profile = stand_in(GAME)
    process = msgspec.structs.replace(profile.process, window_title="ELDEN RING")
    wrong = msgspec.structs.replace(profile, process=process)
    options = SessionOptions(launch="never", pid=window.info.pid, deadline_s=1.0)
    env = SoulsDuelEnv("dark_souls_3", "iudex", session=lambda: open_session(wrong, options))
    with pytest.raises(SiphonError, match=r"'ELDEN RING'[^']*'DARK SOULS III'"):
        env.reset(seed=0)
    env.close()
