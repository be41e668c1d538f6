"""Rows on the disk: exact, in few bytes, and whole whatever happens."""

import resource
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.errors import CheckpointError, CorruptCheckpointError, IncompatibleCheckpointError
from soulslab.learn.archive import read_archive
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.replay_store import ReplayStore
from soulslab.learn.replay.step_rows import StepShape, row_type
from soulslab.learn.settings import ReplaySettings
from support import replay_saving as saving
from support.forked import ForkedPopen
from support.lived import SHAPE as LIVED
from support.lived import lives, rows_of
from support.steps import SHAPE, steps

ROW_BYTES = row_type(SHAPE).itemsize
#: A chunk holds 100 rows.
CHUNK_BYTES = 100 * ROW_BYTES


def make(capacity=1000, n_streams=2, alpha=0.5):
    return ReplayBuffer(SHAPE, ReplaySettings(capacity=capacity, alpha=alpha), n_streams)


def live(buffer, n):
    for stream in range(len(buffer.ring.written)):
        buffer.append(steps(int(buffer.ring.written[stream]), n, stream=stream))


def save(store, buffer):
    """Return what a checkpoint would hold, after a way through JSON."""
    return msgspec.json.decode(msgspec.json.encode(store.save(buffer))), buffer.state()


def assert_restores(folder, saved, buffer, chunk_bytes=CHUNK_BYTES):
    """Assert that a fresh buffer becomes the same, and goes on in the same way; return it and its store."""
    manifest, state = saved
    ring = buffer.ring
    again = ReplayBuffer(SHAPE, ReplaySettings(capacity=len(ring.rows)), len(ring.written))
    store = ReplayStore(folder, chunk_bytes)
    store.load(again, manifest)
    again.load(state)
    assert_same(again, buffer)
    return again, store


def assert_same(first, second):
    np.testing.assert_array_equal(first.ring.bytes, second.ring.bytes)
    for name in first.ring.heads.dtype.names:
        np.testing.assert_array_equal(first.ring.heads[name], second.ring.heads[name])
    for name, array in second.state().items():
        np.testing.assert_array_equal(first.state()[name], array)
    if second.sampler.n_places:
        batches = [buffer.make_batch(32) for buffer in (first, second)]
        for buffer, batch in zip((first, second), batches, strict=True):
            buffer.sample(batch, n_steps=3, gamma=0.9, beta=0.5, rng=np.random.default_rng(1))
        np.testing.assert_array_equal(batches[0].places, batches[1].places)
        np.testing.assert_array_equal(batches[0].rewards, batches[1].rewards)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=25)
@given(saves=st.lists(st.integers(0, 130), min_size=1, max_size=6), capacity=st.sampled_from([60, 400, 2000]))
def test_what_was_saved_comes_back(tmp_path_factory, saves, capacity):
    folder = tmp_path_factory.mktemp("replay")
    buffer, store = make(capacity), ReplayStore(folder, CHUNK_BYTES)
    for n in saves:
        live(buffer, n)
        saved = save(store, buffer)
    again, store = assert_restores(folder, saved, buffer)
    for each in (again, buffer):
        live(each, 70)
    assert_restores(folder, save(store, again), buffer)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@settings(max_examples=25)
@given(life=lives, seed=st.integers(0, 9))
def test_any_life_comes_back(tmp_path_factory, alpha, life, seed):
    folder = tmp_path_factory.mktemp("replay")
    buffer, again = (ReplayBuffer(LIVED, ReplaySettings(capacity=60, alpha=alpha), 3) for _ in range(2))
    store = ReplayStore(folder, 700)
    for rows in np.array_split(rows_of(life, seed), 3):
        buffer.append(rows)
        saved = save(store, buffer)
    ReplayStore(folder, 700).load(again, saved[0])
    again.load(saved[1])
    assert_same(again, buffer)


def test_a_save_writes_what_is_new_and_a_chunk_at_most(tmp_path):
    buffer, store = make(capacity=4000), ReplayStore(tmp_path, CHUNK_BYTES)
    live(buffer, 1025)
    store.save(buffer)
    before = files(tmp_path)
    assert len(before) == 21  # 20 whole ones, and 50 rows
    live(buffer, 10)
    store.save(buffer)
    after = files(tmp_path)
    assert before.items() <= after.items()
    (new,) = after.keys() - before.keys()
    assert len(after[new]) < 70 * ROW_BYTES + 1000
    store.save(buffer)
    assert len(files(tmp_path)) == 23  # nothing changed, but no file is ever written again


def test_all_earlier_checkpoints_stay_loadable_until_they_are_pruned(tmp_path):
    buffer, store = make(), ReplayStore(tmp_path, CHUNK_BYTES)
    saved, rings = [], []
    for _ in range(8):
        live(buffer, 170)
        saved.append(save(store, buffer))
        rings.append(buffer.ring.bytes.copy())
    store.prune([manifest for manifest, _ in saved[-3:]])
    for (manifest, _), rows in zip(saved[-3:], rings[-3:], strict=True):
        again = make()
        ReplayStore(tmp_path, CHUNK_BYTES).load(again, manifest)
        np.testing.assert_array_equal(again.ring.bytes, rows)
    named = {chunk["name"] for manifest, _ in saved[-3:] for chunk in manifest["chunks"]}
    assert files(tmp_path).keys() == named
    with pytest.raises(CorruptCheckpointError, match="is missing, but a checkpoint needs it"):
        ReplayStore(tmp_path, CHUNK_BYTES).load(make(), saved[0][0])


def test_two_lives_that_go_on_from_one_checkpoint_do_not_meet(tmp_path):
    buffer, store = make(), ReplayStore(tmp_path, CHUNK_BYTES)
    live(buffer, 60)
    begun = save(store, buffer)
    live(buffer, 60)
    first = save(store, buffer)
    other, store = assert_restores(tmp_path, begun, restored(tmp_path, begun))
    for stream in range(2):
        rows = steps(60, 60, stream=stream)
        rows["reward"] = 5.0
        other.append(rows)
    second = save(store, other)
    assert_restores(tmp_path, first, buffer)
    assert_restores(tmp_path, second, other)


def restored(folder, saved):
    buffer = make()
    ReplayStore(folder, CHUNK_BYTES).load(buffer, saved[0])
    buffer.load(saved[1])
    return buffer


@pytest.mark.parametrize("other", [CHUNK_BYTES // 3, CHUNK_BYTES * 3])
def test_another_size_of_chunks_loses_nothing(tmp_path, other):
    buffer, store = make(), ReplayStore(tmp_path, CHUNK_BYTES)
    live(buffer, 170)
    saved = save(store, buffer)
    for chunk_bytes in (other, CHUNK_BYTES, other):
        buffer, store = assert_restores(tmp_path, saved, buffer, chunk_bytes)
        live(buffer, 90)
        saved = save(store, buffer)
        store.prune([saved[0]])
    assert_restores(tmp_path, saved, buffer)


def test_what_a_crash_left_half_written_is_removed(tmp_path):
    buffer, store = make(), ReplayStore(tmp_path, CHUNK_BYTES)
    live(buffer, 10)
    manifest = store.save(buffer)
    (tmp_path / ".rows_00000_000000000000000_abc.safetensors.123.tmp").write_bytes(b"half")
    store.prune([manifest])
    assert files(tmp_path).keys() == {chunk["name"] for chunk in manifest["chunks"]}


@settings(max_examples=40)
@given(data=st.data())
def test_every_damage_is_noticed_and_leaves_an_empty_buffer(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("replay")
    buffer, store = make(), ReplayStore(folder, CHUNK_BYTES)
    live(buffer, 130)
    manifest, _ = save(store, buffer)
    path = folder / data.draw(st.sampled_from(manifest["chunks"]))["name"]
    whole = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(whole) - 1))
    damage = data.draw(st.sampled_from(["bit", "end", "gone"]))
    path.unlink()
    if damage == "bit":
        whole[position] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(whole)
    elif damage == "end":
        path.write_bytes(whole[:position])
    with pytest.raises(CorruptCheckpointError, match=r"is truncated|has been altered|is missing"):
        ReplayStore(folder).load(buffer, manifest)
    assert (len(buffer.ring), buffer.sampler.n_places) == (0, 0)


def test_a_chunk_that_cannot_be_read_is_no_damaged_one(tmp_path):
    buffer, store = make(), ReplayStore(tmp_path)
    live(buffer, 10)
    manifest = store.save(buffer)
    path = tmp_path / manifest["chunks"][0]["name"]
    path.unlink()
    path.mkdir()  # root may read whatever is a file
    with pytest.raises(CheckpointError, match="cannot be read: Is a directory") as caught:
        ReplayStore(tmp_path).load(make(), manifest)
    assert not isinstance(caught.value, CorruptCheckpointError)


def test_a_chunk_under_the_name_of_another_is_noticed(tmp_path):
    buffer, store = make(), ReplayStore(tmp_path, CHUNK_BYTES)
    live(buffer, 130)
    manifest, _ = save(store, buffer)
    first, second = (tmp_path / chunk["name"] for chunk in manifest["chunks"][:2])
    second.write_bytes(first.read_bytes())
    with pytest.raises(CorruptCheckpointError, match="is not the chunk to which the checkpoint refers"):
        ReplayStore(tmp_path).load(make(), manifest)
    with pytest.raises(CorruptCheckpointError, match="its chunks hold"):
        ReplayStore(tmp_path).load(make(), {**manifest, "chunks": manifest["chunks"][2:]})


@pytest.mark.parametrize("chunks", [3, [{"name": "x"}], [{"name": "x", "segments": [["a", 0, 1]]}]])
def test_a_malformed_manifest_is_refused(tmp_path, chunks):
    manifest = ReplayStore(tmp_path).save(make())
    with pytest.raises(CorruptCheckpointError, match="its manifest is malformed"):
        ReplayStore(tmp_path).load(make(), {**manifest, "chunks": chunks})


def test_segments_outside_of_the_ring_are_refused(tmp_path):
    manifest = ReplayStore(tmp_path).save(make())
    for segment in ([2, 0, 1], [-1, 0, 1], [0, -5, 1], [0, 0, -1], [0, 0, 1]):
        with pytest.raises(CorruptCheckpointError, match="its manifest is malformed"):
            ReplayStore(tmp_path).load(make(), {**manifest, "chunks": [{"name": "x", "segments": [segment]}]})


def test_a_buffer_of_another_kind_is_refused(tmp_path):
    buffer = make()
    live(buffer, 10)
    manifest = ReplayStore(tmp_path).save(buffer)
    other = ReplayBuffer(StepShape(n_features=4, n_actions=4), ReplaySettings(capacity=1000), 2)
    for wrong, message in (
        (other, "was written with rows of"),
        (make(capacity=800), "a capacity per environment of 500, but the buffer has 400"),
        (make(capacity=1500, n_streams=3), "a number of environments of 2, but the buffer has 3"),
    ):
        with pytest.raises(IncompatibleCheckpointError, match=message):
            ReplayStore(tmp_path).load(wrong, manifest)
    with pytest.raises(IncompatibleCheckpointError, match="version 9; this soulslab reads"):
        ReplayStore(tmp_path).load(make(), {**manifest, "version": 9})


def test_a_full_disk_loses_no_saved_data_and_the_next_save_succeeds(tmp_path):
    buffer, store = make(), ReplayStore(tmp_path, CHUNK_BYTES)
    live(buffer, 30)
    saved = save(store, buffer)
    before = files(tmp_path)
    old = restored(tmp_path, saved)
    live(buffer, 270)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK_BYTES // 2, hard))
    try:
        with pytest.raises(CheckpointError, match=r"could not be written: File too large; free some space"):
            store.save(buffer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(tmp_path) == before
    assert_restores(tmp_path, saved, old)
    assert_restores(tmp_path, save(store, buffer), buffer)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file/replay: could not be written: Not a directory"):
        ReplayStore(tmp_path / "file" / "replay").save(make())


@pytest.mark.parametrize("n_saves", [1, 17])
def test_a_process_killed_while_it_saves_leaves_whole_checkpoints(tmp_path, n_saves):
    command = [sys.executable, "-m", saving.__name__, str(tmp_path)]
    with ForkedPopen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(n_saves)]
        process.kill()  # it goes on saving meanwhile
    assert lines[-1], "the process ended by itself"
    checkpoints = CheckpointStore(tmp_path / "own", saving.KEEP)
    manifests = []
    for path in checkpoints.paths()[-saving.KEEP :]:
        tensors, header = read_archive(path)
        buffer, store = saving.new_buffer(), saving.store_of(tmp_path)
        store.load(buffer, header["replay"])
        buffer.load(tensors)
        manifests.append(header["replay"])
        ring = buffer.ring
        for stream, n in enumerate(ring.written.tolist()):
            first = int(ring.oldest()[stream])
            kept = ring.rows["features"][ring.places(stream, first, n - first), 0]
            np.testing.assert_array_equal(kept, np.arange(first, n))
    assert ring.written.sum() >= int(lines[-1])
    assert checkpoints.latest().path == path
    again = saving.new_buffer()  # the same life without a crash
    while again.ring.written[0] < ring.written[0]:
        saving.live(again)
    assert_same(buffer, again)
    for each in (again, buffer):
        saving.live(each)
    saving.save(buffer, store, checkpoints, manifests)
    assert_same(buffer, again)
    named = {chunk["name"] for manifest in manifests for chunk in manifest["chunks"]}
    assert files(tmp_path / "replay").keys() == named
