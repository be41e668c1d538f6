import errno
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import CheckpointError, CorruptCheckpointError
from soulslab.learn.archive import read_archive, write_archive, write_atomically
from support.windows_files import refuse_to_replace

TENSORS = {
    "weights": np.linspace(0.0, 1.0, 12, dtype=np.float32).reshape(3, 4),
    "turned": np.arange(6, dtype=np.int64).reshape(2, 3).T,
    "flags": np.array([True, False]),
    "nothing": np.zeros((0, 3)),
    "number": np.array(3.5),
    "random": np.array([2**63 + 1], np.uint64),
}
HEADER = {"name": "Größe", "numbers": [1, 2.5, None], "nested": {"a": True}}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "a.safetensors"
    write_archive(path, TENSORS, HEADER)
    return path


def test_reads_what_was_written(archive):
    tensors, header = read_archive(archive)
    assert header == HEADER
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert (tensors[name].dtype, tensors[name].shape) == (tensor.dtype, tensor.shape)
        np.testing.assert_array_equal(tensors[name], tensor)


@given(st.data())
def test_every_truncation_is_noticed(archive, tmp_path_factory, data):
    whole = archive.read_bytes()
    n_bytes = data.draw(st.integers(0, len(whole) - 1))
    broken = tmp_path_factory.mktemp("broken") / "b.safetensors"
    broken.write_bytes(whole[:n_bytes])
    with pytest.raises(CorruptCheckpointError, match=r"is truncated|has been altered"):
        read_archive(broken)


@given(st.data())
def test_every_flipped_bit_is_noticed(archive, tmp_path_factory, data):
    whole = bytearray(archive.read_bytes())
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] ^= 1 << data.draw(st.integers(0, 7))
    broken = tmp_path_factory.mktemp("broken") / "b.safetensors"
    broken.write_bytes(whole)
    with pytest.raises(CorruptCheckpointError, match=r"is truncated|has been altered"):
        read_archive(broken)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"absent.safetensors: cannot be read: No such file"):
        read_archive(tmp_path / "absent.safetensors")


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    write_archive(path, TENSORS, {"version": "old"})

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        write_archive(path, TENSORS, {"version": "new"})
    assert read_archive(path)[1] == {"version": "old"}
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    write_archive(path, TENSORS, {"version": "old"})

    def interrupted(_descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_archive(path, TENSORS, {"version": "new"})
    assert read_archive(path)[1] == {"version": "old"}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("readers_s", "is_written"), [(60.0, True), (0.0, False)])
def test_a_file_that_another_program_reads_is_replaced_later(tmp_path, monkeypatch, readers_s, is_written):
    path = tmp_path / "policy.toml"
    path.write_bytes(b"old")
    refuse_to_replace(monkeypatch, 3, readers_s)
    if is_written:
        write_atomically(path, b"new")
    else:
        with pytest.raises(CheckpointError, match="is used by another program"):
            write_atomically(path, b"new")
    assert path.read_bytes() == (b"new" if is_written else b"old")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
