"""Both games under Wine, started like `EldenRing.launch` starts them, with a lockstep clock.

What stands in for Proton starts the program with Wine; the rest is as for a player with Steam.
"""

from __future__ import annotations

import numpy as np
import pytest

from soulslab.siphon.session import SessionOptions, Step
from support.long_form import IS_LONG
from support.souls_program import NAMES, WALK_M_S, Frames
from support.souls_program_contract import GAMES, TICK_S, TIMES, go_to_the_middle_of_a_frame
from support.waiting import wait_for

#: Frames that are stepped one by one, and rounds of all else that is done to time.
N_FRAMES, N_ROUNDS = (20_000, 20) if IS_LONG else (200, 1)
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
    """A launched game and its counters."""
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
    go_to_the_middle_of_a_frame(session, frames)
    first, before = frames.n_done, session.snapshot(TIMES)
    for i in range(1, N_FRAMES + 1):
        session.clock.advance(TICK_S)
        assert frames.n_done == first + i
    after = session.snapshot(TIMES)
    for time in TIMES:
        check_passed(before[time], after[time], N_FRAMES * TICK_S, N_FRAMES)
    n_frames = frames.n_done
    for _ in range(20):
        session.step(Step(advance_s=0.0))
    assert frames.n_done == n_frames
    rng = np.random.default_rng(1)
    for _ in range(N_ROUNDS):
        it_stands_and_steps_as_it_is_told(session, frames, rng)
        keys_last_as_long_as_they_are_held(game)
        its_own_speed_multiplies_what_is_stepped(game, frames)
        it_runs_until_it_is_paused(game, frames)


def check_passed(before_s, after_s, wanted_s, n_frames):
    """Check the elapsed time, except for the rounding of the game's 32-bit sums."""
    lost_s = n_frames * float(np.spacing(np.float32(after_s))) / 2
    assert after_s - before_s == pytest.approx(wanted_s, abs=0.002 + lost_s)


def it_stands_and_steps_as_it_is_told(session, frames, rng):
    """In long steps the number of frames depends on the scheduler, but the counted time does not."""
    first_s, total = session.read("boss.animation_time"), 0
    for n_ticks in rng.integers(0, 40, 10):
        first = frames.n_done
        session.clock.advance(n_ticks * TICK_S)
        session.snapshot()
        session.clock.pause()
        assert frames.n_done == frames.n_begun <= first + n_ticks
        total += int(n_ticks)
        assert session.read("boss.animation_time") - first_s == pytest.approx(total * TICK_S, abs=2 * TICK_S)
    go_to_the_middle_of_a_frame(session, frames)


def keys_last_as_long_as_they_are_held(game):
    session, before = game.session, game.player.position_m
    for held in [(session.profile.keys["forward"],)] * 30 + [()] * 10:
        session.step(Step(held=held, advance_s=TICK_S))
    walked_m = game.player.position_m[1] - before[1]
    assert walked_m == pytest.approx(30 * TICK_S * WALK_M_S, abs=1e-3)


def its_own_speed_multiplies_what_is_stepped(game, frames):
    game.speed = 2.0
    first, time_s = frames.n_done, game.session.read("boss.animation_time")
    for _ in range(60):
        game.session.clock.advance(TICK_S)
    assert frames.n_done - first == 60
    check_passed(time_s, game.session.read("boss.animation_time"), 2.0, 60)
    game.speed = 1.0


def it_runs_until_it_is_paused(game, frames):
    """On a busy machine it makes fewer frames, but sees the same time pass."""
    clock, first, first_s = game.session.clock, frames.n_done, game.session.read("boss.animation_time")
    before_s = clock.game_time_s
    clock.run(2.0)
    wait_for(lambda: frames.n_done > first + 60)
    clock.pause()
    assert frames.n_done == frames.n_begun
    passed_s = clock.game_time_s - before_s
    assert frames.n_done - first <= passed_s / TICK_S + 1
    assert game.session.read("boss.animation_time") - first_s == pytest.approx(passed_s, abs=2 * TICK_S)
    n_frames = frames.n_done
    game.session.step(Step(advance_s=0.0))
    assert frames.n_done == n_frames
