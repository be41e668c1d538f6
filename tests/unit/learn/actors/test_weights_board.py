"""Weights in shared memory: readers get the newest complete version, also if a process is killed."""

import signal
import sys

import pytest

from soulslab.errors import ChannelError
from support.forked import ForkedPopen
from support.memory_parts import create_weights, open_weights
from support.steps import assert_of_one_version, some_weights
from support.waiting import wait_for


def test_there_are_none_at_first(tmp_path):
    board = create_weights(tmp_path / "weights", some_weights(0).tensors, 1)
    assert board.read() is None
    assert board.n_published == 0


def test_the_newest_ones_are_read(tmp_path):
    board = create_weights(tmp_path / "weights", some_weights(0).tensors, 1)
    reader = open_weights(tmp_path / "weights")
    for version in range(5):
        board.publish(some_weights(version))
        published = reader.read()
        assert published.weights.version == version
        assert_of_one_version(published.weights)
    assert reader.n_published == 5


def test_they_are_copies(tmp_path):
    board = create_weights(tmp_path / "weights", some_weights(0).tensors, 1)
    board.publish(some_weights(1))
    weights = board.read().weights
    for version in range(2, 5):
        board.publish(some_weights(version))
    assert_of_one_version(weights)


def test_larger_ones_are_refused(tmp_path):
    board = create_weights(tmp_path / "weights", some_weights(0).tensors, 1)
    with pytest.raises(ChannelError, match="more than fit into this memory"):
        board.publish(some_weights(1, n=2000))
    assert board.read() is None


def test_each_learner_begins_an_era(tmp_path):
    board = create_weights(tmp_path / "weights", some_weights(0).tensors, 1)
    board.begin_era()
    board.publish(some_weights(5))
    assert board.read().era == 1
    again = open_weights(tmp_path / "weights")
    again.begin_era()
    assert board.read().era == 1
    again.publish(some_weights(4))
    assert board.read().era == 2
    assert board.read().weights.version == 4


def test_what_is_damaged_is_not_read(tmp_path):
    board = create_weights(tmp_path / "weights", some_weights(0).tensors, 1)
    board.publish(some_weights(1))
    path = tmp_path / "weights"
    data = bytearray(path.read_bytes())
    at = data.index(some_weights(1).tensors["parameters"].tobytes())
    for place in (at, at + 100, 4096 + len(data[4096:]) // 2 + 32):  # the last one: epsilon, in the second place
        changed = bytearray(data)
        changed[place] ^= 1
        with path.open("r+b") as file:
            file.write(changed)
        assert board.read() is None


# It publishes what `some_weights` returns.
WRITER = """
import sys
from pathlib import Path
import numpy as np
from soulslab.learn.actors.transport import Weights
from soulslab.learn.actors.memory_block import open_block
from soulslab.learn.actors.weights_board import LAYOUT, WeightsBoard
board = WeightsBoard(open_block(Path(sys.argv[1]), "weights", LAYOUT))
version = 0
while True:
    version += 1
    tensors = {
        "parameters": np.full(20000, version, np.float32),
        "mean": np.full(3, version, np.float64),
        "count": np.array(version, np.float64),
    }
    board.publish(Weights(version=version, epsilon=1.0 / (1 + version), tensors=tensors))
"""


def test_no_reader_ever_sees_a_mixture_also_when_the_writer_is_killed(tmp_path):
    board = create_weights(tmp_path / "weights", some_weights(0, n=20000).tensors, 1)
    for _ in range(2):
        before = board.n_published
        child = ForkedPopen([sys.executable, "-c", WRITER, str(tmp_path / "weights")])
        try:
            wait_for(lambda: board.n_published > before, "weights")  # noqa: B023 - called at once
            versions = []
            while len(versions) < 100 or len(set(versions)) < 2:
                published = board.read()
                if published is not None:
                    assert_of_one_version(published.weights)
                    versions.append(published.weights.version)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert versions == sorted(versions)
        # Killed in whatever moment: whole weights are there, at once.
        assert_of_one_version(board.read().weights)
