"""The self-check of environments, for known and unknown versions of a game."""

import logging

import msgspec
import pytest

from soulslab.envs.game.session_holder import AttributeGate
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.envs.tasks.process.process_env import ProcessEnv
from soulslab.errors import SelfCheckError
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.local import LocalSession
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_arena import FakeArenaSession
from soulslab.testing.fake_game import FakeOpener
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession
from support.toy_env import toy_table


class ToySession(FakeSession):
    """A session with the toy, which has no version, and a profile that lists versions."""

    def __init__(self, versions=("2.0",), **hp):
        facts = {**TOY_PROFILE.attributes, "hp": msgspec.structs.replace(TOY_PROFILE.attributes["hp"], **hp)}
        process = msgspec.structs.replace(TOY_PROFILE.process, versions=versions)
        profile = msgspec.structs.replace(TOY_PROFILE, attributes=facts, process=process, env=toy_table())
        LocalSession.__init__(self, profile, SessionOptions(), FakeOpener(self._start))


def test_a_version_whose_attributes_pass_is_accepted():
    env = ProcessEnv(session=ToySession())
    env.reset()
    _, _, _, _, info = env.step(env.action_space.sample())
    assert info["reward_terms"]
    env.close()


@pytest.mark.parametrize("versions", [("2.0",), ("", "2.0")], ids=["unknown version", "known version"])
def test_a_failed_attribute_is_an_error_before_any_write(versions):
    session = ToySession(versions, is_moving=True)
    before = dict(session.toy.values)
    env = ProcessEnv(session=session)
    with pytest.raises(SelfCheckError, match="'hp' does not move") as caught:
        env.reset()
    assert caught.value.attributes == ("hp",)
    now = dict(session.toy.values)
    assert {name: now[name] for name in ("hp", "x", "level", "name")} == {
        name: before[name] for name in ("hp", "x", "level", "name")
    }
    with pytest.raises(SelfCheckError, match="'hp'"):
        env.reset()
    env.close()


@pytest.mark.parametrize(("versions", "level"), [(("2.0",), logging.WARNING), (("", "2.0"), logging.DEBUG)])
def test_a_passed_check_is_logged_as_a_warning_for_an_unknown_version(caplog, versions, level):
    with caplog.at_level(logging.DEBUG, "soulslab.envs.game.session_holder"):
        AttributeGate(("hp", "x"))(ToySession(versions))
    records = [record for record in caplog.records if "all 2 needed attributes" in record.getMessage()]
    assert [record.levelno for record in records] == [level]


def test_a_profile_without_versions_is_not_checked():
    env = ProcessEnv(session=ToySession(versions=(), is_moving=True))
    env.reset()
    assert not env.needs_reset
    env.close()


def test_a_restarted_game_is_checked_again():
    session = ToySession()
    env = ProcessEnv(session=session)
    env.reset()
    ticks = session.toy.values["ticks"]
    env.reset(options={"restart": True})
    assert session.info.n_starts == 2
    # The check of the new game takes a second of game time, in addition to its start.
    assert session.toy.values["ticks"] >= 60
    assert ticks >= 60
    env.close()


def test_an_attribute_that_pauses_for_a_moment_passes():
    session = ToySession(is_moving=True)
    looks = []

    def examine(names=None, examine=session.examine):
        looks.append(len(looks))
        session.toy.values["hp"] = 50 if len(looks) > 8 else 100
        return examine(names)

    session.examine = examine
    AttributeGate(("hp",))(session)
    # Five reads in each check; only the second check detects the movement.
    assert len(looks) == 10


def test_a_game_that_does_not_load_is_an_error():
    session = ToySession()
    session.toy.is_loading = True
    with pytest.raises(SelfCheckError, match=r"'hp' not loaded .*is a null pointer"):
        AttributeGate(("hp",), loading_s=0.0)(session)
    session.toy.is_loading = False
    AttributeGate(("hp",), loading_s=0.0)(session)


def test_a_duel_on_an_unknown_version():
    profile = load_profile(PROFILE_PATH)
    process = msgspec.structs.replace(profile.process, versions=("9.9",))
    fitting = msgspec.structs.replace(profile, process=process)
    env = ArenaLiveEnv(session=FakeArenaSession(profile=fitting))
    env.reset(seed=1)
    env.step(env.action_space.sample())
    env.close()
    hp = msgspec.structs.replace(profile.attributes["player.max_hp"], is_moving=True)
    wrong = msgspec.structs.replace(fitting, attributes={**profile.attributes, "player.max_hp": hp})
    env = ArenaLiveEnv(session=FakeArenaSession(profile=wrong))
    with pytest.raises(SelfCheckError, match=r"'player.max_hp' does not move"):
        env.reset(seed=1)
    env.close()
