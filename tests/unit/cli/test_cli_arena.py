"""``soulslab arena``: its flags, and errors before a window opens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from soulslab import cli
from soulslab.arena.boss_file import BOSS_DIR
from soulslab.arena.window.settings import KEYS
from soulslab.cli import arena as cli_arena
from soulslab.errors import ConfigError
from soulslab.games import known_games, profile_path
from soulslab.games.arena import PROFILE_PATH, stand_in
from soulslab.siphon.profile import load_profile


@pytest.fixture
def started(monkeypatch):
    """Return the arguments of the game's start."""
    games = []
    monkeypatch.setattr("soulslab.arena.window.game_loop.run", lambda *arguments: games.append(arguments))
    monkeypatch.setattr("soulslab.arena.window.memory.profile_memory.set_process_name", games.append)
    return games


def said(capsys):
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return " ".join(captured.err.replace("│", " ").split())


def has_fight(game):
    return load_profile(profile_path(Path(game))).duel is not None


def filled(command, options):
    """Return a profile's command with its options."""
    return [text.format(**options) for text in command]


def test_every_flag_has_a_help_text(capsys):
    assert cli.run(["arena", "--help"]) == 0
    rows = [row.strip("│ ") for row in capsys.readouterr().out.splitlines() if row.startswith("│")]
    flags = [row for row in rows if row.startswith("--")]
    assert len(flags) > 12
    assert all(len(row.split()) > 2 for row in flags)


def test_help_imports_no_large_packages():
    code = (
        "import sys; sys.argv = ['soulslab']; from soulslab.cli import run; run(['arena', '--help']);"
        "print([name for name in ('numpy', 'numba', 'panda3d', 'gymnasium', 'h5py') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_launch_command_of_the_profile_is_valid(started):
    profile = load_profile(PROFILE_PATH)
    command = filled(profile.process.command, profile.process.options)
    assert command[:2] == ["soulslab", "arena"]
    assert cli.run(command[1:]) == 0
    name, (settings, _, replay) = started
    assert name == profile.process.executable
    assert (settings.size_px, settings.renderer, settings.title) == ((320, 180), "software", "soulslab arena")
    assert not settings.shows_help, "pictures for a learner show the fight"
    assert replay is None


@pytest.mark.parametrize("game", [name for name in known_games() if name != "arena" and has_fight(name)])
def test_a_stand_in_has_the_names_and_keys_of_the_other_game(started, game):
    profile = stand_in(profile_path(Path(game)))
    assert cli.run(filled(profile.process.command, profile.process.options)[1:]) == 0
    name, (settings, *_) = started
    assert name == profile.process.executable
    assert settings.title == (profile.process.window_title or profile.name)
    for command in ("forward", "roll", "light_attack"):
        assert settings.keys[command] == profile.keys[command]
    assert settings.keys["pause"] == "F10", "who presses Esc wants the menu of the other game"


def test_keys_come_from_a_file_and_from_single_flags(started, tmp_path):
    file = tmp_path / "keys.toml"
    file.write_text('roll = "LEFT_SHIFT"\nparry = "MOUSE_RIGHT"\n[pad]\nroll = "face_a"\n')
    assert cli.run(["arena", "--keys", str(file), "--key", "parry=C", "--key", "lock_on=MOUSE_MIDDLE"]) == 0
    settings = started[1][0]
    changes = {"roll": "LEFT_SHIFT", "parry": "C", "lock_on": "MOUSE_MIDDLE"}
    assert settings.keys == {**KEYS, **changes}
    assert settings.pad["face_a"] == "roll"


def test_window_flags(started, tmp_path):
    boss = tmp_path / "mine.toml"
    boss.write_text((BOSS_DIR / "judge.toml").read_text(encoding="utf-8"), encoding="utf-8")
    flags = ["--boss", str(boss), "--phase", "2", "--seed", "9", "--poses", "random", "--size", "640x360"]
    flags += ["--renderer", "gpu", "--fullscreen", "--speed", "0.5", "--buttons", "--log", "game.log"]
    assert cli.run(["arena", *flags]) == 0
    settings = started[1][0]
    assert (settings.boss, settings.phase, settings.seed, settings.random_pose) == (boss, "2", 9, True)
    assert (settings.size_px, settings.renderer, settings.is_fullscreen) == ((640, 360), "gpu", True)
    assert (settings.speed, settings.shows_buttons, settings.log) == (0.5, True, Path("game.log"))
    assert settings.shows_help


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--size", "800"], "--size: must be width x height"),
        (["--size", "8x8"], "each from 64 to 8192 pixels, not '8x8'"),
        (["--key", "roll"], "is not of the form action=KEY"),
        (["--key", "roll=SHIFT"], "there is no key 'SHIFT'; did you mean 'LEFT_SHIFT'"),
        (["--key", "rol=SPACE"], "no such action; did you mean 'roll'"),
        (["--key", "roll=W"], "W is already the key of forward"),
        (["--keys", "none.toml"], "none.toml: cannot be read"),
        (["--mask", "dark_soul_3"], "neither a profile file nor"),
        (["--mask", "doom"], "duel: is missing; the profile does not state which attributes hold a fight"),
        (["--replay", "none.log", "--seed", "3"], "takes the fight from the log; leave out"),
        (["--replay", "none.log", "--log", "new.log"], "--log: records a game that a person plays"),
    ],
)
def test_wrong_flags_are_errors(capsys, flags, problem):
    assert cli.run(["arena", *flags]) == cli.EXIT_USAGE
    assert problem in said(capsys)


@pytest.mark.parametrize(
    ("boss", "problem"),
    [("juge", "unknown boss 'juge'; did you mean 'judge'"), ("none.toml", "none.toml: cannot be read: ")],
)
def test_a_missing_boss_is_reported_before_a_window_opens(capsys, monkeypatch, boss, problem):
    monkeypatch.setattr("soulslab.arena.window.game_loop.Window", lambda _: pytest.fail("a window was opened"))
    monkeypatch.setattr("soulslab.arena.window.memory.profile_memory.set_process_name", lambda _: None)
    assert cli.run(["arena", "--boss", boss]) != 0
    assert problem in said(capsys)


def test_a_missing_log_is_an_error(capsys):
    assert cli.run(["arena", "--replay", "none.log"]) == cli.EXIT_FAILED
    assert "none.log: cannot be read: No such file" in said(capsys)


def test_a_missing_recording_is_an_error(capsys):
    assert cli.run(["arena", "--replay", "none.h5"]) == cli.EXIT_FAILED
    assert "none.h5" in said(capsys)


def test_a_missing_package_is_an_error(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "panda3d", None)
    monkeypatch.setitem(sys.modules, "panda3d.core", None)
    for name in [name for name in sys.modules if name.startswith("soulslab.arena.window.")]:
        monkeypatch.delitem(sys.modules, name)
    assert cli.run(["arena"]) == cli.EXIT_FAILED
    assert "panda3d is not installed; install it with: pip install 'soulslab[window]'" in said(capsys)


def test_sizes():
    assert cli_arena._size("800x450") == (800, 450)
    with pytest.raises(ConfigError):
        cli_arena._size("800 x 450")
