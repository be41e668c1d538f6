"""Self-checks during the entrance: at the title, before the entrance writes, and in the fight."""

import logging

import pytest

from soulslab.errors import SelfCheckError
from support.souls_env import BOSSES

VERSION = "9.9.9.9"
each_version = pytest.mark.parametrize("version", ["", VERSION], ids=["known", "unknown"])


@pytest.mark.parametrize(("game", "boss"), BOSSES)
def test_a_game_at_its_title_is_checked_in_the_fight(make, caplog, game, boss):
    souls = make(game, boss, of_session={"version": VERSION})
    with caplog.at_level(logging.WARNING):
        souls.env.reset()
    assert sum(VERSION in record.getMessage() for record in caplog.records) == 2
    souls.check_fight()
    caplog.clear()
    souls.env.reset()
    assert not caplog.records
    assert souls.log.n_retries == 0


def test_a_restarted_game_is_checked_again(make, caplog):
    souls = make("dark_souls_3", "iudex", of_session={"version": VERSION})
    souls.env.reset()
    caplog.clear()
    souls.env.reset(options={"restart": True})
    assert any(VERSION in record.getMessage() for record in caplog.records)
    souls.check_fight()


@each_version
def test_attributes_that_are_readable_at_the_title_are_checked_there(make, version):
    facts = {"game.speed": {"range": (5.0, 6.0)}}
    souls = make("dark_souls_3", "iudex", of_session={"version": version, "facts_of": facts})
    with pytest.raises(SelfCheckError, match=r"'game\.speed' out of range"):
        souls.env.reset()
    assert souls.world.at == "title"
    assert souls.keys_down() == []


@each_version
@pytest.mark.parametrize(
    ("game", "boss", "name"),
    [
        ("dark_souls_3", "iudex", "world.last_bonfire"),
        ("dark_souls_3", "iudex", "player.position"),
        ("dark_souls_3", "vordt", "flags.vordt"),
        ("elden_ring", "margit", "world.last_grace"),
    ],
)
def test_attributes_are_checked_before_the_entrance_writes_them(make, game, boss, name, version):
    of_session = {"version": version, "facts_of": {name: {"is_moving": True}}}
    souls = make(game, boss, lambda world: world.rest_elsewhere(), of_session=of_session)
    rest = souls.game.session.read(souls.game.last_rest)
    for _ in range(2):
        with pytest.raises(SelfCheckError, match=rf"'{name}' does not move"):
            souls.env.reset()
    assert (souls.world.at, souls.world.n_loads) == ("outside", 1)
    assert souls.session.read(souls.game.last_rest) == rest


@each_version
@pytest.mark.parametrize(("game", "boss"), BOSSES)
def test_attributes_of_the_boss_are_checked_before_writes_in_the_fight(make, game, boss, version):
    facts = {"boss.max_hp": {"is_moving": True, "is_holding": False}}
    souls = make(game, boss, of_session={"version": version, "facts_of": facts})
    with pytest.raises(SelfCheckError, match=r"'boss\.max_hp' does not move"):
        souls.env.reset()
    assert souls.world.at == "fight"
    assert not souls.session.read("boss.no_attack")
    assert not souls.session.read("player.no_death")
