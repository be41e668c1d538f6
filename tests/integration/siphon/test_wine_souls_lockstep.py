"""Both games under Wine, started as `EldenRing.launch` starts them, with their time in lockstep: frame by frame.

What stands in for Proton starts the program with Wine; the rest is as for a player with Steam.
"""

from __future__ import annotations

import pytest

from soulslab.games.dark_souls_3.game import DarkSouls3
from soulslab.games.elden_ring.game import EldenRing
from soulslab.siphon.session import SessionOptions, Step
from support.souls_program import NAMES, WALK_M_S, Frames
from support.waiting import wait_for

TICK_S = 1 / 60
TIMES = ("boss.animation_time", "game.time_s")
GAMES = {"elden_ring": EldenRing, "dark_souls_3": DarkSouls3}
LOCKSTEP = SessionOptions(launch="always", clock="lockstep", screen_px=(640, 360))
PROTON = """\
#!/bin/sh
[ "$1" = run ] && [ -n "$SteamAppId" ] && exec wine "$2"
"""


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def launched(name, windows, souls, tmp_path, monkeypatch):
    """A game that was launched, and what it counts."""
    one = souls(name)
    (tmp_path / ".steam/steam/steamapps").mkdir(parents=True)
    proton = tmp_path / "proton"
    proton.write_text(PROTON)
    proton.chmod(0o755)
    for variable, text in windows.environment().items():
        monkeypatch.setenv(variable, text)
    with windows.alone():
        with GAMES[name].launch(folder=one.path.parent, proton=proton, home=tmp_path, options=LOCKSTEP) as game:
            frames = Frames(one, game.session.info.pid)
            yield game, frames
            frames.close()
        wait_for(lambda: windows.processes() == [])


def test_each_step_is_one_frame(launched):
    game, frames = launched
    session = game.session
    assert session.info.clock_grade == "lockstep"
    session.clock.pause()
    session.clock.advance(TICK_S)  # what it was late by at the start it has made good now
    first, before = frames.n_done, session.snapshot(TIMES)
    for i in range(1, 601):
        session.clock.advance(TICK_S)
        assert frames.n_done == first + i
    after = session.snapshot(TIMES)
    for time in TIMES:
        assert after[time] - before[time] == pytest.approx(10.0, abs=0.002)
    session.clock.advance(30 * TICK_S)
    assert frames.n_done == first + 630
    for _ in range(20):
        session.step(Step(advance_s=0.0))
    assert frames.n_done == first + 630
    keys_last_as_long_as_they_are_held(game)
    its_own_speed_multiplies_what_is_stepped(game, frames)
    it_runs_until_it_is_paused(game, frames)


def keys_last_as_long_as_they_are_held(game):
    session, before = game.session, game.player.position_m
    session.step(Step(held=(session.profile.keys["forward"],), advance_s=30 * TICK_S))
    session.step(Step(held=(), advance_s=10 * TICK_S))
    walked_m = game.player.position_m[1] - before[1]
    assert walked_m == pytest.approx(30 * TICK_S * WALK_M_S, abs=1e-3)


def its_own_speed_multiplies_what_is_stepped(game, frames):
    game.speed = 2.0
    first, time_s = frames.n_done, game.session.read("boss.animation_time")
    game.session.clock.advance(60 * TICK_S)
    assert frames.n_done - first == 60
    assert game.session.read("boss.animation_time") - time_s == pytest.approx(2.0, abs=0.002)


def it_runs_until_it_is_paused(game, frames):
    clock, first = game.session.clock, frames.n_done
    before_s = clock.game_time_s
    clock.run(2.0)
    wait_for(lambda: frames.n_done > first + 60)
    clock.pause()
    assert frames.n_done == frames.n_begun
    assert frames.n_done - first <= (clock.game_time_s - before_s) / TICK_S + 1
    n_frames = frames.n_done
    game.session.step(Step(advance_s=0.0))
    assert frames.n_done == n_frames
