"""Recording a game at a fixed rate: attributes, keys and frames, to HDF5.

One thread takes the samples, another one writes them; the queue between them is bounded. Samples that exceed the
capacity are dropped and counted. `soulslab.siphon.recording.reading` reads the file.
"""

from __future__ import annotations

import logging
import math
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta

from soulslab.closing import Closing
from soulslab.errors import (
    AccessRefusedError,
    AttributeVersionError,
    EntityNotFoundError,
    ImplausibleValueError,
    MemoryAccessError,
    ProcessExitedError,
    RecordingError,
    ServerUnavailableError,
    SessionStateError,
    SiphonError,
    UndecidedAttributeError,
    UnknownAttributeError,
)
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.input import Input
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.profile.facts import is_for_all
from soulslab.siphon.recording.hdf5 import Layout, Sample
from soulslab.siphon.recording.recording_writer import Writer
from soulslab.siphon.session import Frame, Snapshot

MEBIBYTE = 2**20
MIN_QUEUED = 4
MAX_QUEUED = 1024
#: Interval between checks that the main thread of the program runs.
LONGEST_WAIT_S = 0.25
#: Upper bound of what a frame adds to the index of its file.
_SAMPLE_BYTES = 1024
#: Errors that end a recording; others are failed samples.
ENDS = (AccessRefusedError, ProcessExitedError, ServerUnavailableError, SessionStateError)
_UNREADABLE = (EntityNotFoundError, ImplausibleValueError, MemoryAccessError, UndecidedAttributeError)

_log = logging.getLogger(__name__)


class RecordingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of a recording.

    Attributes:
        rate_hz: Samples per second of wall time.
        attributes: Attributes to read; None for all that are known for the version of the game.
        frames: ``dataset`` stores every pixel in the file; ``video`` writes a video beside it (``.mp4``); ``none``.
        with_keys: Whether to record the held keys; a session without a window has none.
        frame_px: Width and height of the frames; (0, 0) for the size of the window at the start.
        compression: Compression of the frames in the file.
        max_duration_s: Duration after which the recording ends; 0 for no limit.
        max_bytes: Maximum size of the files; the recording ends before they exceed it. 0 for no limit.
        queue_mib: Memory for queued frames.
    """

    rate_hz: Annotated[float, Meta(gt=0, le=1000)] = 60.0
    attributes: tuple[str, ...] | None = None
    frames: Literal["dataset", "video", "none"] = "dataset"
    with_keys: bool = True
    frame_px: tuple[Annotated[int, Meta(ge=0, le=16384)], Annotated[int, Meta(ge=0, le=16384)]] = (0, 0)
    compression: Literal["none", "gzip"] = "gzip"
    max_duration_s: Annotated[float, Meta(ge=0)] = 0.0
    max_bytes: Annotated[int, Meta(ge=0)] = 0
    queue_mib: Annotated[int, Meta(ge=1, le=65536)] = 64


class RecordingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a recording.

    Attributes:
        n_samples: Number of samples taken; during the recording some of them are not written yet.
        n_dropped: Number of missing samples: the sum of the next three.
        n_late: Samples not taken because the previous one took too long.
        n_overflowed: Samples dropped because the queue was full.
        n_failed: Samples not taken because frame or keys were not available (see `problem`).
        n_unreadable: Number of unreadable attribute values, which are marked in the file.
        duration_s: Wall time from the first sample to the last one, or to now.
        latency_ms: Time from the start of the last sample until it was written.
        average_latency_ms: Mean of the same over all samples.
        end: Reason of the end: ``stopped``, ``duration``, ``size``, or an error; "" while it is running.
        problem: Last error of a sample; "" for none.
        error: Error that stopped the recording; "" for none. The file holds everything up to then.
    """

    is_recording: bool
    n_samples: int
    n_late: int
    n_overflowed: int
    n_failed: int
    n_unreadable: int
    duration_s: float
    latency_ms: float
    average_latency_ms: float
    end: str
    problem: str
    error: str

    @property
    def n_dropped(self) -> int:
        """Number of missing samples."""
        return self.n_late + self.n_overflowed + self.n_failed

    @property
    def rate_hz(self) -> float:
        """Samples per second that were taken; 0 before the second one."""
        return (self.n_samples - 1) / self.duration_s if self.duration_s > 0 and self.n_samples > 1 else 0.0


class Recordable(Protocol):
    """The methods of a session that a recorder uses."""

    @property
    def profile(self) -> Profile:
        """Profile of the game."""

    @property
    def input(self) -> Input:
        """Its input."""

    def snapshot(self, names: tuple[str, ...] | None = None) -> Snapshot:
        """Return several attributes."""

    def capture(self, frame_format: FrameFormat) -> Frame:
        """Capture the window."""


class Recorder(Closing):
    """A recording that runs from now until `stop`, or until the game or the program ends.

    The session can be used in the meantime, and is not closed at the end. The path is that of a new file, ``.h5``; the
    video of ``frames="video"`` is written beside it, to `video`.

    Raises:
        RecordingError: The file exists or cannot be created, or its maximum size is too small for a sample.
        UnknownAttributeError: The attribute does not exist.
        SiphonError: The first frame cannot be captured.
    """

    def __init__(self, session: Recordable, path: Path, options: RecordingOptions | None = None) -> None:
        self.path = path
        self._session = session
        self._options = options = options or RecordingOptions()
        self._names = options.attributes if options.attributes is not None else _known(session)
        for name in self._names:
            if name not in session.profile.attributes:
                raise UnknownAttributeError(name, session.profile.attributes)
        self._format = FrameFormat(*options.frame_px)
        self._counts = dict.fromkeys(("late", "overflowed", "failed", "unreadable"), 0)
        self._n_samples = 0
        self._end = self._problem = ""
        self._end_s = 0.0
        self._crash: RecordingError | None = None
        self._stopping = threading.Event()
        self._start_s = time.perf_counter()
        # The first sample is taken here, so that a game that cannot be recorded is an error of this call, and because
        # the file needs the size of the frames.
        first = self._sample()
        self._n_samples = 1
        self.video = path.with_suffix(".mp4") if options.frames == "video" else None
        self._queue: queue.Queue[Sample | None] = queue.Queue(self._queue_size(first))
        self._writer = Writer(path, self.video, self._layout(first), self._queue, self._start_s)
        # Frames in the file have a fourth channel; compressed ones may be slightly larger. A video needs less.
        self._sample_bytes = _SAMPLE_BYTES + (first.frame.nbytes * 3 // 2 if first.frame is not None else 0)
        if not self._has_room(1):
            self._discard()
            raise RecordingError(path, f"its maximum size of {self.max_bytes} bytes is too small for a sample")
        self._queue.put(first)
        self._threads = [
            threading.Thread(target=self._sample_until_end, name="recording: sampler"),
            threading.Thread(target=self._writer.run, name="recording: writer"),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def max_bytes(self) -> int:
        """See `RecordingOptions.max_bytes`."""
        return self._options.max_bytes

    @property
    def n_bytes(self) -> int:
        """Current size of its files."""
        files = (self.path, self.video)
        return sum(file.stat().st_size for file in files if file is not None and file.exists())

    def status(self) -> RecordingStatus:
        """Return the current status."""
        writer = self._writer
        is_recording = any(thread.is_alive() for thread in self._threads)
        return RecordingStatus(
            is_recording=is_recording,
            n_samples=self._n_samples,
            **{f"n_{what}": n for what, n in self._counts.items()},
            duration_s=(self._end_s or time.perf_counter()) - self._start_s,
            latency_ms=writer.latency_ms,
            average_latency_ms=writer.average_latency_ms,
            end="" if is_recording else self._end,
            problem=self._problem,
            error=str(writer.failure or self._crash or ""),
        )

    def stop(self) -> RecordingStatus:
        """Stop the recording and return the final status; a second call returns the same.

        Raises `RecordingError` if not everything could be written, for example because the disk is full. The file holds
        everything up to its last commit, at most a second earlier.
        """
        self.end()
        failure = self._writer.failure or self._crash
        if failure is not None:
            raise failure
        return self.status()

    def end(self) -> None:
        """Stop without raising an error of the recording; see `status`."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        """Stop the recording, with the errors of `stop`."""
        self.stop()

    def _layout(self, first: Sample) -> Layout:
        options, profile = self._options, self._session.profile
        facts = {"game": profile.name, "executable": profile.process.executable, "rate_hz": options.rate_hz}
        if self.video is not None:
            facts["video"] = self.video.name
        return Layout(
            attributes={name: profile.attributes[name] for name in self._names},
            frame_shape=None if first.frame is None or self.video else (first.frame.shape[0], first.frame.shape[1]),
            is_compressed=options.compression == "gzip",
            facts=facts,
        )

    def _queue_size(self, first: Sample) -> int:
        n_bytes = first.frame.nbytes if first.frame is not None else 1
        return min(max(self._options.queue_mib * MEBIBYTE // n_bytes, MIN_QUEUED), MAX_QUEUED)

    def _has_room(self, n_samples: int) -> bool:
        """Return whether the files stay within their maximum size with further samples, queued ones included."""
        further_bytes = (n_samples + 1) * self._sample_bytes + self._writer.spare_bytes  # one is in the muxer
        return not self.max_bytes or self.n_bytes + further_bytes <= self.max_bytes

    def _discard(self) -> None:
        """Remove the files before the first sample was written."""
        self._queue.put(None)
        self._writer.run()
        for file in (self.path, self.video):
            if file is not None:
                file.unlink(missing_ok=True)

    # --- the sampler's thread -------------------------------------------------------------------------------

    def _sample_until_end(self) -> None:
        try:
            self._end = self._sample_on_time()
        except ENDS as error:
            self._end = str(error)
            _log.warning("%s: the recording ends: %s", self.path.name, error)
        except Exception as error:  # noqa: BLE001  (a thread has no caller: `stop` raises it)
            self._end = f"{type(error).__name__}: {error}"
            self._crash = RecordingError(self.path, f"it ended early: {self._end}; it holds everything up to then")
            self._crash.__cause__ = error
        finally:
            self._end_s = time.perf_counter()
            self._queue.put(None)

    def _sample_on_time(self) -> str:
        """Take the samples; return the reason of the end."""
        period_s = 1.0 / self._options.rate_hz
        max_s = self._options.max_duration_s
        # The added epsilon is less than the rounding error of the division.
        n_planned = math.ceil(max_s / period_s - 1e-6) if max_s else sys.maxsize
        k = 1
        while True:
            if k >= n_planned:
                return "duration"
            if not self._wait_until(self._start_s + k * period_s):
                return "stopped"
            if not self._has_room(self._n_samples + 1 - self._writer.n_committed):
                return "size"
            if self._writer.failure is not None:
                return "it cannot be written"
            self._take()
            now = math.floor((time.perf_counter() - self._start_s) / period_s)
            self._counts["late"] += max(0, min(now, n_planned) - (k + 1))
            k = max(k + 1, now)

    def _wait_until(self, due_s: float) -> bool:
        while True:
            # A program that did not stop the recording would wait for this thread at exit without end.
            if not threading.main_thread().is_alive():
                return False
            wait_s = due_s - time.perf_counter()
            if self._stopping.wait(min(max(0.0, wait_s), LONGEST_WAIT_S)):
                return False
            if wait_s <= LONGEST_WAIT_S:
                return True

    def _take(self) -> None:
        """Take one sample and queue it, or count why not."""
        try:
            sample = self._sample()
        except ENDS:
            raise
        except SiphonError as error:
            self._problem = str(error)
            self._counts["failed"] += 1
            return
        try:
            self._queue.put_nowait(sample)
        except queue.Full:
            self._counts["overflowed"] += 1
            return
        self._n_samples += 1

    def _sample(self) -> Sample:
        wall_time_s, start_s = time.time(), time.perf_counter()
        values, game_time_s = self._read()
        read_s = time.perf_counter()
        held = self._session.input.held if self._options.with_keys else frozenset()
        keys_s = time.perf_counter()
        frame = None
        if self._options.frames != "none":
            frame = self._session.capture(self._format).pixels
            # A window that changes its size is scaled: all frames of a file have one size.
            self._format = FrameFormat(frame.shape[1], frame.shape[0])
        end_s = time.perf_counter()
        latencies_ms = [(end_s - keys_s) * 1e3, (read_s - start_s) * 1e3, (keys_s - read_s) * 1e3]
        return Sample(wall_time_s, game_time_s, values, held, frame, latencies_ms, start_s, end_s)

    def _read(self) -> tuple[dict[str, Value], float]:
        try:
            snapshot = self._session.snapshot(self._names)
        except _UNREADABLE as error:
            self._problem = str(error)
        else:
            return dict(snapshot), snapshot.game_time_s
        values: dict[str, Value] = {}
        for name in self._names:
            try:
                values.update(self._session.snapshot((name,)))
            except _UNREADABLE:
                self._counts["unreadable"] += 1
        return values, self._session.snapshot(()).game_time_s


def _known(session: Recordable) -> tuple[str, ...]:
    """Return the attributes of the profile that are known for the version of the game."""
    return tuple(
        name for name in session.profile.attributes if is_for_all(session.profile, name) or _has(session, name)
    )


def _has(session: Recordable, name: str) -> bool:
    """Return whether an attribute is known for the version of the game, even if it cannot be read now."""
    try:
        session.snapshot((name,))
    except AttributeVersionError:
        return False
    except _UNREADABLE:
        return True
    return True
