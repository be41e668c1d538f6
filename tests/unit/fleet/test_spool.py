"""The queue of messages that are not acknowledged."""

import errno
import io
import random

import pytest

from soulslab.fleet.spool import Spool


@pytest.fixture
def spool(tmp_path):
    queue = Spool(tmp_path, max_bytes=1000, memory_bytes=100)
    yield queue
    queue.close()


def drain(queue, max_bytes=250):
    found = []
    while len(queue):
        batch = queue.oldest(max_bytes)
        queue.remove(batch)
        found += batch
    return found


def test_messages_stay_in_order_from_memory_to_the_file(spool):
    messages = [bytes([i]) * 30 for i in range(20)]
    assert all(spool.append(message) for message in messages)
    assert 0 < spool.n_file_bytes < spool.n_bytes
    assert drain(spool) == messages
    assert spool.n_bytes == 0


def test_a_full_spool_refuses_and_has_space_again_when_it_was_emptied(spool):
    n = 0
    while spool.append(bytes(90)):
        n += 1
    assert n == 11  # one in memory, ten in the file
    assert not spool.has_space(90)
    assert len(drain(spool)) == n
    assert spool.append(bytes(90))


def test_messages_that_are_not_removed_are_returned_again(spool):
    for i in range(6):
        spool.append(bytes([i]) * 40)
    assert spool.oldest(100) == spool.oldest(100) == [bytes([0]) * 40, bytes([1]) * 40]


def test_random_use_keeps_the_order(tmp_path):
    generator = random.Random(3)  # noqa: S311 - not a secret
    queue, expected, found = Spool(tmp_path, 5000, 200), [], []
    for i in range(2000):
        message = i.to_bytes(2, "little") * generator.randint(1, 40)
        if queue.append(message):
            expected.append(message)
        if generator.random() < 0.5:
            batch = queue.oldest(generator.randint(1, 300))
            queue.remove(batch)
            found += batch
    assert found + drain(queue) == expected
    queue.close()


def test_a_full_disk_refuses_messages(spool, monkeypatch, caplog):
    spool.append(bytes(90))

    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool, "_write", fail)
    assert not spool.append(bytes(90))
    assert "No space left on device" in caplog.text
    assert len(spool) == 1


class FullFile(io.FileIO):
    """An unbuffered file on a full disk, which has space for all but the last byte."""

    def write(self, data):
        return super().write(data[:-1])


def test_a_message_that_is_written_in_part_is_refused(spool, tmp_path):
    messages = [bytes([i]) * 90 for i in range(3)]
    assert all(spool.append(message) for message in messages[:2])  # one in memory, one in the file
    file, spool._file = spool._file, FullFile(tmp_path / "full", "w+")
    assert not spool.append(messages[2])
    spool._file.close()
    spool._file = file
    assert spool.append(messages[2])
    assert drain(spool) == messages


def test_the_oldest_messages_in_the_file_have_at_most_the_size_asked_for(spool):
    messages = [bytes([i]) * 40 for i in range(8)]
    assert all(spool.append(message) for message in messages)
    spool.remove(spool.oldest(100))
    assert spool.n_file_bytes == spool.n_bytes
    assert spool.oldest(100) == messages[2:4]
    assert spool.oldest(120) == messages[2:5]
    assert spool.oldest(1) == messages[2:3]
