import os
import subprocess
import sys
import tempfile
import time

import pytest

from soulslab.siphon.process import child_process
from soulslab.siphon.process.child_process import PrivateFolder

LEAVE_BEHIND = """
import os, sys
from soulslab.siphon.process.child_process import PrivateFolder
folder = PrivateFolder("test")
(folder.path / "file").write_text("left")
print(folder.path, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A separate place for temporary folders, because other tests run at the same time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(child_process, "MIN_AGE_S", -1.0)
    return tmp_path


def test_the_folder_is_private_and_removed_with_its_contents(place):
    folder = PrivateFolder("test")
    assert folder.path.parent == place
    assert folder.path.stat().st_mode & 0o777 == 0o700
    (folder.path / "deep").mkdir()
    (folder.path / "deep" / "file").write_text("text")
    folder.close()
    folder.close()
    assert list(place.iterdir()) == []


def test_folders_of_a_killed_owner_are_removed(place):
    environment = {**os.environ, "TMPDIR": str(place)}
    killed = subprocess.run(
        [sys.executable, "-c", LEAVE_BEHIND], env=environment, capture_output=True, text=True, check=False
    )
    assert killed.returncode == -9
    assert [str(path) for path in place.iterdir()] == [killed.stdout.strip()]
    other = PrivateFolder("other")
    assert len(list(place.iterdir())) == 2
    folder = PrivateFolder("test")
    assert sorted(place.iterdir()) == sorted([other.path, folder.path])
    folder.close()
    other.close()


def test_one_in_use_stays_also_when_only_a_child_of_the_owner_uses_it(place):
    folder = PrivateFolder("test")
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, pass_fds=[folder.fd])
    try:
        os.close(folder.fd)
        PrivateFolder("test").close()
        assert folder.path.exists()
    finally:
        child.communicate()
    PrivateFolder("test").close()
    assert not folder.path.exists()


def test_a_young_one_stays_as_its_owner_may_not_have_locked_it_yet(place, monkeypatch):
    monkeypatch.setattr(child_process, "MIN_AGE_S", 60.0)
    young = place / "soulslab-test-young"
    young.mkdir()
    PrivateFolder("test").close()
    assert young.exists()
    monkeypatch.setattr(time, "time", lambda: young.stat().st_ctime + 61)
    PrivateFolder("test").close()
    assert not young.exists()
