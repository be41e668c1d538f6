"""Imports of a learner on Windows, here Linux without the modules that Windows lacks, and clocks of a pace.

`tests/integration/siphon/test_windows_backends.py` runs the parts of the bridge on the Windows CPython.
"""

import re
import subprocess
import sys
from pathlib import Path

import soulslab
from support.waiting import PATIENCE_S

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


def test_all_that_a_client_needs_is_there():
    code = f"{PRELUDE}\nfor name in {CLIENT}: importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr


def test_no_pace_is_kept_with_time_monotonic():
    """Before Python 3.13, time.monotonic of Windows advances in steps of 16 ms, and a sleep lasts so much too long."""
    folder = Path(soulslab.__file__).parent
    pattern = re.compile(r"time\.sleep\(.*time\.monotonic\(")
    files = {path.relative_to(folder) for path in folder.rglob("*.py") if pattern.search(path.read_text("utf-8"))}
    assert files == set()
