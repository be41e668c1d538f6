"""Environments of real games as users create them, without a running game."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from gymnasium import spaces

from soulslab.envs.registration import ARENA_ID, SOULS_IDS
from soulslab.envs.tasks.duel.duel_options import WindowOptions
from soulslab.envs.tasks.souls import souls_env
from soulslab.envs.tasks.souls.souls_env import SoulsDuelEnv
from soulslab.errors import (
    EnvironmentUsageError,
    LaunchError,
    MissingFactError,
    ProcessNotFoundError,
    UnknownBossError,
)
from soulslab.games import profile_path
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.server import serve
from support.masked_game import MaskedSession


@pytest.mark.parametrize("env_id", SOULS_IDS)
def test_spaces_are_known_without_a_game(env_id):
    env = gymnasium.make(env_id)
    assert env.action_space == spaces.Discrete(20)
    assert env.observation_space.shape is not None
    env.close()


def test_variants_differ_by_their_options():
    kinds = {env_id: gymnasium.make(env_id).unwrapped.options for env_id in SOULS_IDS}
    assert kinds["soulslab/DarkSouls3IudexPixels-v0"].observation == "pixels"
    assert kinds["soulslab/DarkSouls3IudexDemo-v0"].episodes == "demo"
    assert {one.episodes for env_id, one in kinds.items() if "Demo" not in env_id} == {"in_place"}


def test_all_accept_policies_of_the_simulator_and_only_iudex_its_fights():
    metadata = {env_id: gymnasium.make(env_id).unwrapped.metadata for env_id in SOULS_IDS}
    assert all(each["policies_of"] == (ARENA_ID,) for each in metadata.values())
    takers = {env_id for env_id, each in metadata.items() if each.get("fights_of")}
    assert takers == {env_id for env_id in SOULS_IDS if "Iudex" in env_id}
    assert metadata["soulslab/DarkSouls3Iudex-v0"]["fights_of"] == (ARENA_ID,)


def test_unknown_full_health_has_the_widest_space():
    space = gymnasium.make("soulslab/EldenRingMargit-v0", observation="dict").observation_space
    assert (space["player_max_hp"].start, space["player_max_hp"].n) == (1, 9999)
    assert space["player_hp"].high == 9999
    assert space["boss_max_hp"].start == 4174
    known = gymnasium.make("soulslab/DarkSouls3Iudex-v0", observation="dict").observation_space
    assert (known["player_max_hp"].start, known["player_max_hp"].n) == (454, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stand_on": True}, "has no option 'stand_on'; did you mean 'stand_in'"),
        ({"stand_in": 1}, "stand_in: expected true or false"),
        ({"stand_in": True, "launch": True}, "launch starts the real game: give no stand_in"),
        ({"launch": True, "pid": 5}, "launch starts the real game: give no stand_in, server, pid"),
        ({"server": "here:1", "pid": 5}, "give only one of server, pid and session"),
        ({"server": "here:1", "clock": "lockstep"}, "clock is for a game that the environment opens"),
        ({"clock": "sundial"}, "clock"),
        ({"reload_minutes": 0}, "reload_minutes: expected a number >= 0.001"),
        ({"player_stats": "sett"}, "player_stats: 'sett' is not one of its values; did you mean 'set'"),
        ({"weapons": None}, "weapons: expected"),
        ({"play_time": "restore"}, "play_time: 'restore' is not one of its values"),
        ({"no_wear": "yes"}, "no_wear: expected true or false"),
        ({"folder": "here"}, "folder is for launch=True"),
        ({"phase": "2", "episodes": "demo"}, "begins with the first phase; phase '2' needs episodes='in_place'"),
        ({"launch_seed": 3}, "launch_seed is for a window that stand_in=True starts"),
        ({"launch_seed": 3, "stand_in": True, "pid": 5}, "launch_seed is for a window that stand_in=True starts"),
        ({"size_px": (640, 360)}, "size_px is for a window that stand_in=True starts"),
        ({"renderer": "gpu", "stand_in": True, "pid": 5}, "renderer is for a window that stand_in=True starts"),
        ({"renderer": "gpy", "stand_in": True}, "renderer: 'gpy' is not one of its values; did you mean 'gpu'"),
        ({"size_px": (640, 6), "stand_in": True}, r"size_px\[1\]: expected a whole number >= 64"),
        ({"launch_seed": -3, "stand_in": True}, "launch_seed: expected a whole number >= 0"),
        ({"boss": 5}, "boss: expected text"),
        ({"boss": "vordt", "stand_in": True}, "has other attributes"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(EnvironmentUsageError, match=words):
        gymnasium.make("soulslab/DarkSouls3Iudex-v0", **options)


def test_keys_are_checked_except_in_a_stand_in_window():
    assert SoulsDuelEnv("dark_souls_3", "iudex").options.check_keys
    assert not SoulsDuelEnv("dark_souls_3", "iudex", check_keys=False).options.check_keys
    assert not SoulsDuelEnv("dark_souls_3", "iudex", stand_in=True).options.check_keys


def test_stand_in_windows_have_different_seeds_by_default():
    assert len({WindowOptions().first_seed for _ in range(3)}) == 3
    assert WindowOptions(launch_seed=7).first_seed == 7


def test_bosses_are_given_by_name_or_file(tmp_path):
    with pytest.raises(UnknownBossError, match="did you mean 'vordt'"):
        gymnasium.make("soulslab/DarkSouls3Iudex-v0", boss="vort")
    own = tmp_path / "mine.toml"
    own.write_text(
        'source = "me"\nname = "Mine"\nmax_hp = 77\ndefeat_flag = 5\nwarp_points = ["Iudex Gundyr"]\n'
        "[poses]\nfog_wall = { position_m = [1.0, 2.0, 3.0] }\n"
    )
    for path in (own, str(own)):
        assert SoulsDuelEnv("dark_souls_3", path).scenario.boss_max_hp == 77


def test_a_boss_with_missing_facts_is_refused():
    with pytest.raises(MissingFactError, match=r"max_hp.*siphon read"):
        SoulsDuelEnv("elden_ring", "dragonkin_nokstella")
    with pytest.raises(MissingFactError, match=r"phase_two.animation"):
        SoulsDuelEnv("elden_ring", "margit", phase="2")


@pytest.fixture
def godrick(tmp_path):
    """Return a fact file with the pose that an environment requires."""
    file = tmp_path / "godrick.toml"
    known = (profile_path(Path("elden_ring")).parent / "bosses/godrick.toml").read_text(encoding="utf-8")
    file.write_text(f"{known}[poses]\nfog_wall = {{ position_m = [1.0, 2.0, 3.0] }}\n", encoding="utf-8")
    return file


def test_a_session_with_another_boss_is_refused(godrick):
    words = r"another boss than .*; open it with .*with_boss"
    for game, boss in (("elden_ring", godrick), ("dark_souls_3", "vordt")):
        with (
            MaskedSession(profile_path(Path(game))) as session,
            pytest.raises(EnvironmentUsageError, match=words),
        ):
            SoulsDuelEnv(game, boss, session=session)


def test_a_server_with_another_boss_is_refused(godrick):
    asked = (("elden_ring", godrick, "boss with the id 10000800"), ("dark_souls_3", "vordt", "other attributes"))
    for game, boss, words in asked:
        with MaskedSession(profile_path(Path(game))) as session, serve(session) as server:
            env = SoulsDuelEnv(game, boss, server=server.address, token=server.token)
            with pytest.raises(EnvironmentUsageError, match=rf"{words}.*--boss"):
                env.reset()
            env.close()


def test_a_missing_process_is_an_error_of_the_first_reset():
    # A search by name could find the games of other tests.
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    env = gymnasium.make("soulslab/DarkSouls3Iudex-v0", pid=ended.pid)
    with pytest.raises(ProcessNotFoundError, match=str(ended.pid)):
        env.reset(seed=0)
    env.close()


def test_a_game_that_is_not_installed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LaunchError, match="Steam was not found"):
        gymnasium.make("soulslab/EldenRingMargit-v0", launch=True)


def test_a_launched_game_gets_the_clock_and_the_input_backend_of_the_options(monkeypatch):
    """The game cannot be launched here, so the test stops where its session would be opened."""
    asked = []

    def open_session(_, options):
        asked.append(options)
        raise LaunchError("not here")

    monkeypatch.setattr(souls_env, "_profile", lambda *_: load_profile(profile_path(Path("dark_souls_3"))))
    monkeypatch.setattr(souls_env, "open_session", open_session)
    env = gymnasium.make("soulslab/DarkSouls3Iudex-v0", launch=True, clock="lockstep", input_backend="pad")
    with pytest.raises(LaunchError, match="not here"):
        env.reset(seed=0)
    env.close()
    assert (asked[0].launch, asked[0].clock, asked[0].input_backend) == ("always", "lockstep", "pad")
