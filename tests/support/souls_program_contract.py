"""Contract of the bridge to the programs with the memory of Elden Ring and Dark Souls III, on Linux and on Windows."""

from __future__ import annotations

import time

import numpy as np
import pytest

from soulslab.errors import AmbiguousProcessError
from soulslab.games.boss_facts import Pose
from soulslab.games.dark_souls_3 import DarkSouls3
from soulslab.games.elden_ring import EldenRing
from soulslab.games.self_check import Verdict, check_session
from soulslab.siphon.local import open_session
from soulslab.siphon.process.discovery import find_process
from soulslab.siphon.session import SessionOptions
from support.long_form import IS_LONG
from support.souls_program import HEAVY_DAMAGE, LIGHT_DAMAGE, PROFILES, START, WALK_M_S

GAMES = {"elden_ring": EldenRing, "dark_souls_3": DarkSouls3}
TICK_S = 1 / 60
#: How fast each is run; nothing says how Elden Ring draws more frames, and so its frames would get too long.
SPEEDS = {"elden_ring": (0.5, 1.0, 2.0), "dark_souls_3": (0.5, 1.0, 2.0, 5.0)}
#: Of the boss's animation in the profile, and the play time of the save, which goes on at any speed.
TIMES = ("boss.animation_time", "game.time_s")
#: Rounds in which all is written, and steps by the game's own speed.
N_ROUNDS, N_STEPS = (20, 150) if IS_LONG else (1, 3)
STEP_S = 0.2
#: Play time is counted in whole milliseconds.
MILLISECOND = 0.001


def hold(game, frames, keys):
    """Press keys, and wait until the game has received them while paused."""
    game.session.clock.pause()
    game.session.input.set_held(keys)
    frames.pass_by(4)


def other_value(session, name):
    """Return a plausible value that an attribute does not have."""
    facts, value = session.profile.attributes[name], session.read(name)
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return "Attack3000" if value != "Attack3000" else "Move"
    if isinstance(value, bytes):
        return bytes(byte ^ 1 for byte in value)
    low, high = facts.range
    step = 0.25 if facts.type in ("f32", "f64") and high - low < 4 else 1
    return np.where(np.asarray(value) + step <= high, np.asarray(value) + step, np.asarray(value) - step)[()]


def go_to_the_middle_of_a_frame(session, frames):
    """Advance to half a frame before the next frame, so that no frame ends at the end of a step."""
    session.clock.pause()
    last = frames.n_done + 2  # the first may be one that was due long ago
    while frames.n_done < last:
        session.clock.advance(TICK_S / 16)
    session.clock.advance(TICK_S / 2)
    session.clock.advance(TICK_S)  # its frame is made when the step ends, as those of all that follow


class SoulsProgramContract:
    """The module has the fixtures `name`, of the game, and `running`: its process for all tests, and its `Frames`."""

    input_backend: str

    @pytest.fixture
    def frames(self, running):
        return running[1]

    @pytest.fixture
    def attach(self, name, running):
        """Open a session by process id, because other tests may use the names of the games, too."""

        def attach(**options):
            options = {"launch": "never", "pid": running[0], **options}
            return open_session(PROFILES[name], SessionOptions(**options))

        return attach

    @pytest.fixture
    def game(self, name, attach):
        """The game over a session; it runs at 1x before and after."""
        with GAMES[name](attach()) as one:
            yield one

    def test_it_is_found_by_its_name(self, game, running, name):
        info = game.session.info
        profile = PROFILES[name]
        try:
            found = [find_process(profile.process)]
        except AmbiguousProcessError as several:
            found = several.pids
        assert info.pid == running[0]
        assert info.pid in found
        assert info.executable.endswith(profile.process.executable)
        assert (info.version, info.module_base) == (profile.process.versions[0], 0x140000000)
        assert (info.clock_grade, info.input_backend, info.window_px) == ("scaled", self.input_backend, (320, 180))

    def test_all_of_the_profile_passes_the_self_check(self, game):
        check = check_session(game.session, span_s=0.3)
        assert check.is_ok
        assert check.is_known_version
        assert {row.name: row.reason for row in check.rows if row.verdict is not Verdict.OK} == {}
        assert not [other for row in check.rows for other in row.others if other.outcome == "disagrees"]

    def test_all_that_may_be_written_is_read_back(self, game):
        session = game.session
        session.clock.pause()
        names = [name for name, facts in session.profile.attributes.items() if facts.is_writable]
        names.remove("game.time_s")  # it goes on while the game stands
        assert len(names) >= 50
        before = session.snapshot()
        assert set(before) == set(session.profile.attributes)
        for name in names * N_ROUNDS:
            wanted = other_value(session, name)
            session.write({name: wanted})
            np.testing.assert_equal(np.asarray(session.read(name)), np.asarray(wanted), err_msg=name)
            session.write({name: before[name]})
        after = session.snapshot(names)
        np.testing.assert_equal(dict(after), {name: before[name] for name in names})
        session.write({"game.time_s": 5000.0})
        assert 5000.0 <= session.read("game.time_s") < 5060.0

    def test_the_interface_reads_and_writes_it(self, game):
        player, boss = game.player, game.boss
        assert (player.hp, player.max_hp, player.sp, player.max_sp) == (400, 454, 90, 95)
        assert (boss.max_hp, boss.position_m) == (1037, (3.5, 8.0, 0.5))
        assert game.screen == "world"
        game.wait_for_control()
        player.hp = 321
        assert player.hp == 321
        player.hp = 400
        before = player.pose
        game.teleport(Pose(position_m=(20.0, -30.0, 4.0), angle_rad=1.25))
        assert player.pose == Pose(position_m=(20.0, -30.0, 4.0), angle_rad=1.25)
        game.teleport(before)
        assert player.pose == before
        game.allowed.player_deaths = False
        assert game.session.read("player.no_death")
        game.allowed.player_deaths = True
        player.set_stats(vigor=40)
        assert player.stats["vigor"] == 40
        point = sorted(game.warp_points.points)[0]
        game.last_rest_point = point
        assert game.last_rest_point == point

    def test_keys_of_each_kind_arrive(self, game, frames):
        session, keys = game.session, game.session.profile.keys
        session.clock.pause()
        hp, locked = game.boss.hp, session.read("lock_on")
        for action in ("light_attack", "heavy_attack", "lock_on"):  # WM_KEYDOWN, raw input, WM_KEYDOWN
            hold(game, frames, (keys[action],))
            hold(game, frames, ())
        assert hp - game.boss.hp == LIGHT_DAMAGE + HEAVY_DAMAGE
        assert session.read("lock_on") is not locked
        hold(game, frames, (keys["forward"],))  # GetAsyncKeyState
        before = session.snapshot(("player.position", "boss.animation_time"))
        session.clock.advance(0.2)
        frames.pass_by()
        after = session.snapshot(("player.position", "boss.animation_time"))
        walked = after["player.position"] - before["player.position"]
        time_s = after["boss.animation_time"] - before["boss.animation_time"]
        np.testing.assert_allclose(walked, [0, 0, WALK_M_S * time_s], atol=1e-4)
        hold(game, frames, ())

    def test_the_window_shows_the_drawn_image(self, game, frames):
        for hp in (1037, 500, 0):
            game.boss.hp = hp
            first = frames.n_done
            frames.pass_by()
            red, green, blue = game.session.capture().pixels[90, 160].tolist()
            last = frames.n_done
            assert blue == hp * 255 // 1037
            # What is drawn comes to the screen with the next turn of the loop.
            assert any((red, green) == (n & 255, n >> 8 & 255) for n in range(first, last + 1))
        game.boss.hp = START["boss.hp"]

    def test_its_time_is_scaled_and_paused(self, game, frames, name):
        session = game.session

        def passed(n_frames):
            """Return the time of the game and of the save that passed in a number of frames."""
            frames.pass_by()  # one that has begun may have the speed of before
            first = frames.look(session, TIMES)
            frames.pass_by(n_frames)
            last = frames.look(session, TIMES)
            return [last[time] - first[time] for time in TIMES]

        for speed in SPEEDS[name] * (5 if IS_LONG else 1):
            session.clock.run(speed)
            game_s, save_s = passed(15)
            assert save_s > 0.0
            assert game_s == pytest.approx(speed * save_s, abs=2 * speed * MILLISECOND)
        session.clock.pause()
        game_s, save_s = passed(10)
        assert game_s == 0.0
        assert save_s > 0.0
        game.speed = 2.0
        assert session.clock.speed == game.speed == 2.0
        game_s, save_s = passed(5)
        assert game_s == pytest.approx(2 * save_s, abs=4 * MILLISECOND)

    def test_a_step_is_exact_to_a_frame(self, game, frames, monkeypatch):
        session = game.session
        change, changes_s = session.clock._set, []

        def timed(speed):
            began_s = time.perf_counter()
            change(speed)
            changes_s.append(time.perf_counter() - began_s)

        monkeypatch.setattr(session.clock, "_set", timed)
        session.clock.pause()
        frames.pass_by()
        frames.forget_longest()
        before_s, late_s = session.read("boss.animation_time"), 0.0
        for _ in range(N_STEPS):
            changes_s.clear()
            step = session.clock.advance(STEP_S)
            frames.pass_by()
            now_s = session.read("boss.animation_time")
            # The game uses a new speed from a frame on, and the clock counts time from a moment of the change.
            tolerance_s = frames.longest_s + sum(changes_s) + MILLISECOND
            assert now_s - before_s == pytest.approx(step.elapsed_s, abs=tolerance_s)
            # A step that was too long shortens the next one.
            assert step.elapsed_s == pytest.approx(max(STEP_S - late_s, 0.0) + step.late_s, abs=1e-6)
            before_s, late_s = now_s, step.late_s
