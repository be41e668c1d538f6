"""The bridge with the programs that have the memory of Elden Ring and Dark Souls III, on Windows."""

import shutil
import subprocess
import winreg
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from soulslab.errors import LaunchError, SaveFileError
from soulslab.games.dark_souls_3 import DarkSouls3
from soulslab.games.elden_ring import EldenRing
from soulslab.games.installation import APPS, STEAM_KEYS
from soulslab.games.save_files import backup, find_save_file, restore
from soulslab.siphon.local import open_session
from soulslab.siphon.session import SessionOptions, Step
from support.souls_program import (
    HEAVY_DAMAGE,
    LIGHT_DAMAGE,
    NAMES,
    PADS,
    PROFILES,
    START,
    WALK_M_S,
    Frames,
    compiled,
    plays,
)
from support.souls_program_contract import GAMES, TICK_S, SoulsProgramContract, go_to_the_middle_of_a_frame
from support.waiting import wait_for

LOCKSTEP = SessionOptions(launch="always", clock="lockstep", input_backend="pad")
N_FRAMES, N_WALKED = 60, 30


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def running(name):
    one = compiled()[name]
    with subprocess.Popen([one.path]) as process:
        try:
            wait_for(lambda: plays(one, process.pid), "the game")
            frames = Frames(one, process.pid)
            yield process.pid, frames
            frames.close()
        finally:
            process.kill()


class TestSoulsPrograms(SoulsProgramContract):
    input_backend = "sendinput"


@pytest.fixture(params=PROFILES)
def started(request):
    """A game that the session has started with the clock library, and its counters."""
    one, profile = compiled()[request.param], PROFILES[request.param]
    process = msgspec.structs.replace(profile.process, command=(str(one.path), "pad"))
    session = open_session(msgspec.structs.replace(profile, process=process), LOCKSTEP)
    with GAMES[request.param](session) as game:
        frames = Frames(one, session.info.pid)
        yield game, frames
        frames.close()


def test_in_lockstep_each_step_is_a_frame_and_each_action_works_by_pad(started):
    game, frames = started
    session, keys = game.session, game.session.profile.keys
    assert (session.info.clock_grade, session.info.input_backend) == ("lockstep", "pad")
    go_to_the_middle_of_a_frame(session, frames)
    first = frames.n_done
    for n in range(1, N_FRAMES + 1):
        session.clock.advance(TICK_S)
        assert frames.n_done == first + n
    hp, locked = game.boss.hp, session.read("lock_on")
    pressed = dict.fromkeys(PADS[game.name], 0)
    assert session.profile.pad.keys() == pressed.keys()
    for action in pressed:
        for held in ((keys[action],), ()):
            session.step(Step(held=held, advance_s=TICK_S))
        pressed[action] += 1
        assert frames.n_presses(game.name) == pressed, action
    assert hp - game.boss.hp == LIGHT_DAMAGE + HEAVY_DAMAGE
    assert session.read("lock_on") is not locked
    before = game.player.position_m
    for held in [(keys["forward"],)] * N_WALKED + [()] * 2:
        session.step(Step(held=held, advance_s=TICK_S))
    assert game.player.position_m[1] - before[1] == pytest.approx(N_WALKED * TICK_S * WALK_M_S, abs=1e-3)


@pytest.fixture
def library(tmp_path):
    """The second library of a Steam that the registry names."""
    steam, library = tmp_path / "Steam", tmp_path / "Spiele für Åsa"
    (steam / "steamapps").mkdir(parents=True)
    escaped = str(library).replace("\\", "\\\\")
    listing = f'"1"\n{{\n\t"path"\t\t"{escaped}"\n}}\n'
    (steam / "steamapps/libraryfolders.vdf").write_text(listing, encoding="utf-8")
    name, value = STEAM_KEYS[0]
    with winreg.CreateKey(winreg.HKEY_CURRENT_USER, name) as key:
        winreg.SetValueEx(key, value, 0, winreg.REG_SZ, steam.as_posix())
    yield library
    winreg.DeleteKey(winreg.HKEY_CURRENT_USER, name)


def test_a_game_of_steam_is_started_without_its_launcher(library):
    one = compiled()["dark_souls_3"]
    folder = library / "steamapps/common" / APPS["dark_souls_3"].folder
    folder.mkdir(parents=True)
    shutil.copy(one.path, folder)
    with pytest.raises(LaunchError, match=r"eldenring\.exe was not found in .*Åsa"):
        EldenRing.launch(options=LOCKSTEP)
    with DarkSouls3.launch(options=LOCKSTEP) as game:
        assert Path(game.session.info.executable).samefile(folder / one.path.name)
        assert game.session.info.clock_grade == "lockstep"
        assert game.player.hp == START["player.hp"]
        with closing(Frames(one, game.session.info.pid)) as frames:
            assert (frames.steam_app, frames.is_in_its_folder) == (374320, True)


def test_a_machine_without_steam():
    with pytest.raises(LaunchError, match="Steam was not found in the registry"):
        DarkSouls3.launch(options=LOCKSTEP)


@pytest.mark.parametrize("souls", NAMES)
def test_the_save_file_of_this_user_is_copied_and_restored(souls, tmp_path, monkeypatch):
    monkeypatch.setenv("APPDATA", str(tmp_path / "Åsa"))
    with pytest.raises(SaveFileError, match=r"contains no .*\.sl2; start the game once"):
        find_save_file(souls)
    folder, file = {"dark_souls_3": ("DarkSoulsIII", "DS30000.sl2"), "elden_ring": ("EldenRing", "ER0000.sl2")}[souls]
    path = tmp_path / "Åsa" / folder / "76561197960265729" / file
    path.parent.mkdir(parents=True)
    path.write_text("BND4 of Åsa", encoding="utf-8")
    save, copy = find_save_file(souls), tmp_path / "before.sl2"
    assert save.samefile(path)
    backup(save, copy)
    save.write_bytes(b"another")
    restore(copy, save)
    assert save.read_text(encoding="utf-8") == "BND4 of Åsa"
    with save.open("r+b"), pytest.raises(SaveFileError, match="open for writing"):
        restore(copy, save)
