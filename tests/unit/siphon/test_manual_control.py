"""Manual control of a game: taps, toggled keys, mouse, frames, and the shell."""

import io

import cv2
import pytest
from rich.console import Console

from soulslab.errors import ConfigError, UnknownKeyError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.manual_control import COMMANDS, ManualControl, Shell
from soulslab.siphon.terminal_output import format_value
from soulslab.testing.fake_arena import FakeArenaSession


@pytest.fixture
def session():
    with FakeArenaSession() as one:
        one.clock.pause()
        yield one


@pytest.fixture
def sent(session, monkeypatch):
    """The held keys after each change, with the game time (ms)."""
    log = []
    real = session.input.set_held

    def noted(keys, again=()):
        real(keys, again)
        log.append((tuple(keys), round(session.clock.game_time_s * 1000)))

    monkeypatch.setattr(session.input, "set_held", noted)
    return log


def since(log):
    start = log[0][1]
    return [(keys, at_ms - start) for keys, at_ms in log]


def test_a_tap_presses_holds_and_releases_in_order(session, sent):
    with ManualControl(session) as control:
        control.tap(["w", "SPACE"], hold_s=0.2, delay_s=0.1)
    assert since(sent) == [(("W",), 0), (("W", "SPACE"), 100), (("SPACE",), 300), ((), 400)]


def test_actions_of_the_profile_are_keys(session, sent):
    ManualControl(session).tap(["roll"], hold_s=0.1)
    assert sent[0][0] == (session.profile.keys["roll"],)


def test_an_unknown_key_sends_nothing(session, sent):
    with pytest.raises(UnknownKeyError, match="did you mean 'SPACE'"):
        ManualControl(session).tap(["W", "SPACEE"])
    with pytest.raises(ConfigError, match="name at least one key"):
        ManualControl(session).tap([])
    assert sent == []


def test_toggled_keys_stay_down_through_a_tap_and_end_with_the_context(session):
    with ManualControl(session) as control:
        control.toggle(["W", "A"])
        control.tap(["SPACE"], hold_s=0.1)
        assert session.input.held == {"W", "A"}
        control.toggle(["A"])
        assert (control.down, session.input.held) == (("W",), {"W"})
    assert session.input.held == frozenset()


def test_an_interrupted_tap_releases_its_keys(session, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    control = ManualControl(session)
    monkeypatch.setattr(session.clock, "advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        control.tap(["W"], hold_s=1.0)
    assert session.input.held == frozenset()


def test_the_mouse_moves_in_parts_that_add_up(session, monkeypatch):
    moved = []
    monkeypatch.setattr(session.input, "move_mouse", lambda dx, dy: moved.append((dx, dy)))
    ManualControl(session).move(100, -7, n_steps=3)
    assert len(moved) == 3
    assert (sum(dx for dx, _ in moved), sum(dy for _, dy in moved)) == (100, -7)


def test_a_stream_writes_numbered_pictures(session, tmp_path):
    folder = tmp_path / "frames" / "new"
    taken = ManualControl(session).stream(folder, FrameFormat(64, 36), rate_hz=1000, n_frames=3)
    assert (taken.n_frames, taken.size_px) == (3, (64, 36))
    assert sorted(file.name for file in folder.iterdir()) == ["000001.png", "000002.png", "000003.png"]
    assert cv2.imread(str(folder / "000003.png")).shape == (36, 64, 3)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file: cannot be made"):
        ManualControl(session).stream(tmp_path / "file", FrameFormat(64, 36), rate_hz=10, n_frames=1)


def shell(session, *lines, is_interactive=False):
    """Run lines; return what was printed."""
    console = Console(file=io.StringIO(), width=200)
    with ManualControl(session) as control:
        Shell(control, console).run(lines, is_interactive=is_interactive)
    return console.file.getvalue()


def test_shell_lines_are_executed(session, tmp_path):
    before = session.clock.game_time_s
    picture = tmp_path / "now.png"
    said = shell(
        session, "# a remark", "", "get player.hp", "toggle W", "hold space 0.2", "wait 0.3", f"capture {picture}",
        "toggle W", "info", "help", "quit", "nonsense"
    )  # fmt: skip
    assert f"player.hp = {format_value(session.read('player.hp'))}" in said
    assert "down: W\n" in said
    assert "down: (none)" in said
    assert all(usage in said for usage, *_ in COMMANDS.values())
    assert session.clock.game_time_s - before == pytest.approx(0.5, abs=0.02)
    assert picture.exists()


def test_a_path_of_windows_in_a_shell_line(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.platform", "win32")
    shell(session, r"capture C:\temp\a.png", r'capture "C:\my pictures\b.png"')
    assert {path.name for path in tmp_path.iterdir()} == {r"C:\temp\a.png", r"C:\my pictures\b.png"}


def test_a_script_stops_at_its_first_mistake_and_the_prompt_continues(session):
    with pytest.raises(ConfigError, match="unknown command; did you mean 'toggle'") as caught:
        shell(session, "wait 0.1", "togle W", "get")
    assert caught.value.__notes__ == ["This was line 2: togle W"]
    for line, message in (
        ("hold W", "needs more arguments: hold KEY"),
        ("wait long", "long: is not a number"),
        ("wait nan", "nan: is not a number"),
    ):
        with pytest.raises(ConfigError, match=message):
            shell(session, line)
    said = shell(session, "togle W", 'tap "W', "get player.hp", is_interactive=True)
    assert "did you mean 'toggle'" in said
    assert "cannot be split" in said
    assert "player.hp = " in said


def test_a_paused_game_may_take_as_long_as_the_requested_time(session, monkeypatch):
    """A game at its own speed takes 12 s of wall time for 12 s of game time, more than the clock's default deadline."""
    deadlines = []
    monkeypatch.setattr(session.clock, "advance", lambda _, deadline_s=10.0: deadlines.append(deadline_s))
    ManualControl(session).tap(["W"], hold_s=12.0)
    assert len(deadlines) == 1
    assert deadlines[0] > 12.0
