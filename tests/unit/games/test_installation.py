"""A game in a Steam library, started by a script in place of Proton."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from soulslab.errors import ConfigError, LaunchError
from soulslab.games.dark_souls_3 import PROFILE_PATH
from soulslab.games.installation import find_installation, launchable
from soulslab.siphon.profile import load_profile
from support.launching import launch

EXE = "DarkSoulsIII.exe"
#: Does what Proton does, as far as we see it: a process of the program's name, with the folders that it was told.
PROTON = """#!/bin/bash
echo "$SteamAppId $STEAM_COMPAT_DATA_PATH $PWD" > "$STEAM_COMPAT_DATA_PATH/seen"
exec -a "$2" sleep 600
"""


@pytest.fixture
def home(tmp_path):
    """Steam with a second library that contains the game, and several Protons."""
    steam, library = tmp_path / ".steam/steam/steamapps", tmp_path / "games/steamapps"
    for folder in (steam / "common", library / "common/DARK SOULS III/Game", library / "compatdata/374320"):
        folder.mkdir(parents=True)
    (library / "common/DARK SOULS III/Game" / EXE).touch()
    (steam / "libraryfolders.vdf").write_text(f'"0"\n{{\n\t"path"\t\t"{tmp_path / "games"}"\n}}\n')
    for name in ("Proton 9.0", "Proton 10.0", "Proton - Experimental"):
        proton = steam / "common" / name / "proton"
        proton.parent.mkdir()
        proton.write_text(PROTON)
        proton.chmod(0o755)
    return tmp_path


def test_a_game_is_found_in_any_library(home):
    found = find_installation("dark_souls_3", EXE, home=home)
    assert found.folder == home / "games/steamapps/common/DARK SOULS III/Game"
    assert found.prefix == home / "games/steamapps/compatdata/374320"
    assert found.proton.parent.name == "Proton 10.0"
    given = find_installation("dark_souls_3", EXE, home=home, folder=found.folder, proton=found.proton)
    assert given == found


def test_a_missing_part_is_an_error_with_the_searched_folders(home, tmp_path):
    with pytest.raises(LaunchError, match="Steam was not found in"):
        find_installation("dark_souls_3", EXE, home=tmp_path / "nobody")
    with pytest.raises(LaunchError, match=r"eldenring\.exe was not found in .*ELDEN RING/Game"):
        find_installation("elden_ring", "eldenring.exe", home=home)
    with pytest.raises(LaunchError, match="no Proton at"):
        find_installation("dark_souls_3", EXE, home=home, proton=Path("/nowhere/proton"))
    with pytest.raises(ConfigError, match="did you mean 'dark_souls_3'"):
        find_installation("dark_souls3", EXE, home=home)


def test_the_launch_command_starts_the_program_directly(home):
    profile = launchable(load_profile(PROFILE_PATH), find_installation("dark_souls_3", EXE, home=home))
    game = launch(profile.process)
    try:
        arguments = Path(f"/proc/{game.pid}/cmdline").read_text().split("\0")
        assert arguments[0].endswith(EXE)
        library = home / "games/steamapps"
        seen = (library / "compatdata/374320/seen").read_text()
        assert seen == f"374320 {library}/compatdata/374320 {library}/common/DARK SOULS III/Game\n"
    finally:
        game.kill()


LAUNCH = """
import sys
from pathlib import Path
from soulslab.errors import AntiCheatError
from soulslab.games.dark_souls_3 import DarkSouls3
try:
    DarkSouls3.launch(home=Path(sys.argv[1]))
except AntiCheatError as error:
    print(error)
"""


def test_launch_is_refused_while_an_anti_cheat_runs(home):
    # In one Windows installation, but in sessions of their own: the anti-cheat is nobody else's.
    own = {"env": {**os.environ, "WINEPREFIX": str(home)}, "start_new_session": True}
    program = home / "EasyAntiCheat_EOS.exe"
    shutil.copy(shutil.which("sleep"), program)
    with subprocess.Popen([program, "600"], **own) as anti_cheat:
        try:
            said = subprocess.run(
                [sys.executable, "-c", LAUNCH, home], check=False, capture_output=True, text=True, **own
            )
        finally:
            anti_cheat.kill()
    assert said.stdout.startswith("an anti-cheat is loaded: "), said.stderr
    assert "EasyAntiCheat" in said.stdout
    assert not (home / "games/steamapps/compatdata/374320/seen").exists()
