"""Transfer of frames: uncompressed, as JPEG, or through memory that both sides have mapped.

The memory is anonymous, so it never outlives both processes. The client creates it, seals its size and writes two
random numbers to it. It sends the server its process id, the descriptor and the first number; a server that can open
``/proc/PID/fd/FD`` and finds the number there answers with the second one. This proves that both sides see the same
memory, independent of addresses, and that the server writes to no other memory.
"""

from __future__ import annotations

import hmac
import math
import mmap
import os
import secrets
import stat
import sys
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from soulslab.errors import WireError
from soulslab.siphon.rpc.messages import FrameData, FrameEncoding, SharedMemory
from soulslab.siphon.session import Frame

if sys.platform == "linux":
    import fcntl

NAME = "soulslab-frames"
NONCE_BYTES = 16
HEADER_BYTES = 2 * NONCE_BYTES
#: Enough for 3840x2160 RGB; pages that are never written take no memory.
SHARED_BYTES = 32 << 20


class FrameSender:
    """The server side: converts frames to messages; `proof` proves that it sees the offered memory, "" if not."""

    def __init__(self, encoding: FrameEncoding, jpeg_quality: int, memory: SharedMemory | None = None) -> None:
        self.proof = b""
        self._encoding = encoding
        self._jpeg_quality = jpeg_quality
        self._fd = -1
        self._room = 0
        if memory is not None and sys.platform == "linux":
            self._open(memory)

    def pack(self, frame: Frame) -> FrameData:
        """Return the message for a frame."""
        pixels = np.ascontiguousarray(frame.pixels)
        encoding: FrameEncoding | str = self._encoding
        data: object = b""
        if pixels.nbytes <= self._room:
            encoding = "shared"
            os.pwrite(self._fd, pixels.data, HEADER_BYTES)
        elif self._encoding == "raw":
            data = pixels.data
        else:
            data = _to_jpeg(pixels, self._jpeg_quality)
        # msgpack accepts any buffer as bytes; the annotation is the type on the receiving side.
        return FrameData(pixels.shape, encoding, data, frame.game_time_s, frame.wall_time_s)  # type: ignore[arg-type]

    def close(self) -> None:
        """Release the memory; a second call does nothing."""
        fd, self._fd, self._room = self._fd, -1, 0
        if fd >= 0:
            os.close(fd)

    def _open(self, memory: SharedMemory) -> None:
        """Open the memory, if it exists and has the expected properties."""
        path = Path(f"/proc/{memory.pid}/fd/{memory.fd}")
        try:
            if not str(path.readlink()).startswith(f"/memfd:{NAME}"):
                return
            # The descriptor may have been replaced since, for example by a pipe: never block.
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:  # another machine or container, or another user's process
            return
        try:
            header = os.pread(fd, HEADER_BYTES, 0) if _is_sealed(fd, memory.size) else b""
            if len(header) == HEADER_BYTES and hmac.compare_digest(header[:NONCE_BYTES], memory.nonce):
                self.proof = header[NONCE_BYTES:]
                self._room = memory.size - HEADER_BYTES
                self._fd, fd = fd, -1
        finally:
            if fd >= 0:
                os.close(fd)


class FrameReceiver:
    """The client side: converts messages to frames; `offer` is the shared memory for them, None without one."""

    def __init__(self, *, offers_memory: bool, size: int = SHARED_BYTES) -> None:
        self.offer: SharedMemory | None = None
        self._map: mmap.mmap | None = None
        self._fd = -1
        if offers_memory and sys.platform == "linux":
            self._fd = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            try:
                os.ftruncate(self._fd, size)
                fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
                self._map = mmap.mmap(self._fd, size)
            except BaseException:
                os.close(self._fd)
                raise
            self._map[:HEADER_BYTES] = secrets.token_bytes(HEADER_BYTES)
            self.offer = SharedMemory(os.getpid(), self._fd, size, self._map[:NONCE_BYTES])

    def settle(self, proof: bytes) -> None:
        """Keep the memory if the server has proved that it sees it; otherwise release it. Raises `WireError`."""
        if not proof:
            self.close()
        elif self._map is None or not hmac.compare_digest(self._map[NONCE_BYTES:HEADER_BYTES], proof):
            raise WireError("the server says that it shares memory with us, but proves it wrongly")

    def unpack(self, data: FrameData) -> Frame:
        """Return the frame of a message as a new array. Raises `WireError` for a malformed message."""
        pixels: NDArray[np.uint8]
        n_bytes = math.prod(data.shape)
        if data.encoding == "jpeg":
            pixels = _from_jpeg(data.data, data.shape)
        elif data.encoding == "raw" and len(data.data) == n_bytes:
            pixels = np.frombuffer(data.data, np.uint8).reshape(data.shape)
        elif data.encoding == "shared" and self._map is not None and HEADER_BYTES + n_bytes <= len(self._map):
            pixels = np.frombuffer(self._map, np.uint8, n_bytes, HEADER_BYTES).reshape(data.shape).copy()
        else:
            raise WireError(f"a frame of shape {data.shape} came as {len(data.data)} bytes, {data.encoding}")
        return Frame(pixels, data.game_time_s, data.wall_time_s)

    def close(self) -> None:
        """Release the memory; a second call does nothing."""
        shared, self._map, fd, self._fd = self._map, None, self._fd, -1
        self.offer = None
        if shared is not None:
            shared.close()
            os.close(fd)


def _is_sealed(fd: int, size: int) -> bool:
    """Return whether this is sealed memory of a size, which cannot be truncated."""
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode) or about.st_size != size or size <= HEADER_BYTES:
        return False
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:  # a file
        return False
    wanted = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    return seals & wanted == wanted


def _to_jpeg(pixels: NDArray[np.uint8], quality: int) -> bytes:
    is_grey = pixels.ndim == 2
    data: bytes = simplejpeg.encode_jpeg(
        pixels[..., None] if is_grey else pixels,
        quality=quality,
        colorspace="GRAY" if is_grey else "RGB",
        colorsubsampling="Gray" if is_grey else "444",
    )
    return data


def _from_jpeg(data: bytearray, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    try:
        height, width, *_ = simplejpeg.decode_jpeg_header(data)
        if (height, width) != shape[:2]:
            raise WireError(f"a frame of shape {shape} came as a JPEG of {width}x{height} pixels")
        pixels = simplejpeg.decode_jpeg(data, colorspace="RGB" if len(shape) == 3 else "GRAY")
    except ValueError as error:
        raise WireError(f"a frame came as a broken JPEG: {error}") from error
    return np.asarray(pixels, np.uint8).reshape(shape)
