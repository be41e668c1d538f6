"""The writing thread of a recorder: samples from a queue to the file and the video, with a commit every half second."""

from __future__ import annotations

import queue
import time
from pathlib import Path

from soulslab.errors import RecordingError
from soulslab.siphon.recording.hdf5 import Layout, RecordingFile, Sample
from soulslab.siphon.recording.recording_video import RecordingVideo

#: A crash may lose a second: half of one here, a quarter in the muxer of the video, and the time of the commit itself.
COMMIT_S = 0.5


class Destination:
    """The file and the video of one recording.

    Args:
        path: Path of the file.
        video: Path of the video; None for frames in the file, or none.
        layout: Layout of the file.
        rate_hz: Approximate samples per second.

    Raises:
        RecordingError: The files exist or cannot be created; neither remains.
    """

    def __init__(self, path: Path, video: Path | None, layout: Layout, rate_hz: float) -> None:
        self.path = path
        self._video: RecordingVideo | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = RecordingFile(path, layout)
        except (OSError, ValueError) as error:
            raise RecordingError(path, f"the recording cannot be created: {why(error)}") from error
        if video is not None:
            try:
                self._video = RecordingVideo(video, rate_hz)
            except OSError as error:
                self._file.close()
                path.unlink()
                raise RecordingError(video, f"the film cannot be created: {why(error)}") from error

    def append(self, sample: Sample, time_s: float) -> None:
        """Add a sample. Raises `OSError`."""
        if self._video is not None and sample.frame is not None:
            self._video.append(sample.frame, time_s)
            sample.frame = None
        self._file.append(sample)

    def commit(self) -> None:
        """Commit all samples so far. Raises `OSError`."""
        self._file.commit()
        if self._video is not None:
            self._video.commit()

    def finish(self) -> None:
        """Commit everything and finish the video. Raises `OSError`."""
        self._file.commit()
        if self._video is not None:
            self._video.finish()

    def close(self) -> None:
        """Close both; a second call does nothing."""
        try:
            self._file.close()
        finally:
            if self._video is not None:
                self._video.close()


class Writer:
    """Writes the samples of a queue until it contains None.

    Args:
        destination: File and video; closed at the end.
        samples: Queue of samples.
        start_s: ``time.perf_counter()`` at the start of the recording.

    Attributes:
        failure: Error that stopped all writing; later samples are discarded.
        latency_ms: Time from the start of the last sample until it was written.
    """

    def __init__(self, destination: Destination, samples: queue.Queue[Sample | None], start_s: float) -> None:
        self.failure: RecordingError | None = None
        self.latency_ms = 0.0
        self._destination = destination
        self._samples = samples
        self._start_s = start_s
        self._sum_ms = 0.0
        self._n_written = 0

    @property
    def average_latency_ms(self) -> float:
        """Mean of `latency_ms` over all samples."""
        return self._sum_ms / self._n_written if self._n_written else 0.0

    def run(self) -> None:
        """Write until the end of the queue."""
        try:
            self._write_all()
        except Exception as error:  # noqa: BLE001  (a thread has no caller: `Recorder.stop` raises it)
            self._fail(error)
            # The sampler must not wait for space in the queue.
            while self._samples.get() is not None:
                pass
        try:
            self._destination.close()
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
                    self._destination.finish()
                    return
                self._write(sample)
            if time.perf_counter() >= commit_s:
                self._destination.commit()
                commit_s = time.perf_counter() + COMMIT_S

    def _write(self, sample: Sample) -> None:
        queued_ms = (time.perf_counter() - sample.end_s) * 1e3
        self._destination.append(sample, sample.start_s - self._start_s)
        self.latency_ms = (time.perf_counter() - sample.start_s) * 1e3
        sample.latencies_ms += [queued_ms, self.latency_ms]
        self._sum_ms += self.latency_ms
        self._n_written += 1

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            problem = f"not all of it could be written: {why(error)}; it holds everything up to its last commit"
            self.failure = RecordingError(self._destination.path, problem)
            self.failure.__cause__ = error


def why(error: Exception) -> str:
    """Return the text of an error, for another message."""
    return getattr(error, "strerror", None) or str(error)
