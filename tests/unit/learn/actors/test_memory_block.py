"""A memory-mapped file is created completely or not at all, and opened only with the same format."""

import os
from itertools import pairwise

import pytest

from soulslab.errors import ChannelError
from soulslab.learn.actors.memory_block import N_COUNTERS, create_block, open_block


def test_two_that_open_it_see_the_same(tmp_path):
    ours = create_block(tmp_path / "block", "kind", "layout", 100, 7)
    theirs = open_block(tmp_path / "block", "kind", "layout")
    assert theirs.token == 7
    assert len(theirs.data) == 100 and not theirs.data.any() and not theirs.counters.any()
    ours.data[3] = 5
    ours.set(N_COUNTERS - 1, 2**63)
    assert theirs.data[3] == 5
    assert theirs.get(N_COUNTERS - 1) == 2**63
    assert (tmp_path / "block").stat().st_size == 4096 + 100


def test_counters_lie_aligned_and_apart(tmp_path):
    block = create_block(tmp_path / "block", "kind", "layout", 100, 7)
    addresses = [block.counters[i:].ctypes.data for i in range(N_COUNTERS)]
    assert all(address % 8 == 0 for address in addresses)
    assert all(b - a == 64 for a, b in pairwise(addresses))
    assert block.data.ctypes.data % 8 == 0


def test_a_closed_file_is_no_longer_mapped(tmp_path):
    path = tmp_path / "block"
    block = create_block(path, "kind", "layout", 100, 7)
    block.data[3] = 5
    block.close()
    block.close()
    with pytest.raises(IndexError):
        block.get(0)
    assert open_block(path, "kind", "layout").data[3] == 5


@pytest.mark.parametrize(
    ("at", "data", "problem"),
    [
        (0, b"another!", "not shared memory of an actor"),
        (8, b"\2", "version 2, but this soulslab reads version 1"),
        (16, b"other", "not shared memory of an actor for kind"),
        (40, b"\0", "other observations, actions or settings"),
    ],
)
def test_what_is_something_else_is_refused(tmp_path, at, data, problem):
    path = tmp_path / "block"
    create_block(path, "kind", "layout", 100, 7)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
    with pytest.raises(ChannelError, match=problem) as error:
        open_block(path, "kind", "layout")
    assert error.value.path == path


def test_another_layout_is_refused(tmp_path):
    create_block(tmp_path / "block", "kind", "layout", 100, 7)
    with pytest.raises(ChannelError, match="has the layout of other observations"):
        open_block(tmp_path / "block", "kind", "other layout")


@pytest.mark.parametrize("n_bytes", [0, 10, 4096, 4150])
def test_a_file_that_is_cut_off_is_refused(tmp_path, n_bytes):
    create_block(tmp_path / "block", "kind", "layout", 100, 7)
    os.truncate(tmp_path / "block", n_bytes)
    with pytest.raises(ChannelError, match="bytes"):
        open_block(tmp_path / "block", "kind", "layout")


def test_a_missing_file_or_folder_is_named(tmp_path):
    with pytest.raises(ChannelError, match=r"gone/block: could not be made: No such file"):
        create_block(tmp_path / "gone/block", "kind", "layout", 100, 7)
    with pytest.raises(ChannelError, match=r"block: could not be opened: No such file"):
        open_block(tmp_path / "block", "kind", "layout")


def test_no_room_is_an_error_and_leaves_nothing_behind(tmp_path):
    with pytest.raises(ChannelError, match="could not be made"):
        create_block(tmp_path / "block", "kind", "layout", 1 << 60, 7)
    assert list(tmp_path.iterdir()) == []


def test_a_new_one_takes_the_place_of_an_old_one_that_is_in_use(tmp_path):
    old = create_block(tmp_path / "block", "kind", "layout", 100, 7)
    new = create_block(tmp_path / "block", "kind", "layout", 100, 8)
    old.data[0] = 1
    assert not new.data.any()
    assert open_block(tmp_path / "block", "kind", "layout").token == 8
