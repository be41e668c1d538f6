"""The unchanged EldenGym 0.6.0 from PyPI plays the built-in fight as Elden Ring, with soulslab's public server.

The memory layout is that of the game's profile. EldenGym's sleeps are shortened, so the tests wait for conditions.
"""

import threading
import time
from pathlib import Path

import eldengym
import numpy as np
import pytest
from eldengym.client import elden_client

from soulslab.arena.binding import Binding
from soulslab.compat import eldengym as ours
from soulslab.games.arena import stand_in
from soulslab.games.elden_ring import PROFILE_PATH, EldenRing
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.public.service import PublicOptions, PublicService
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import LOADING, SessionOptions
from support.long_form import IS_LONG
from support.waiting import wait_for

FILES = Path(eldengym.__file__).parent / "files" / "Margit-v0"
CONFIG = FILES / "er_siphon_config.toml"
SIZE_PX = (160, 90)
#: Number of EldenGym's resets before each fight.
N_RESETS = 10 if IS_LONG else 1
#: Maximum length of EldenGym's sleeps.
SLEEP_S = 0.02


def test_soulslab_s_eldengym_environment_plays_the_same_window():
    env = ours.make("Margit-v0", stand_in=True, launch_seed=0, reward_function=ours.CustomReward(), step_ms=100)
    try:
        seen, info = env.reset(seed=0)
        assert info["clock"] == "lockstep"
        assert (seen["HeroHp"], seen["NpcHp"]) == (454, 1037)
        start, first = info["player_xyz"], seen["frame"]
        for _ in range(5):
            seen, reward, terminated, _, info = step(env, "move_forward")
        assert np.hypot(*np.subtract(info["player_xyz"], start)[:2]) > 0.5
        assert info["game_time_s"] == pytest.approx(0.5, abs=1e-4)
        assert (reward, terminated) == (pytest.approx(0.01), False)
        assert first.shape == seen["frame"].shape == (180, 320, 3)
        assert (seen["frame"].std() > 5.0) and (seen["frame"] != first).any()
        EldenRing(env.session).boss.hp = 0
        seen, reward, terminated, _, info = step(env)
        assert (info["boss_hp_normalized"], terminated) == (0.0, True)
        assert reward > 100.0
        assert env.reset()[1]["boss_hp_normalized"] == 1.0
    finally:
        env.close()


@pytest.fixture(scope="module")
def game():
    """Return a session with the window in the memory layout of Elden Ring.

    It runs from here on, so a test with a window of its own comes first.
    """
    size = "x".join(map(str, SIZE_PX))
    options = SessionOptions(launch="always", options={"size": size}, screen_px=SIZE_PX, clock="realtime")
    with open_session(stand_in(PROFILE_PATH), options) as session:
        # EldenGym fails at a value that cannot be read, for example while another fight loads after a death.
        wait_for(lambda: write_when_loaded(session), "the fight to be loaded")
        yield session


def write_when_loaded(session):
    """Prevent the player's death; return whether the fight was loaded."""
    try:
        session.write({"player.no_death": True})
    except LOADING:
        return False
    return True


@pytest.fixture
def address(game, tmp_path):
    known = {game.profile.process.executable: load_profile(PROFILE_PATH)}
    options = PublicOptions(open_session=open_session, known=known, recordings=tmp_path)
    with PublicService(options) as service, serve(game, ServerOptions(extra_handlers=service.handlers)) as server:
        yield server.address


@pytest.fixture
def env(address, monkeypatch):
    sleep, test_thread = time.sleep, threading.current_thread()

    def sleep_less(seconds):
        # The threads of the server sleep as long as before.
        sleep(min(seconds, SLEEP_S) if threading.current_thread() is test_thread else seconds)

    monkeypatch.setattr(time, "sleep", sleep_less)
    monkeypatch.setattr(elden_client, "sleep", sleep_less)
    env = eldengym.make("Margit-v0", host=address, launch_game=False)
    yield env
    env.close()


def read_fight(game):
    """Return the values of the current fight, or None if there is no fight."""
    binding = Binding(game.profile.duel, game.profile.attributes)
    try:
        values = game.snapshot(tuple(binding.attributes.values()))
    except LOADING:
        return None
    known = {name: binding.decode(name, values[attribute]) for name, attribute in binding.attributes.items()}
    return known if known["player.hp"] > 0 and known["boss.hp"] > 0 else None


def step(env, *actions):
    """Hold only these actions for a step."""
    return env.step(np.array([name in actions for name in env.action_keys], np.int8))


def step_with_picture(env):
    """Hold nothing until a step has a picture, and return that step.

    Between two pictures of its stream, which a busy machine delays, EldenGym returns a black one of another size.
    """

    def step_once():
        found = step(env)
        return found if found[0]["frame"].shape == (SIZE_PX[1], SIZE_PX[0], 3) else None

    return wait_for(step_once, "a picture")


@pytest.fixture
def fight(game, env):
    """Start a fight with EldenGym's reset."""
    for seed in range(N_RESETS):
        env.reset(seed=seed)
        step(env, "attack")
    ground = wait_for(lambda: read_fight(game), "a fight")["boss.position"][2]

    def stands():
        # EldenGym has teleported the player to Margit's fog gate, which is below the ground of this fight.
        game.write({"player.position": np.array([140.0, ground, 575.0])})
        seen = read_fight(game)
        return seen is not None and not seen["player.animation"].startswith("Fall")

    wait_for(stands, "a fight on the ground")


@pytest.mark.usefixtures("fight")
def test_eldengym_observes_and_plays_the_built_in_fight(game, env):
    env.client.set_game_speed(0.0)  # so that both read the same tick
    wait_for(lambda: read_fight(game)["game.speed"] == 0.0, "the game to stand")
    seen, reward, is_won_or_lost, is_cut, _ = step_with_picture(env)
    known = read_fight(game)
    assert (seen["HeroHp"], seen["HeroMaxHp"]) == (known["player.hp"], 454)
    assert (seen["NpcHp"], seen["NpcMaxHp"]) == (known["boss.hp"], 1037)
    animations = game.profile.duel["player_animations"], game.profile.duel["boss_animations"]
    assert seen["HeroAnimId"] == animations[0][known["player.animation"]]
    assert seen["NpcAnimId"] == animations[1][known["boss.animation"]]
    between = (known["boss.position"] - known["player.position"])[:2]
    assert seen["dist_to_boss"] == pytest.approx(np.hypot(*between), abs=1e-3)
    assert (reward, is_won_or_lost, is_cut) == (0.0, False, False)
    assert seen["frame"].std() > 5.0

    env.client.set_game_speed(1.0)
    # A key has no effect while the player is staggered, so it is released and pressed again.
    wait_for(lambda: (step(env), step(env, "attack"), read_fight(game))[2]["player.sp"] < 95, "an attack")
    # On a busy machine the window is drawn later than the game reads the key.
    wait_for(lambda: not np.array_equal(step_with_picture(env)[0]["frame"], seen["frame"]), "another picture")


@pytest.mark.usefixtures("fight")
def test_values_written_by_eldengym_change_the_fight(game, env):
    env.client.set_game_speed(0.0)
    env.client.set_player_hp(77)
    env.client.set_target_hp(88)  # EldenGym's own server uses an injected library for this
    assert (env.client.player_hp, env.client.target_hp) == (77, 88)
    wait_for(
        lambda: (read_fight(game)["player.hp"], read_fight(game)["boss.hp"]) == (77, 88), "health as it was written"
    )
    env.client.set_game_speed(1.0)


@pytest.mark.usefixtures("fight")
def test_hits_change_the_health_in_eldengym_s_info(game, env):
    def restored():
        env.client.set_player_hp(env.client.player_max_hp)
        return step(env)[4]["player_hp_normalized"] == 1.0

    def attack():
        """Attack the boss, and return whether the boss and the player were hit."""
        # The player moves in the fight, so it is teleported in front of the boss before each attack.
        x, height, y = game.read("boss.position")
        game.write({"player.position": np.array([x + 1.5, height, y]), "player.angle": np.pi / 2})
        before = step(env)[4]["boss_hp_normalized"]
        is_boss_hit = is_player_hit = False
        for actions in (("attack",), *[()] * 20):
            info = step(env, *actions)[4]
            is_boss_hit |= info["boss_hp_normalized"] < before
            is_player_hit |= info["player_hp_normalized"] < 1.0
            # On a busy machine, the boss has time for several attacks, and without a player the world is not readable.
            env.client.set_player_hp(env.client.player_max_hp)
        return is_boss_hit, is_player_hit

    def hits():
        try:
            return attack()
        except (TypeError, *LOADING):
            # The player fell from the cliff, or the boss died; EldenGym cannot read a world that loads.
            wait_for(lambda: write_when_loaded(game), "the fight to be loaded")
            return False, False

    wait_for(lambda: hits()[0], "a hit on the boss")
    wait_for(restored, "full health")
    wait_for(lambda: hits()[1], "a hit on the player")
