"""The writing half of a recorder: samples from a queue to the file and the film, a commit every half second."""

from __future__ import annotations

import queue
import time
from pathlib import Path

from soulslab.errors import RecordingError
from soulslab.siphon.recording.hdf5 import Layout, RecordingFile, Sample
from soulslab.siphon.recording.recording_video import RecordingVideo

#: A crash may cost a second: half of one here, a quarter in the muxer of the film, and what the commit itself takes.
COMMIT_S = 0.5


class Destination:
    """The file and the film of one recording.

    Args:
        path: The file.
        video: The film; None for frames in the file, or none.
        layout: What the file is made of.
        rate_hz: Samples per second, about.

    Raises:
        RecordingError: They exist or cannot be created; then there is neither.
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
        """Let all so far count. Raises `OSError`."""
        self._file.commit()
        if self._video is not None:
            self._video.commit()

    def finish(self) -> None:
        """Let everything count. Raises `OSError`."""
        self._file.commit()
        if self._video is not None:
            self._video.finish()

    def close(self) -> None:
        """Let go of both; a second call does nothing."""
        try:
            self._file.close()
        finally:
            if self._video is not None:
                self._video.close()


class Writer:
    """Writes what comes out of a queue until a None comes.

    Args:
        destination: Where to; it is closed at the end.
        samples: Where from.
        start_s: ``time.perf_counter()`` at the start of the recording.

    Attributes:
        failure: Why nothing is written any more; what comes then is thrown away.
        latency_ms: From the start of the last sample until it was written.
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
        """The mean of `latency_ms` over all samples."""
        return self._sum_ms / self._n_written if self._n_written else 0.0

    def run(self) -> None:
        """Write until the end."""
        try:
            self._write_all()
        except Exception as error:  # noqa: BLE001  (nobody is above a thread: whatever it is, `Recorder.stop` tells)
            self._fail(error)
            # The sampler must not wait for room in the queue.
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
    """Return what an error says, for another message."""
    return getattr(error, "strerror", None) or str(error)
