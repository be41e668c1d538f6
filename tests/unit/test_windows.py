"""What a learner on Windows imports, and what it is told of what only Linux has.

Here Windows is Linux without the modules that Windows lacks.
"""

import subprocess
import sys

DEADLINE_S = 120
#: Of the standard library and of ours: what Windows lacks. Other packages are imported before, as they are Linux's.
PRELUDE = """
import importlib, sys
import asyncio, concurrent.futures, multiprocessing, subprocess, tempfile
import av, cv2, cyclopts, filelock, grpc, gymnasium, h5py, llvmlite.binding, numba, numpy, psutil
import rich.console, rich.live
import simplejpeg

for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "xcffib"):
    sys.modules[name] = None
sys.platform = "win32"
"""
CLIENT = (
    "soulslab.cli",
    "soulslab.cli.games",
    "soulslab.cli.siphon",
    "soulslab.doctor",
    "soulslab.envs.tasks.process.doom",
    "soulslab.compat.eldengym",
    "soulslab.envs.tasks.duel.arena_live",
    "soulslab.envs.tasks.souls.souls_env",
    "soulslab.envs.wrappers",
    "soulslab.games.dark_souls_3",
    "soulslab.games.elden_ring",
    "soulslab.games.self_check_table",
    "soulslab.siphon.recording.reading",
    "soulslab.siphon.rpc.client",
    "soulslab.siphon.rpc.foreground_server",
    "soulslab.siphon.terminal_output",
)


def on_windows(code):
    """Return what a program prints there."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_that_a_client_needs_is_there():
    on_windows(f"for name in {CLIENT}: importlib.import_module(name)")


LOCAL_GAMES = [
    ("soulslab/DarkSouls3Iudex-v0", {"pid": 4}),
    ("soulslab/DarkSouls3Iudex-v0", {"stand_in": True}),
    ("soulslab/EldenRingMargit-v0", {"launch": True}),
    ("soulslab/Doom-v0", {}),
]


def test_a_game_of_this_machine_is_refused():
    said = on_windows(f"""
import soulslab
for env_id, options in {LOCAL_GAMES}:
    try:
        gymnasium.make(env_id, **options).reset()
    except soulslab.errors.ProcessError as error:
        print(error)
""")
    lines = said.splitlines()
    assert len(lines) == len(LOCAL_GAMES)
    for line in lines:
        assert "started on Linux only, and this is win32; serve the game on the Linux machine" in line


def test_no_recording_is_written(tmp_path):
    said = on_windows(f"""
from pathlib import Path
from soulslab.errors import RecordingError
from soulslab.siphon.recording.committed_file import CommittedFile
try:
    CommittedFile(Path({str(tmp_path / "fight.h5")!r}))
except RecordingError as error:
    print(error)
""")
    assert "recordings are not written on Windows; record on the machine of the server" in said
    assert not (tmp_path / "fight.h5").exists()


def test_the_doctor_reports_where_games_can_be_read():
    said = on_windows("""
from soulslab.doctor import check_memory, check_real_games
for check in (*check_memory(), *check_real_games()):
    print(check.name, check.remedy, sep=": ")
""")
    assert said.splitlines() == [
        "reading games: only on Linux; games on a server can be used",
        "game dark_souls_3: use a game on a Linux server, with server=; see docs/dark_souls_3.md",
        "game elden_ring: use a game on a Linux server, with server=; see docs/elden_ring.md",
    ]
