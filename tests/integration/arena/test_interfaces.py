"""`EldenRing` and `DarkSouls3` on the window of the built-in fight, each under its game's mask."""

import pytest

from soulslab.errors import WaitTimeoutError
from soulslab.games import dark_souls_3, elden_ring
from soulslab.games.arena import stand_in
from soulslab.games.boss_facts import Pose
from soulslab.games.waiting import Patience, wait_until
from soulslab.siphon.local import open_session
from soulslab.siphon.session import SessionOptions

GAMES = {
    "dark_souls_3": (dark_souls_3.PROFILE_PATH, dark_souls_3.DarkSouls3),
    "elden_ring": (elden_ring.PROFILE_PATH, elden_ring.EldenRing),
}
SMALL = {"size": "160x90", "renderer": "software"}


@pytest.fixture(params=GAMES)
def game(request):
    path, kind = GAMES[request.param]
    with kind(open_session(stand_in(path), SessionOptions(options=SMALL))) as one:
        wait_until(one.session, "the world", lambda: one.screen, lambda screen: screen == "world")
        yield one


def test_a_fight_in_its_window_is_read_moved_and_lost(game):
    assert game.player.hp == game.player.max_hp > 0
    assert game.boss.animation.number or game.boss.animation.name
    x, y, height = game.player.position_m
    there = Pose(position_m=(x + 3.0, y - 2.0, height), angle_rad=0.5)
    game.teleport(there)
    assert game.player.position_m == pytest.approx(there.position_m, abs=1.0)
    assert game.allowed.player_deaths
    game.camera.lock_on()
    assert game.camera.is_locked_on
    game.allowed.hits = False
    assert not game.allowed.hits
    with pytest.raises(WaitTimeoutError, match=r"to be in control; last value: \('world', False\)"):
        game.wait_for_control(Patience(deadline_s=0.3))
    point = next(iter(game.warp_points.points))
    # The built-in fight sets no bit of control, so the warp ends with the load; the next fight comes all the same.
    with pytest.raises(WaitTimeoutError, match="the player to be in control"):
        game.warp(point, loaded=Patience(deadline_s=0.1))
    assert game.last_rest_point == point
    hp = wait_until(game.session, "the next fight", lambda: (game.player.hp, game.player.max_hp), lambda hp: hp[0] > 0)
    assert hp[0] == hp[1]
