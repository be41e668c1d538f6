"""Publishing a data set where the system has the rules of Windows."""

import errno
import os
import sys

import gymnasium
import pytest

from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.demonstrations.writing import DemonstrationWriter
from support.windows_files import refuse_to_replace

ENV_ID = "CartPole-v1"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has these rules itself")
def test_a_data_set_is_published_where_only_a_writable_file_can_be_synchronized(tmp_path, monkeypatch):
    """FlushFileBuffers of Windows needs write access; without it, os.fsync raises EBADF there."""
    import fcntl  # noqa: PLC0415 - Windows lacks it

    fsync = os.fsync

    def fsync_of_windows(descriptor):
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync_of_windows)
    with DemonstrationWriter(tmp_path / "set", gymnasium.make(ENV_ID), {}, "test"):
        assert describe(tmp_path / "set").env_id == ENV_ID


def test_a_data_set_that_another_program_reads_is_published_later(tmp_path, monkeypatch):
    refusals = refuse_to_replace(monkeypatch, 3, 60.0)
    with DemonstrationWriter(tmp_path / "set", gymnasium.make(ENV_ID), {}, "test"):
        assert describe(tmp_path / "set").env_id == ENV_ID
    assert not refusals
