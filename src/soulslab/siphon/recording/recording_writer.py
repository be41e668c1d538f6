"""Writing of a recording: the thread from a queue to the files, with a commit every half second, and the video.

An ordinary MP4 file has its index of frames at the end, so an unfinished file cannot be played. The video of a
recording is fragmented (ISO/IEC 14496-12, 8.8): each fragment has its own index, and only complete fragments are
written to the disk. After a crash of the writer it can be played up to its last commit.
"""

from __future__ import annotations

import os
import queue
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import RecordingError
from soulslab.siphon.recording.hdf5 import Layout, RecordingFile, Sample
from soulslab.siphon.recording.positioned_file import BINARY, NOT_INHERITED

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
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOT_INHERITED | BINARY, 0o644)
        self._pending = bytearray()
        self._n_written = 0

    def write(self, data: ReadableBuffer) -> int:
        """Buffer data until `commit`."""
        self._pending += data
        return memoryview(data).nbytes

    def commit(self) -> None:
        """Write all complete boxes, or none of them. Raises `OSError` if they do not fit on the disk."""
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
    """Writes frames as a video; they are valid after `commit`. Raises `OSError` if it cannot be created.

    `rate_hz` is approximate, because each frame has its own time.
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
        """Add a frame, (H, W, 3) RGB, all of one size, at a time since the start.

        An odd last row or column is repeated.
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
        """Commit the output of the muxer: all but the last quarter of a second. Raises `OSError`."""
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


#: A crash may lose a second: half of one here, a quarter in the muxer of the video, and the time of the commit itself.
COMMIT_S = 0.5


class Writer:
    """Writes the samples of a queue until it contains None, to a file and, with a path for it, a video of the frames.

    Raises `RecordingError` if the files exist or cannot be created; neither remains.

    Attributes:
        failure: Error that stopped all writing; later samples are discarded.
        n_committed: Number of samples whose bytes are in the files; the muxer may still hold the last one of them.
        spare_bytes: See `RecordingFile.spare_bytes`.
        latency_ms: Time from the start of the last sample until it was written.
    """

    def __init__(
        self, path: Path, video: Path | None, layout: Layout, samples: queue.Queue[Sample | None], start_s: float
    ) -> None:
        self.failure: RecordingError | None = None
        self.latency_ms = 0.0
        self.n_committed = 0
        self._path = path
        self._samples = samples
        self._start_s = start_s
        self._sum_ms = 0.0
        self._n_written = self._n_at_last_commit = 0
        self._video: RecordingVideo | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = RecordingFile(path, layout)
        except (OSError, ValueError) as error:
            raise RecordingError(path, f"the recording cannot be created: {why(error)}") from error
        self.spare_bytes = self._file.spare_bytes
        if video is not None:
            try:
                self._video = RecordingVideo(video, layout.facts["rate_hz"])
            except OSError as error:
                self._file.close()
                path.unlink()
                raise RecordingError(video, f"the film cannot be created: {why(error)}") from error

    @property
    def average_latency_ms(self) -> float:
        """Mean of `latency_ms` over all samples."""
        return self._sum_ms / self._n_written if self._n_written else 0.0

    def run(self) -> None:
        """Write until the end of the queue, and close the files."""
        try:
            self._write_all()
        except Exception as error:  # noqa: BLE001  (a thread has no caller: `Recorder.stop` raises it)
            self._fail(error)
            # The sampler must not wait for space in the queue.
            while self._samples.get() is not None:
                pass
        for part in (self._file, self._video):
            try:
                if part is not None:
                    part.close()
            except Exception as error:  # noqa: BLE001  (as above)
                self._fail(error)

    def _write_all(self) -> None:
        commit_s = time.perf_counter() + COMMIT_S
        while True:
            try:
                sample = self._samples.get(timeout=max(commit_s - time.perf_counter(), 0.0))
            except queue.Empty:
                pass
            else:
                if sample is None:
                    break
                self._write(sample)
            if time.perf_counter() >= commit_s:
                self._file.commit()
                if self._video is not None:
                    self._video.commit()
                # A fragment of the video is complete a quarter of a second after its first frame.
                self.n_committed = self._n_written if self._video is None else self._n_at_last_commit
                self._n_at_last_commit = self._n_written
                commit_s = time.perf_counter() + COMMIT_S
        self._file.commit()
        if self._video is not None:
            self._video.finish()

    def _write(self, sample: Sample) -> None:
        queued_ms = (time.perf_counter() - sample.end_s) * 1e3
        if self._video is not None and sample.frame is not None:
            self._video.append(sample.frame, sample.start_s - self._start_s)
            sample.frame = None
        self._file.append(sample)
        self.latency_ms = (time.perf_counter() - sample.start_s) * 1e3
        sample.latencies_ms += [queued_ms, self.latency_ms]
        self._sum_ms += self.latency_ms
        self._n_written += 1

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            problem = f"not all of it could be written: {why(error)}; it holds everything up to its last commit"
            self.failure = RecordingError(self._path, problem)
            self.failure.__cause__ = error


def why(error: Exception) -> str:
    """Return the text of an error, for another message."""
    return getattr(error, "strerror", None) or str(error)
