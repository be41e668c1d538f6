"""Starting games on Windows: jobs, private folders, output, and what happens when the starter is killed."""

import os
import subprocess
import sys
from ctypes import wintypes

import pytest

from soulslab.errors import ConfigError, ControlTakenError, LaunchError, ProcessExitedError
from soulslab.siphon.process.windows_claim import WindowsControlClaim
from soulslab.siphon.process.windows_launch import start_command
from soulslab.siphon.profile import Process
from soulslab.siphon.win32 import function
from support.waiting import wait_for

PYTHON = sys.executable
SYNCHRONIZE, WAIT_TIMEOUT = 0x100000, 258
SLEEP = "import sys, time; print(sys.argv[1:], flush=True); time.sleep(600)"


def python(code, *arguments, name="python.exe", **facts):
    return Process(executable=name, command=(PYTHON, "-c", code, *arguments), **facts)


def is_running(pid):
    open_process = function("kernel32", "OpenProcess", wintypes.HANDLE, wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    wait = function("kernel32", "WaitForSingleObject", wintypes.DWORD, wintypes.HANDLE, wintypes.DWORD)
    handle = open_process(SYNCHRONIZE, False, pid)
    if not handle:
        return False
    try:
        return wait(handle, 0) == WAIT_TIMEOUT
    finally:
        function("kernel32", "CloseHandle", wintypes.BOOL, wintypes.HANDLE)(handle)


def test_a_game_gets_its_options_and_its_folder():
    facts = python(SLEEP, "{level}", "{directory}", options={"level": "1"}, environment={"WORD": "{level}"})
    game = start_command(facts, options={"level": "7 8"})
    try:
        game.find_game("PYTHON.EXE", 10.0)
        wait_for(game.output_tail, "its output")
        assert game.output_tail() == repr(["7 8", str(game.directory)])
        assert game.directory.is_dir()
        assert game.pid in game.processes()
        assert not game.has_ended
        assert game.status() is None
    finally:
        game.kill()
    assert game.has_ended
    assert game.status() is not None
    assert not game.directory.exists()
    game.kill()


def test_the_children_of_a_game_end_with_it():
    code = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(600)"
    # Wine sometimes took 20 s to end a process that had not reached its own code.
    game = start_command(python(code, "import time; open('runs', 'w').close(); time.sleep(600)"))
    wait_for((game.directory / "runs").exists, "the child of the game")
    pids = game.processes()
    assert len(pids) == 2
    game.kill()
    assert not [pid for pid in pids if is_running(pid)]


def test_a_game_ends_when_its_starter_is_killed():
    code = (
        "import sys, time\n"
        "from soulslab.siphon.process.windows_launch import start_command\n"
        "from soulslab.siphon.profile import Process\n"
        f"process = Process(executable='python.exe', command=(sys.executable, '-c', {SLEEP!r}))\n"
        "print(start_command(process).pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE, text=True) as starter:
        pid = int(starter.stdout.readline())
        assert is_running(pid)
        starter.kill()
    wait_for(lambda: not is_running(pid), "the end of the game")


def test_a_command_that_ends_at_once():
    game = start_command(python("print('no save file'); raise SystemExit(3)", name="game.exe"))
    with pytest.raises(LaunchError, match=r"ended at once, with exit status 3, .*(?s:.*)no save file"):
        game.find_game("game.exe", 10.0)
    game.kill()


def test_a_program_that_another_one_starts():
    code = "import subprocess, sys, time; subprocess.Popen(['notepad.exe']); time.sleep(600)"
    game = start_command(python(code, name="notepad.exe"))
    try:
        game.find_game("notepad.exe", 20.0)
        assert len(game.processes()) >= 2
        assert not game.has_ended
    finally:
        game.kill()
    assert game.has_ended


@pytest.mark.parametrize(
    ("facts", "error", "problem"),
    [
        (Process(executable="a.exe", command=("no such program.exe",)), LaunchError, "was not found"),
        (Process(executable="a.exe", command=(PYTHON, "{level}")), ConfigError, "unknown option {level}"),
        (Process(executable="a.exe"), ConfigError, "start it yourself"),
    ],
)
def test_wrong_commands(facts, error, problem):
    with pytest.raises(error, match=problem):
        start_command(facts)


def test_a_game_has_one_controller(game):
    claim = WindowsControlClaim(game.pid, "toys/A-v0")
    with pytest.raises(ControlTakenError, match=r"another environment of this process \(toys/A-v0\) controls the game"):
        WindowsControlClaim(game.pid, "toys/B-v0")
    WindowsControlClaim(os.getpid(), "toys/C-v0").release()
    claim.release()
    claim.release()
    WindowsControlClaim(game.pid, "toys/B-v0").release()
    with pytest.raises(ProcessExitedError, match="process 3 has ended"):
        WindowsControlClaim(3, "toys/B-v0")


def test_a_killed_process_controls_nothing(game):
    code = (
        "import sys, time; from soulslab.siphon.process.windows_claim import WindowsControlClaim\n"
        "claim = WindowsControlClaim(int(sys.argv[1]), 'toys/A-v0'); print('ready', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([PYTHON, "-c", code, str(game.pid)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(ControlTakenError, match=rf"toys/A-v0 in process {other.pid} controls the game"):
            WindowsControlClaim(game.pid, "toys/B-v0")
        other.kill()

    def is_free():
        try:
            WindowsControlClaim(game.pid, "toys/B-v0").release()
        except ControlTakenError:
            return False
        return True

    wait_for(is_free, "the end of the claim")
