"""Frames through memory shared by client and server: detection, refusal, and cleanup."""

import fcntl
import gc
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from soulslab.errors import WireError
from soulslab.siphon.rpc.frame_transfer import NAME, FrameReceiver, FrameSender
from soulslab.siphon.rpc.messages import FrameData
from soulslab.siphon.session import Frame

SIZE = 1 << 16


def a_frame(shape=(20, 30, 3), seed=0):
    return Frame(np.random.default_rng(seed).integers(0, 256, shape, np.uint8), 1.5, 2.5)


def n_fds():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def receiver():
    receiver = FrameReceiver(offers_memory=True, size=SIZE)
    yield receiver
    receiver.close()


@pytest.fixture
def sender(receiver):
    sender = FrameSender("raw", 90, receiver.offer)
    receiver.settle(sender.proof)
    yield sender
    sender.close()


@pytest.mark.parametrize("shape", [(20, 30, 3), (20, 30), (1, 1)])
def test_frames_come_as_they_went(sender, receiver, shape):
    for seed in range(3):
        frame = a_frame(shape, seed)
        data = sender.pack(frame)
        assert data.encoding == "shared"
        assert len(data.data) == 0
        found = receiver.unpack(data)
        assert np.array_equal(found.pixels, frame.pixels)
        assert (found.game_time_s, found.wall_time_s) == (1.5, 2.5)


def test_a_frame_too_large_for_shared_memory_is_sent_in_the_message(sender, receiver):
    frame = a_frame((200, 200, 3))
    data = sender.pack(frame)
    assert data.encoding == "raw"
    assert np.array_equal(
        receiver.unpack(msgspec.structs.replace(data, data=bytearray(data.data))).pixels, frame.pixels
    )


def test_pictures_that_are_not_in_one_piece_are_packed(sender, receiver):
    frame = a_frame()
    flipped = Frame(frame.pixels[::-1, :, ::-1], 0.0, 0.0)
    assert np.array_equal(receiver.unpack(sender.pack(flipped)).pixels, flipped.pixels)


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": b"\0" * 16},
        {"pid": 2**22 + 1},
        {"fd": 10**6},
        {"fd": 0},
        {"size": SIZE * 2},
    ],
)
def test_memory_of_others_is_not_accessed(receiver, change):
    before = n_fds()
    sender = FrameSender("raw", 90, msgspec.structs.replace(receiver.offer, **change))
    assert sender.proof == b""
    assert sender.pack(a_frame()).encoding == "raw"
    assert n_fds() == before
    receiver.settle(sender.proof)
    assert receiver.offer is None


def lure(fd, offer, nonce=b"n" * 16):
    """Return the server's result for a descriptor that starts with the right number."""
    os.pwrite(fd, nonce + b"s" * 16, 0)
    return FrameSender("raw", 90, msgspec.structs.replace(offer, fd=fd, nonce=nonce, size=os.fstat(fd).st_size))


def test_files_and_unsealed_memory_are_not_touched(receiver, tmp_path):
    """A client must not make the server write to files, or crash it by truncating shared memory."""
    with (tmp_path / f"memfd:{NAME}").open("wb+") as file:
        file.truncate(SIZE)
        assert lure(file.fileno(), receiver.offer).proof == b""
    fd = os.memfd_create(NAME, os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, SIZE)
        assert lure(fd, receiver.offer).proof == b""
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        found = lure(fd, receiver.offer)
        assert found.proof == b"s" * 16
        found.close()
    finally:
        os.close(fd)


def test_a_wrong_proof_is_refused(receiver):
    with pytest.raises(WireError, match="proves it wrongly"):
        receiver.settle(b"x" * 16)
    without = FrameReceiver(offers_memory=False)
    with pytest.raises(WireError):
        without.settle(b"x" * 16)


def test_malformed_frames_are_refused(sender, receiver):
    good = FrameData((20, 30), "raw", bytearray(600), 0.0, 0.0)
    receiver.unpack(good)
    for change in (
        {"shape": (20, 31)},
        {"shape": (20, 30, 3)},
        {"encoding": "shared", "shape": (SIZE, 1)},
        {"encoding": "jpeg"},
        {"encoding": "jpeg", "data": bytearray(FrameSender("jpeg", 90).pack(a_frame((10, 10))).data)},
    ):
        with pytest.raises(WireError, match="a frame"):
            receiver.unpack(msgspec.structs.replace(good, **change))


def test_no_resources_remain():
    gc.collect()
    before = n_fds()
    for _ in range(50):
        receiver = FrameReceiver(offers_memory=True)
        sender = FrameSender("raw", 90, receiver.offer)
        receiver.settle(sender.proof)
        receiver.unpack(sender.pack(a_frame()))
        sender.close()
        sender.close()
        receiver.close()
        receiver.close()
    assert n_fds() == before
    assert not list(Path("/dev/shm").glob(f"*{NAME}*"))  # noqa: S108  (looked at, not used)
