"""The environment of a user on Windows: Ctrl-C, names with letters of any alphabet, long paths, locked files."""

import ctypes
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import soulslab
from soulslab.arena.window.panda_window import driver_of_display
from soulslab.config.writing import dump_settings
from soulslab.errors import ChannelError, SoulslabError
from soulslab.learn.process_lock import ProcessLock
from soulslab.siphon.local import open_session
from soulslab.siphon.process.windows import running
from soulslab.siphon.recording.reading import read_recording
from soulslab.siphon.win32 import function
from support.waiting import PATIENCE_S, wait_for
from support.windows_profile import PROFILE, start_options

CTRL_C, SW_HIDE = 0, 0
NAME = "Jörg Łódź 龍 ☾"
#: Windows limits paths to 260 characters where a program does not state that it supports longer ones.
LONG = "/".join(["a folder with a name of sixty characters, as some users have"] * 5)
#: Parts of the package that a session does not need.
UNUSED = ("*.so", "*.c", "compat", "dashboard", "fights", "fleet", "integrations", "learn", "play")
#: A session of a package that is installed in a folder with such a name.
SESSION = """
import sys
sys.path.insert(0, sys.argv[1])
from soulslab.siphon.clock import lockstep_page
from soulslab.siphon.local import open_session
from support.windows_profile import PROFILE, start_options
assert sys.argv[1] in lockstep_page.__file__, lockstep_page.__file__
with open_session(PROFILE, start_options("spin", clock="lockstep")) as game:
    print(game.info.clock_grade)
"""
#: A process that ends with its parent, and loads a library that looks at standard input.
COMPANION = """
import runpy, sys, threading, time
runpy.run_path(sys.argv[1])["end_with_input"]()
time.sleep(0.2)
import numpy
print("runs", flush=True)
threading.Event().wait()
"""
HOLDER = """
import sys
from pathlib import Path
from soulslab.learn.process_lock import ProcessLock
lock = ProcessLock(Path(sys.argv[1]), "a run")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def console():
    """A console of this process; its programs get Ctrl-C, and this one ignores it."""
    for name in ("FreeConsole", "AllocConsole"):
        function("kernel32", name, ctypes.c_int)()
    window = function("kernel32", "GetConsoleWindow", ctypes.c_void_p)()
    function("user32", "ShowWindow", ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(window, SW_HIDE)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "game.toml"
    path.write_text(dump_settings(PROFILE), encoding="utf-8")
    return path


@contextmanager
def command(*arguments):
    words = [sys.executable, "-u", "-X", "utf8", "-m", "soulslab", *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8") as one:
        try:
            yield one
        finally:
            one.kill()


def press_ctrl_c():
    assert function("kernel32", "GenerateConsoleCtrlEvent", ctypes.c_int, ctypes.c_uint, ctypes.c_uint)(CTRL_C, 0)


def games():
    return [one.pid for one in running() if one.program == PROFILE.process.executable]


@pytest.mark.usefixtures("console")
def test_ctrl_c_ends_a_server_and_the_game_that_it_started(profile, game_path):
    with command("siphon", "serve", profile, "--start", "--option", f"program={game_path}") as server:
        wait_for(lambda: "Ctrl-C ends it" in server.stdout.readline(), "the server")
        assert len(games()) == 1
        press_ctrl_c()
        output, _ = server.communicate(timeout=PATIENCE_S)
        assert (server.returncode, "stopped" in output) == (0, True), output
    assert games() == []


def n_samples(file):
    try:
        return len(read_recording(file))
    except SoulslabError:
        return 0


@pytest.mark.usefixtures("console")
def test_ctrl_c_ends_a_recording_to_such_a_path_and_the_game_runs_on(profile, game_path, tmp_path):
    folder = tmp_path / NAME / LONG
    folder.mkdir(parents=True)
    own, file = Path(shutil.copy(profile, folder)), folder / "run.h5"
    # A game that is not started from this console does not get Ctrl-C.
    group = subprocess.CREATE_NEW_PROCESS_GROUP
    with subprocess.Popen([game_path, "sleep"], creationflags=group) as game:
        try:
            with command("siphon", "record", own, file, "--pid", game.pid) as recorder:
                wait_for(file.exists, "the file")  # each reader is a process
                wait_for(lambda: n_samples(file) > 10, "samples")
                press_ctrl_c()
                output, _ = recorder.communicate(timeout=PATIENCE_S)
                assert recorder.returncode == 0, output
            assert games() == [game.pid]
        finally:
            game.kill()
    recording = read_recording(file)
    assert recording.attributes["hp"].max() == 200
    assert recording.frames.shape[1:3] == (240, 320)


def test_a_game_starts_in_a_folder_with_such_a_name(tmp_path, monkeypatch):
    folder = tmp_path / NAME
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))  # the private folder of the game is there
    with open_session(PROFILE, start_options("spin", clock="lockstep")) as session:
        assert session.info.clock_grade == "lockstep"
        assert list(folder.glob("soulslab-run-*"))
    assert list(folder.glob("soulslab-run-*")) == []


def test_the_package_may_be_in_a_folder_with_such_a_name(tmp_path):
    folder = tmp_path / NAME
    shutil.copytree(Path(soulslab.__file__).parent, folder / "soulslab", ignore=shutil.ignore_patterns(*UNUSED))
    words = [sys.executable, "-X", "utf8", "-c", SESSION, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout.strip()) == (0, "lockstep"), done.stderr


def test_the_question_for_the_driver_has_an_end():
    # Under Wine a process that asks for it may hang, and leave a process that keeps its output open.
    assert isinstance(driver_of_display(), str)


def test_a_lock_is_held_until_its_process_is_killed(tmp_path):
    path = tmp_path / "lock"
    words = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ChannelError, match=r"is in use by a run \(process \d+ on .*\); end that process first"):
            ProcessLock(path, "a run")
        holder.kill()
    with ProcessLock(path, "a run"):
        pass


def test_a_process_that_ends_with_its_parent_can_load_libraries():
    words = [sys.executable, "-c", COMPANION, str(Path(soulslab.__file__).with_name("dashboard") / "child_process.py")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as companion:
        lines = queue.Queue()
        threading.Thread(target=lambda: lines.put(companion.stdout.readline())).start()
        try:
            assert lines.get(timeout=PATIENCE_S) == "runs\n"
            companion.stdin.close()
            companion.wait(PATIENCE_S)
        finally:
            companion.kill()
