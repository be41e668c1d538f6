"""The game loop: keys of the window, the timing of ticks, and drawing."""

from types import SimpleNamespace

import pytest

from soulslab.arena import live_fight
from soulslab.arena.live_fight import CODE_ACTION, HISTORY_TICKS, buttons_of
from soulslab.arena.vocabulary import NOTHING
from soulslab.arena.window.controls import ButtonEvent, PadState
from soulslab.arena.window.game_loop import (
    HELP_TICKS,
    MAX_TICKS_UNSEEN,
    REPLAY_END_TICKS,
    Game,
    compile_rules,
    new_fight,
)
from soulslab.arena.window.key_log import KeyLogWriter, Replay, State, read_key_log
from soulslab.arena.window.settings import WindowSettings
from soulslab.errors import WindowError


class OffscreenWindow:
    """A window for the loop that draws offscreen.

    Attributes:
        waiting: Events that the next call of `events` returns.
        sticks: Where those of the pads are.
        n_drawn: Pictures drawn.
        did: What it was asked to do.
    """

    def __init__(self, screen):
        self.root, self.camera = screen.root, screen.camera
        self.has_focus, self.size_px = True, (320, 180)
        self.waiting, self.sticks, self.n_drawn, self.did = [], [], 0, []

    def events(self):
        waiting, self.waiting = self.waiting, []
        return waiting

    def pads(self):
        return self.sticks

    def draw(self):
        self.n_drawn += 1

    def toggle_fullscreen(self):
        self.did.append("fullscreen")

    def save_screenshot(self, folder):
        self.did.append(folder)
        raise WindowError("the disk is full")


class Due:
    """A timer that returns given numbers of ticks."""

    def __init__(self):
        self.n_ticks = 0
        self.speeds = []

    def due(self, _, speed):
        self.speeds.append(speed)
        n, self.n_ticks = self.n_ticks, 0
        return n if speed else 0


class Memory:
    """Counts its calls, and applies one given write."""

    def __init__(self):
        self.n_published, self.write = 0, None

    def apply_writes(self, game):
        if self.write:
            self.write(game)
            self.write = None

    def publish(self, _):
        self.n_published += 1


@pytest.fixture
def window(offscreen):
    return OffscreenWindow(offscreen)


@pytest.fixture
def play(window):
    """A game, its window, its memory, and `turn`, which runs the loop once with given keys and ticks."""
    return start(window, WindowSettings(seed=3, size_px=(320, 180), shows_help=False))


def start(window, settings, replay=None):
    game = Game(settings, window, replay.fight if replay else new_fight(settings), replay)
    memory, timer = Memory(), Due()
    game.begin(memory)

    def turn(*names, n_ticks=1):
        window.waiting = [ButtonEvent(name.lstrip("+-"), is_press=not name.startswith("-")) for name in names]
        timer.n_ticks = n_ticks
        game.run_once(timer)

    def codes(n):
        fight = game.fight
        return [int(fight.history[i % HISTORY_TICKS]) for i in range(fight.n_ticks - n + 1, fight.n_ticks + 1)]

    return SimpleNamespace(game=game, memory=memory, timer=timer, turn=turn, codes=codes, window=window)


def test_ticks_are_played_published_and_drawn_together(play):
    drawn, published = play.window.n_drawn, play.memory.n_published
    play.turn(n_ticks=6)
    assert play.game.fight.n_ticks == 6
    assert (play.window.n_drawn - drawn, play.memory.n_published - published) == (1, 1)


def test_without_a_tick_nothing_is_drawn(play):
    drawn = play.window.n_drawn
    play.turn(n_ticks=0)
    assert play.window.n_drawn == drawn


def test_a_slow_machine_still_draws(play, window):
    class Behind(Due):
        def due(self, *_):
            return 5

    drawn = window.n_drawn
    play.game.run_once(Behind())
    assert window.n_drawn == drawn + 1
    assert MAX_TICKS_UNSEEN <= play.game.fight.n_ticks < MAX_TICKS_UNSEEN + 5


def test_a_tap_between_two_ticks_is_not_lost(play):
    play.turn("+w", "+j", "-j", "-w", n_ticks=0)
    play.turn(n_ticks=2)
    assert play.codes(2) == [0x20 | 16, NOTHING]


def test_a_key_that_is_held_walks(play):
    play.turn("+w", n_ticks=3)
    assert play.codes(3) == [0, 0, 0]
    play.turn("-w")
    assert play.codes(1) == [NOTHING]


def test_losing_the_focus_lets_go(play):
    play.turn("+w")
    events = play.window.events

    def lose():
        play.window.has_focus = False
        return events()

    play.window.events = lose
    play.turn()
    assert play.codes(1) == [NOTHING]


def test_a_pad_has_no_effect_while_another_window_has_the_focus(play):
    play.window.sticks = [PadState(forward=1.0, right_trigger=1.0)]
    play.window.has_focus = False
    play.turn("+pad-face_b", n_ticks=2)
    assert play.codes(2) == [NOTHING, NOTHING]
    play.window.has_focus = True
    play.turn(n_ticks=1)
    assert buttons_of(play.codes(1)[0] & CODE_ACTION) == ("heavy_attack",), "the trigger goes down now"


def test_pause_stops_the_game_shows_a_notice_and_ends_with_the_key(play):
    hud = play.game._scene.hud
    play.turn("+escape", n_ticks=6)
    play.turn(n_ticks=6)
    assert (play.game.is_paused, play.game.fight.n_ticks) == (True, 0)
    assert (hud.notice, hud.is_help_shown) == ("paused", True)
    play.turn("-escape", "+escape", n_ticks=6)
    assert (play.game.is_paused, play.game.fight.n_ticks) == (False, 6)
    assert (hud.notice, hud.is_help_shown) == ("", False)


def test_speed_0_holds_the_game_until_memory_is_changed(play):
    play.game.fight.speed = 0.0
    play.turn(n_ticks=6)
    assert play.game.fight.n_ticks == 0
    play.memory.write = lambda fight: setattr(fight, "speed", 1.0)
    play.turn(n_ticks=6)
    assert play.game.fight.n_ticks == 6


def test_restart_and_lock_on_are_commands_of_the_next_tick(play):
    play.turn("+q")
    assert play.game.fight.duel.lock_on == 0
    play.turn("+r")
    assert play.game.fight.stage == "loading"
    assert play.codes(2) == [0x40 | NOTHING, 0x80 | NOTHING]


def test_commands_of_the_window(play, caplog):
    play.turn("+f11", "+f12", n_ticks=0)
    assert play.window.did[0] == "fullscreen"
    assert "the disk is full" in caplog.text
    assert play.codes(1) == [0], "the fight knows nothing of it"


def test_help_is_shown_at_the_start_and_on_demand(window):
    play = start(window, WindowSettings(size_px=(320, 180)))
    hud = play.game._scene.hud
    assert hud.is_help_shown
    play.game.fight.n_ticks = HELP_TICKS
    play.turn()
    assert not hud.is_help_shown
    play.turn("+f1")
    assert hud.is_help_shown
    play.turn("-f1", "+f1")
    assert not hud.is_help_shown


def test_another_size_of_the_window_is_followed(play):
    play.window.size_px = (640, 480)
    play.turn()
    assert play.game._scene._size_px == (640, 480)
    play.window.size_px = (0, 0)
    play.turn()
    assert play.game._scene._size_px == (640, 480), "a window that is not there yet has no size"


def test_writes_to_a_game_are_logged(window, tmp_path):
    path = tmp_path / "game.log"
    play = start(window, WindowSettings(seed=5, size_px=(320, 180), log=path))
    play.turn("+w", "+j", n_ticks=12)
    play.memory.write = lambda fight: setattr(fight, "no_death", True)
    play.turn("-j", "-w", "+space", n_ticks=12)
    play.game.close()
    log = read_key_log(path)
    assert [type(line) is State for line in log.lines] == [False, True, False]
    replay = Replay(log)
    while not replay.is_over:
        replay.tick()
    assert replay.fight.digest() == play.game.fight.digest()


def test_a_replay_plays_instead_of_the_keys_and_ends(window, tmp_path):
    path, settings = tmp_path / "game.log", WindowSettings(seed=5, size_px=(320, 180))
    fight = new_fight(settings)
    writer = KeyLogWriter(path, fight, "judge")
    for _ in range(30):
        fight.tick(("forward",), ())
        writer.tick(fight)
    writer.close(fight)
    play = start(window, settings, Replay(read_key_log(path)))
    play.turn("+s", n_ticks=31)
    assert play.codes(30) == [0] * 30
    assert play.game.fight.digest() == fight.digest()
    for _ in range(REPLAY_END_TICKS):
        assert not play.game.is_over
        play.turn()
    assert play.game.is_over


def test_every_compiled_function_of_a_fight_is_called_before_the_game_can_be_found(monkeypatch):
    names, called = ("_live_tick", "_is_open_now", "start_animation"), []

    def noting(name):
        original = getattr(live_fight, name)
        return lambda *arguments: (called.append(name), original(*arguments))[1]

    for name in names:
        monkeypatch.setattr(live_fight, name, noting(name))
    compile_rules(WindowSettings())
    assert set(called) == set(names)
