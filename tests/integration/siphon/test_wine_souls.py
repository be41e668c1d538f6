"""The bridge with both games under Wine: find, check, read, write, control, capture, and pause.

Each is started as a player would, and found there with the profile as it is.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from soulslab.cli import run
from soulslab.errors import GameVersionError, PatternError, SelfCheckError
from soulslab.games.self_check import Verdict, check_session
from soulslab.siphon.session import LOADING
from support.souls_program import LIGHT_DAMAGE, NAMES, PROFILES, START, Frames, changed, playing
from support.souls_program_contract import GAMES, SoulsProgramContract, hold

SCREEN_PX = (640, 360)
#: In an unknown version all sources count, also those of other versions, which have these elsewhere.
DOUBTS = {
    "elden_ring": {"game.speed": Verdict.DISAGREE, "game.frame_time_s": Verdict.DISAGREE},
    "dark_souls_3": {},
}


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def running(name, windows, display, souls):
    """One of the games, running for all its tests: its process and its counters."""
    with windows.occupied(), playing(windows, souls(name), display.name) as pid:
        frames = Frames(souls(name), pid)
        yield pid, frames
        frames.close()


class TestSoulsPrograms(SoulsProgramContract):
    input_backend = "xtest"

    @pytest.fixture
    def variant(self, name, windows, display, souls, tmp_path):
        """Start a second copy of the game, and yield its process."""

        @contextmanager
        def variant(**changes):
            copy = changed(souls(name), PROFILES[name], tmp_path / "variant", **changes)
            with playing(windows, copy, display.name) as pid:
                yield pid

        return variant

    def test_the_command_reports_it(self, running, name, capsys):
        arguments = ["games", "check", name, "--pid", str(running[0]), "--seconds", "0.2"]
        assert run(arguments) == 0
        assert "all needed attributes are ok" in capsys.readouterr().out

    def test_while_it_loads_the_fight_is_not_there(self, game, frames, attach):
        hold(game, frames, ("F9",))
        hold(game, frames, ())
        game.session.clock.run()
        with pytest.raises(LOADING):
            game.session.read("player.hp")
        assert (game.screen, game.is_in_control) == ("loading", False)
        with attach(clock="realtime") as again:
            check = check_session(again, span_s=0.2)
        rows = {row.name: row.verdict for row in check.rows}
        assert rows["player.hp"] is rows["boss.hp"] is Verdict.NOT_LOADED
        assert rows["game.time_s"] is Verdict.OK
        assert set(rows.values()) == {Verdict.OK, Verdict.NOT_LOADED}
        assert not check.is_ok
        check.require("player.hp", "game.time_s", may_be_loading=True)
        hold(game, frames, ("F9",))
        hold(game, frames, ())
        game.wait_for_control()
        assert game.player.hp == START["player.hp"]

    def test_another_version_is_refused_unless_it_is_allowed(self, variant, attach, name):
        with variant(version="9.8.7.6") as pid:
            known = PROFILES[name].process.versions[0]
            with pytest.raises(GameVersionError, match=rf"is version 9\.8\.7\.6, .* {known}"):
                attach(pid=pid)
            with attach(pid=pid, allow_unknown_version=True) as session:
                check = check_session(session, span_s=0.2)
        assert not check.is_known_version
        failed = {row.name: row.verdict for row in check.rows if row.verdict is not Verdict.OK}
        assert failed == DOUBTS[name]
        check.require("player.hp", "boss.hp", "player.position")
        for doubted in failed:
            with pytest.raises(SelfCheckError, match=doubted):
                check.require(doubted)

    def test_a_pattern_without_a_match_is_named(self, variant, attach):
        with variant(without="world") as pid, pytest.raises(PatternError, match="'world'") as error:
            attach(pid=pid)
        assert error.value.base == "world"

    def test_keys_arrive_when_another_window_had_been_active(self, variant, name, attach, frames):
        with variant():
            pass
        with GAMES[name](attach()) as game:
            hp = game.boss.hp
            hold(game, frames, (game.session.profile.keys["light_attack"],))
            hold(game, frames, ())
            assert hp - game.boss.hp == LIGHT_DAMAGE
