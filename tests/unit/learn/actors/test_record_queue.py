"""The queue in shared memory, against a plain list; with two processes, and with memory that is not right."""

import sys
import tempfile
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from soulslab.errors import ChannelError
from soulslab.learn.actors import memory_block as ring_module
from soulslab.learn.actors.memory_block import slot_size
from support.forked import ForkedPopen
from support.memory_parts import create_queue, open_queue
from support.steps import ROW

ITEM = np.dtype([("value", "<i4"), ("rest", "u1", (3,))])


def items(start, n):
    found = np.zeros(n, ITEM)
    found["value"] = np.arange(start, start + n)
    return found


class RingMachine(RuleBasedStateMachine):
    """Writer and reader come and go; the model is the list of all that was ever written."""

    @initialize(capacity=st.integers(1, 9))
    def make(self, capacity):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ring"
        self.writer = create_queue(self.path, "test", ITEM, capacity, 1)
        self.reader = open_queue(self.path, "test", ITEM)
        self.capacity = capacity
        self.n_written = self.n_taken = self.n_safe = self.n_dropped = self.furthest = 0
        self.waiting = deque()

    @rule(n=st.integers(0, 5))
    def push(self, n):
        has_room = self.writer.push(items(self.n_written, n))
        assert has_room == (self.n_written + n - self.writer.freed <= self.capacity)
        if has_room:
            self.waiting += range(self.n_written, self.n_written + n)
            self.n_written += n
        else:
            self.writer.count_dropped(n)
            self.n_dropped += n

    @rule()
    def take(self):
        assert self.reader.take()["value"].tolist() == list(self.waiting)
        self.n_taken = self.furthest = self.n_written
        self.waiting.clear()

    @rule()
    def commit(self):
        self.n_safe = self.n_taken
        self.reader.free(self.n_safe)

    @rule()
    def restart_the_writer(self):
        self.writer = open_queue(self.path, "test", ITEM)

    @rule()
    def restart_the_reader(self):
        self.reader = open_queue(self.path, "test", ITEM)
        n_gone = self.reader.go_to(self.n_safe)
        assert n_gone == max(0, self.reader.freed - self.n_safe)
        # What was taken in vain comes again, except for the oldest if it was more than half of what fits.
        assert n_gone <= max(0, self.furthest - self.capacity // 2 - self.n_safe)
        self.waiting = deque(range(self.n_safe + n_gone, self.n_written))
        self.n_taken = self.n_safe + n_gone

    @invariant()
    def counts_are_right(self):
        if hasattr(self, "reader"):
            assert self.reader.head == self.n_written
            assert self.reader.position == self.n_taken
            assert self.reader.n_dropped == self.n_dropped
            assert self.n_written - self.writer.freed <= self.capacity
            assert self.writer.freed >= self.n_safe

    def teardown(self):
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestRing = RingMachine.TestCase
TestRing.settings = settings(max_examples=60, stateful_step_count=30)


def test_whatever_the_rows_hold_comes_out_as_it_went_in(tmp_path):
    writer = create_queue(tmp_path / "ring", "steps", ROW, 16, 1)
    reader = open_queue(tmp_path / "ring", "steps", ROW)
    rows = np.frombuffer(np.random.default_rng(0).bytes(12 * ROW.itemsize), ROW)
    for start in range(0, 48, 12):  # around the end
        assert writer.push(rows)
        assert reader.take().tobytes() == rows.tobytes()
        reader.free(start + 12)


def test_slots_keep_numbers_aligned():
    assert slot_size(ITEM) == 16 + 8
    assert slot_size(np.dtype("u1")) == 24


def test_another_type_of_row_is_refused(tmp_path):
    create_queue(tmp_path / "ring", "steps", ROW, 16, 1)
    with pytest.raises(ChannelError, match="has the layout of other"):
        open_queue(tmp_path / "ring", "steps", ITEM)


def test_a_position_from_elsewhere_is_refused(tmp_path):
    ring = create_queue(tmp_path / "ring", "steps", ITEM, 16, 1)
    ring.push(items(0, 3))
    with pytest.raises(ChannelError, match="has 3 records, but a checkpoint refers to record 4"):
        ring.go_to(4)


@pytest.mark.parametrize("part", ["number", "text"])
def test_a_record_that_is_not_all_there_has_not_come_yet(tmp_path, monkeypatch, part):
    path = tmp_path / "ring"
    writer = create_queue(path, "steps", ITEM, 16, 1)
    reader = open_queue(path, "steps", ITEM)
    writer.push(items(0, 5))
    at = 4096 + 3 * slot_size(ITEM) + {"number": 0, "text": 16}[part]
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff")
    assert reader.take()["value"].tolist() == [0, 1, 2]
    assert len(reader.take()) == 0
    with path.open("r+b") as file:  # the store that was still on its way arrives
        file.seek(at)
        file.write(whole[at : at + 1])
    assert reader.take()["value"].tolist() == [3, 4]


def test_a_record_that_never_gets_right_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(ring_module, "DAMAGED_AFTER_S", 0.0)
    path = tmp_path / "ring"
    create_queue(path, "steps", ITEM, 16, 1).push(items(0, 2))
    reader = open_queue(path, "steps", ITEM)
    with path.open("r+b") as file:
        file.seek(4096 + 16)
        file.write(b"\xff")
    assert len(reader.take()) == 0
    with pytest.raises(ChannelError, match="record 0 is damaged"):
        while True:
            reader.take()


# The numbers of its records are what it writes; without torch it starts in a second.
WRITER = """
import sys
from pathlib import Path
import numpy as np
from soulslab.learn.actors.memory_block import RecordQueue, open_block
item = np.dtype([("value", "<i4"), ("rest", "u1", (3,))])
ring = RecordQueue(open_block(Path(sys.argv[1]), "test", str(item.descr)), item)
rows = np.zeros(3, item)
for start in range(0, 9000, 3):
    rows["value"] = range(start, start + 3)
    while not ring.push(rows):
        pass
"""


def test_a_fast_writer_in_another_process_is_followed_row_by_row(tmp_path):
    reader = create_queue(tmp_path / "ring", "test", ITEM, 64, 1)
    child = ForkedPopen([sys.executable, "-c", WRITER, str(tmp_path / "ring")])
    found = []
    while child.poll() is None or reader.position < reader.head:
        found += reader.take()["value"].tolist()
        reader.free(reader.position)
    assert child.returncode == 0
    assert found == list(range(9000))
