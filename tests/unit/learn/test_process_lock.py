"""A lock that one process at a time holds, and runs that keep others out of their folder."""

import os
import subprocess
import sys

import pytest

from soulslab.errors import ChannelError
from soulslab.learn import process_lock as lock_module
from soulslab.learn.process_lock import ProcessLock, is_held


def test_a_lock_is_held_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "WAIT_S", 0.02)
    path = tmp_path / "lock"
    assert not is_held(path)
    with ProcessLock(path, "an actor"):
        assert is_held(path)
        with pytest.raises(
            ChannelError, match=rf"is in use by an actor \(process {os.getpid()} on .+, since 20.+\); end that process"
        ):
            ProcessLock(path, "an actor")
        assert is_held(path)
    assert not is_held(path)
    ProcessLock(path, "an actor").release()


def test_a_lock_file_without_a_holder_is_still_a_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "WAIT_S", 0.02)
    path = tmp_path / "lock"
    with ProcessLock(path, "an actor"):
        path.write_bytes(b"")
        with pytest.raises(ChannelError, match="is in use by an actor; end that process"):
            ProcessLock(path, "an actor")


def test_a_process_that_is_killed_lets_go(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from soulslab.learn.process_lock import ProcessLock;"
        "lock = ProcessLock(Path(sys.argv[1]), 'an actor'); print('held', flush=True); time.sleep(600)"
    )
    path = tmp_path / "lock"
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "held\n"
        assert is_held(path)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert not is_held(path)
    ProcessLock(path, "an actor").release()


def test_a_lock_in_no_folder_is_an_error(tmp_path):
    with pytest.raises(ChannelError, match="could not be opened"):
        ProcessLock(tmp_path / "gone/lock", "an actor")
    assert not is_held(tmp_path / "gone/lock")
