"""The frames of a recording as a film that can be played up to its last commit, whatever happens to its writer.

An ordinary MP4 keeps its table of frames at the end, so one that was not closed is lost. This one is fragmented
(ISO/IEC 14496-12, 8.8): each part of it carries its own table, and only whole parts are written to the disk.
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

#: Encoders in the order of choice, with their options: none of them may look ahead, as that would be lost in a crash.
CODECS: Final = {
    "libx264": {"crf": "23", "preset": "veryfast", "tune": "zerolatency"},
    "mpeg4": {"qscale": "4", "bf": "0"},
}
FRAGMENT_US = 250_000
#: MP4's usual clock: divisible by all rates that are in use.
CLOCK_HZ = 90_000
_BOX_HEADER = 8


class _Fragments:
    """Takes what the muxer writes, and writes whole boxes of it when it is told to."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._pending = bytearray()
        self._n_written = 0

    def write(self, data: ReadableBuffer) -> int:
        """Keep it until `commit`."""
        self._pending += data
        return memoryview(data).nbytes

    def commit(self) -> None:
        """Write the boxes that are complete; all of them or none.

        Raises:
            OSError: They do not fit on the disk.
        """
        end = 0
        while end + _BOX_HEADER <= len(self._pending):
            size = int.from_bytes(self._pending[end : end + 4], "big")
            kind = bytes(self._pending[end + 4 : end + 8])
            # A fragment's table (moof) is of no use without its frames (mdat).
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
        """Let go of the file."""
        os.close(self._handle)

    def _has_frames(self, start: int) -> bool:
        """Return whether the box that starts there is complete."""
        header = self._pending[start : start + 4]
        return len(header) == 4 and start + int.from_bytes(header, "big") <= len(self._pending)


class RecordingVideo:
    """Writes frames as a film; none counts before `commit`.

    Args:
        path: A new file, ``.mp4``.
        rate_hz: Frames per second, about; each frame has its own time.

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
            frame: (H, W, 3) RGB; all of one size. A row or a column is repeated where its number is odd.
            time_s: Since the start.
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
        """Let what the muxer has finished count: all but the last quarter of a second.

        Raises:
            OSError: It does not fit on the disk; the film stays as it was.
        """
        self._file.commit()

    def finish(self) -> None:
        """Let all frames count. Raises as `commit`."""
        if self._stream is not None:
            self._container.mux(self._stream.encode(None))
        self._container.close()
        self._file.commit()

    def close(self) -> None:
        """Let go of the film; a second call does nothing."""
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
        # With more threads the encoder keeps frames back, one for each.
        stream.codec_context.thread_count = 1
        return stream
