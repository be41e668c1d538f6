"""A file that always has the state of its last commit, compared with a copy in memory."""

import random
import zlib

import pytest

from soulslab.siphon.recording import committed_file
from soulslab.siphon.recording.committed_file import PAGE, CommittedFile, finish_commit, journal_of


class Killed(BaseException):
    """Exception that simulates kill -9: no cleanup code runs after it."""


def seeded(seed):
    return random.Random(seed)  # noqa: S311  (no secret)


def write_at_random(file, kept, rng):
    position = rng.randrange(len(kept) + 1)
    data = rng.randbytes(rng.randrange(1, 3 * PAGE))
    file.seek(position)
    assert file.write(data) == len(data)
    kept[position : position + len(data)] = data


def test_written_data_are_read_and_only_committed_data_are_kept(tmp_path):
    rng, path, kept, committed = seeded(1), tmp_path / "file", bytearray(), b""
    file = CommittedFile(path)
    for k in range(200):
        write_at_random(file, kept, rng)
        if rng.random() < 0.1:
            kept = kept[: rng.randrange(len(kept) + 1)]
            file.truncate(len(kept))
        buffer = bytearray(len(kept) + 10)
        file.seek(0)
        assert file.readinto(buffer) == len(kept)
        assert buffer[: len(kept)] == kept
        if k % 7 == 0:
            file.commit()
            committed = bytes(kept)
        # All that was committed is there, whatever was written since.
        assert path.read_bytes()[: len(committed)] == committed
    file.close()
    file.close()
    assert path.read_bytes() == committed


@pytest.mark.parametrize("seed", range(30))
def test_a_commit_that_was_interrupted_anywhere_is_finished_or_forgotten(tmp_path, monkeypatch, seed):
    rng, path = seeded(seed), tmp_path / "file"
    kept = bytearray(rng.randbytes(5 * PAGE + 123))
    file = CommittedFile(path)
    file.write(kept)
    file.commit()
    before = bytes(kept)
    for _ in range(5):
        write_at_random(file, kept, rng)
    real, calls_left = committed_file.write_at, rng.randrange(8)

    def write_at(handle, view, position):
        nonlocal calls_left
        if calls_left == 0:
            real(handle, view[: len(view) // 2], position)
            raise Killed
        calls_left -= 1
        return real(handle, view, position)

    monkeypatch.setattr(committed_file, "write_at", write_at)
    was_killed = False
    try:
        file.commit()
    except Killed:
        was_killed = True
    monkeypatch.undo()
    committed_file.os.close(file._handle)  # what a killed process leaves
    file._handle = committed_file.os.open(committed_file.os.devnull, committed_file.os.O_RDWR)
    has_journal = journal_of(path).exists()
    assert has_journal == was_killed
    assert finish_commit(path) is has_journal
    assert path.read_bytes()[: len(kept)] == kept
    assert not journal_of(path).exists()
    # A journal that was cut off was never begun to be carried out.
    path.write_bytes(before)
    nested = b"\x94\x01\x00\x80" + b"\x91" * 100_000
    for damaged in (b"\x01\x02\x03\x04incomplete", zlib.crc32(nested).to_bytes(4, "little") + nested):
        journal_of(path).write_bytes(damaged)
        assert finish_commit(path) is False
        assert path.read_bytes() == before


def test_a_journal_with_a_changed_byte_in_a_page_is_forgotten(tmp_path, monkeypatch):
    path, before = tmp_path / "file", seeded(3).randbytes(2 * PAGE)
    file = CommittedFile(path)
    file.write(before)
    file.commit()
    file.seek(100)
    file.write(b"new")

    def killed(*_):
        raise Killed

    monkeypatch.setattr(committed_file, "write_at", killed)
    with pytest.raises(Killed):
        file.commit()
    monkeypatch.undo()
    file.close()
    journal = bytearray(journal_of(path).read_bytes())
    journal[journal.index(b"new") + 1000] ^= 1
    journal_of(path).write_bytes(journal)
    assert finish_commit(path) is False
    assert path.read_bytes() == before


def test_a_file_open_for_writing_is_not_replaced(tmp_path):
    file = CommittedFile(tmp_path / "file")
    journal_of(file.path).write_bytes(b"it is on its way")
    assert finish_commit(file.path) is False
    assert journal_of(file.path).exists()
    journal_of(file.path).unlink()
    file.close()


@pytest.mark.parametrize("what", ["data", "journal"])
def test_after_a_write_that_fails_the_file_stays_at_its_last_commit(tmp_path, monkeypatch, what):
    path, before = tmp_path / "file", seeded(2).randbytes(3 * PAGE)
    file = CommittedFile(path)
    file.write(before)
    file.commit()

    def full(*_):
        raise OSError(28, "No space left on device")

    if what == "data":
        monkeypatch.setattr(committed_file, "write_at", full)
    else:
        monkeypatch.setattr(committed_file, "_write_journal", full)
    file.seek(100)
    file.write(b"x" * 4 * PAGE)
    with pytest.raises(OSError, match="No space"):
        file.commit()
    monkeypatch.undo()
    # Its user can still read the written data, and close it.
    file.seek(0, 2)
    file.write(b"more")
    buffer = bytearray(4)
    file.seek(4 * PAGE + 100)
    file.readinto(buffer)
    assert buffer == b"more"
    with pytest.raises(OSError, match="No space"):
        file.commit()
    file.close()
    assert path.read_bytes() == before


def test_refuses_to_write_over_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        CommittedFile(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"mine"
