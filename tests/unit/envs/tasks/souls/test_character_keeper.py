"""Checks of the player's character at each reset: stats, weapons, wear and play time."""

import struct

import pytest

from soulslab.envs.tasks.souls.souls_entrance import UNARMED, CharacterKeeper, CharacterSettings, TemporaryValues
from soulslab.errors import EnvironmentUsageError

STATS = {"vigor": 12, "strength": 13, "luck": 7}
SWORD, SHIELD = 2_000_000, 31_000_000


def other_stats(world):
    """Give the character other stats."""
    world.put_stats({"vigor": 40, "luck": 8})


def test_a_character_with_other_stats_is_refused(make):
    souls = make("dark_souls_3", "iudex", other_stats)
    with pytest.raises(EnvironmentUsageError) as caught:
        souls.env.reset()
    assert "player.vigor is 40 and not 12, player.luck is 8 and not 7. Load the character" in str(caught.value)
    assert "player_stats='set'" in str(caught.value)


def test_other_stats_can_be_set(make):
    souls = make("dark_souls_3", "iudex", other_stats, character={"player_stats": "set"})
    souls.env.reset()
    souls.check_fight()
    assert {name: souls.session.read(f"player.{name}") for name in STATS} == STATS


def test_other_stats_can_be_ignored(make):
    souls = make("dark_souls_3", "iudex", other_stats, character={"player_stats": "ignore"})
    souls.env.reset()
    assert souls.session.read("player.vigor") == 40


@pytest.mark.parametrize("episodes", ["demo", "in_place"])
def test_wear_is_switched_off_until_the_environment_closes(make, episodes):
    souls = make("dark_souls_3", "iudex", episodes=episodes)
    souls.env.reset()
    assert souls.session.read("debug.no_wear") is True
    session = souls.session
    values = []
    session.close, close = lambda: values.append(session.read("debug.no_wear")), session.close
    souls.env.close()
    close()
    assert values == [False]


def test_wear_that_was_off_before_stays_off(make):
    souls = make("dark_souls_3", "iudex", lambda world: world.put("debug.no_wear", True))
    souls.env.reset()
    souls.env.episode.release(souls.env.game)
    assert souls.session.read("debug.no_wear") is True


def test_wear_is_not_switched_off_without_the_option(make):
    souls = make("dark_souls_3", "iudex", character={"no_wear": False})
    souls.env.reset()
    assert souls.session.read("debug.no_wear") is False


def armed(world):
    """Equip a sword in the right hand and a shield in the left."""
    world.put("player.weapons", [SHIELD, SWORD, UNARMED, UNARMED, UNARMED])
    world.put("player.hands", [1, 0, 0])


def test_a_changed_weapon_is_refused_at_the_next_reset(make):
    souls = make("elden_ring", "margit", armed)
    souls.env.reset()
    souls.env.reset()
    souls.world.put("player.hands", [1, 0, 1])
    with pytest.raises(EnvironmentUsageError, match=r"player.hands is \[1, 0, 1\], and was \[1, 0, 0\]"):
        souls.env.reset()
    souls.world.put("player.hands", [1, 0, 0])
    souls.env.reset()


def test_a_weapon_that_changes_with_a_restart_is_refused(make):
    souls = make("elden_ring", "margit", armed)
    souls.env.reset()
    souls.session.arrange = lambda world: world.put("player.weapons", [SHIELD, UNARMED, UNARMED, UNARMED, UNARMED])
    with pytest.raises(EnvironmentUsageError, match=r"player\.weapons is"):
        souls.env.reset(options={"restart": True})


def test_a_character_without_a_weapon_is_refused_at_the_first_reset(make):
    souls = make("elden_ring", "margit", lambda world: world.put("player.weapons", [UNARMED] * 5))
    with pytest.raises(EnvironmentUsageError, match="no weapon in any hand"):
        souls.env.reset()


def test_weapons_can_change_if_they_are_ignored(make):
    souls = make("elden_ring", "margit", armed, character={"weapons": "ignore"})
    souls.env.reset()
    souls.world.put("player.weapons", [UNARMED] * 5)
    souls.env.reset()


#: The option of the check without data, for each game.
WITHOUT_DATA = [("dark_souls_3", "iudex", "weapons"), ("elden_ring", "margit", "player_stats")]


@pytest.mark.parametrize(("game", "boss", "option"), WITHOUT_DATA)
def test_a_check_without_data_is_a_warning_at_the_first_reset(make, caplog, game, boss, option):
    souls = make(game, boss)
    for _ in range(2):
        souls.env.reset()
    assert caplog.text.count("of the character are not checked, because the") == 1
    assert caplog.text.count(f"give {option}='ignore'") == 1


@pytest.mark.parametrize(("game", "boss", "option"), WITHOUT_DATA)
def test_a_check_that_is_off_needs_no_data(make, caplog, game, boss, option):
    make(game, boss, character={option: "ignore"}).env.reset()
    assert "of the character are not checked" not in caplog.text


def test_weapons_that_cannot_be_read_are_not_checked(make, caplog):
    def misplace(world):
        world.process.write(world.table.address_of("player.weapons"), struct.pack("<5i", *[-7] * 5))

    souls = make("elden_ring", "margit", misplace)
    souls.env.reset()
    souls.check_fight()
    assert "the weapons of the character cannot be checked" in caplog.text


@pytest.mark.parametrize(("game", "boss"), [("dark_souls_3", "iudex"), ("elden_ring", "margit")])
@pytest.mark.parametrize("play_time", ["keep", "count"])
def test_the_play_time_of_a_save_is_kept_or_counted(make, game, boss, play_time):
    """The play time changes only by writes, because the world does not advance in this test."""
    souls = make(game, boss)
    keeper = CharacterKeeper(CharacterSettings(play_time=play_time), souls.session.facts, TemporaryValues())

    def time_after(seconds, use):
        souls.world.put("game.time_s", seconds)
        use(souls.session)
        return souls.session.read("game.time_s")

    assert ("game.time_s" in keeper.written_attributes) == (play_time == "keep")
    assert time_after(1000.0, keeper.apply) == 1000.0
    is_kept = play_time == "keep"
    assert time_after(5000.0, keeper.apply) == (1000.0 if is_kept else 5000.0)
    assert time_after(9000.0, keeper.restore) == (1000.0 if is_kept else 9000.0)
    # Another save, with less play time.
    assert time_after(300.0, keeper.apply) == 300.0
    assert time_after(400.0, keeper.apply) == (300.0 if is_kept else 400.0)
