"""Video of the frames of a recording, which can be played up to its last commit after a crash of its writer.

An ordinary MP4 file has its index of frames at the end, so an unfinished file cannot be played. This video is
fragmented (ISO/IEC 14496-12, 8.8): each fragment has its own index, and only complete fragments are written to the
disk.
"""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import av
import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from av.video.stream import VideoStream

#: Encoders in the order of preference, with their options: look-ahead is disabled, because it would be lost in a crash.
CODECS: Final = {
    "libx264": {"crf": "23", "preset": "veryfast", "tune": "zerolatency"},
    "mpeg4": {"qscale": "4", "bf": "0"},
}
FRAGMENT_US = 250_000
#: Usual time base of MP4: divisible by all common rates.
CLOCK_HZ = 90_000
_BOX_HEADER = 8


class _Fragments:
    """Buffers the output of the muxer, and writes complete boxes on `commit`."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._pending = bytearray()
        self._n_written = 0

    def write(self, data: ReadableBuffer) -> int:
        """Buffer data until `commit`."""
        self._pending += data
        return memoryview(data).nbytes

    def commit(self) -> None:
        """Write all complete boxes, or none of them.

        Raises:
            OSError: They do not fit on the disk.
        """
        end = 0
        while end + _BOX_HEADER <= len(self._pending):
            size = int.from_bytes(self._pending[end : end + 4], "big")
            kind = bytes(self._pending[end + 4 : end + 8])
            # The index of a fragment (moof) is useless without its frames (mdat).
            if end + size > len(self._pending) or (kind == b"moof" and not self._has_frames(end + size)):
                break
            end += size
        try:
            done = 0
            while done < end:
                done += os.write(self._handle, memoryview(self._pending)[done:end])
        except OSError:
            os.ftruncate(self._handle, self._n_written)
            raise
        self._n_written += end
        del self._pending[:end]

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _has_frames(self, start: int) -> bool:
        """Return whether the box at a position is complete."""
        header = self._pending[start : start + 4]
        return len(header) == 4 and start + int.from_bytes(header, "big") <= len(self._pending)


class RecordingVideo:
    """Writes frames as a video; they are valid after `commit`.

    Args:
        path: Path of a new file, ``.mp4``.
        rate_hz: Approximate frames per second; each frame has its own time.

    Raises:
        OSError: It cannot be created.
    """

    def __init__(self, path: Path, rate_hz: float) -> None:
        self._codec = next(name for name in CODECS if name in av.codecs_available)
        self._rate = max(1, round(rate_hz))
        self._file = _Fragments(path)
        self._stream: VideoStream | None = None
        self._last_pts = -1
        self._is_closed = False
        options = {"movflags": "empty_moov+default_base_moof", "frag_duration": str(FRAGMENT_US)}
        self._container = av.open(cast("object", self._file), "w", format="mp4", options=options)

    def append(self, frame: NDArray[np.uint8], time_s: float) -> None:
        """Add a frame.

        Args:
            frame: (H, W, 3) RGB; all of one size. An odd last row or column is repeated.
            time_s: Time since the start.
        """
        height, width = frame.shape[:2]
        if height % 2 or width % 2:
            frame = cv2.copyMakeBorder(frame, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE).astype(np.uint8)
        if self._stream is None:
            self._stream = self._open_stream(frame.shape[1], frame.shape[0])
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
        self._last_pts = max(self._last_pts + 1, round(time_s * CLOCK_HZ))
        picture.pts = self._last_pts
        picture.time_base = Fraction(1, CLOCK_HZ)
        self._container.mux(self._stream.encode(picture))

    def commit(self) -> None:
        """Commit the output of the muxer: all but the last quarter of a second.

        Raises:
            OSError: It does not fit on the disk; the video stays unchanged.
        """
        self._file.commit()

    def finish(self) -> None:
        """Commit all frames. Raises as `commit`."""
        if self._stream is not None:
            self._container.mux(self._stream.encode(None))
        self._container.close()
        self._file.commit()

    def close(self) -> None:
        """Close the video; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._stream is not None:
                self._container.close()
        finally:
            self._file.close()

    def _open_stream(self, width: int, height: int) -> VideoStream:
        stream = cast(
            "VideoStream", self._container.add_stream(self._codec, rate=self._rate, options=CODECS[self._codec])
        )
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = stream.time_base = Fraction(1, CLOCK_HZ)
        stream.codec_context.gop_size = self._rate
        # With several threads the encoder would delay one frame per thread.
        stream.codec_context.thread_count = 1
        return stream
