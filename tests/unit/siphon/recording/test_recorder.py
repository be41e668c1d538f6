"""Recordings of the toy: contents, dropped samples, and the end of a recording."""

import threading
import time

import h5py
import msgspec
import numpy as np
import pytest

from soulslab.errors import (
    AccessRefusedError,
    RecordingError,
    ServerUnavailableError,
    SessionStateError,
    UnknownAttributeError,
    WindowGoneError,
    WindowNotFoundError,
)
from soulslab.siphon.recording import reading
from soulslab.siphon.recording import recording_writer as video
from soulslab.siphon.recording.hdf5 import KEY_COLUMNS
from soulslab.siphon.recording.reading import read_recording, video_frames
from soulslab.siphon.recording.recorder import Recorder, RecordingOptions
from soulslab.siphon.session import SessionOptions, Step
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession
from support.waiting import wait_for


@pytest.fixture
def session():
    with FakeSession() as session:
        yield session


@pytest.fixture(autouse=True)
def no_thread_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def record(session, path, until=lambda status: status.n_samples >= 5, **options):
    with Recorder(session, path, RecordingOptions(**{"rate_hz": 200, **options})) as recorder:
        wait_for(lambda: until(recorder.status()))
    return recorder.stop()


@pytest.mark.parametrize("options", [{"compression": "none"}, {"frames": "video"}], ids=str)
def test_a_recording_ends_before_it_exceeds_its_maximum_size(session, tmp_path, options):
    """Also with the samples that are queued, and with whole chunks of its tables."""
    path, limits = tmp_path / "a.h5", {"attributes": ("hp",), "max_bytes": 3_500_000}
    status = record(session, path, lambda status: not status.is_recording, **limits, **options)
    assert (status.end, status.error) == ("size", "")
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 3_500_000
    assert len(read_recording(path)) == status.n_samples > 20


def test_a_maximum_size_without_room_for_a_sample_is_an_error(session, tmp_path):
    with pytest.raises(RecordingError, match="its maximum size of 100000 bytes is too small for a sample"):
        Recorder(session, tmp_path / "a.h5", RecordingOptions(frames="video", max_bytes=100_000))
    assert list(tmp_path.iterdir()) == []


def test_attributes_unknown_for_the_version_are_not_recorded(monkeypatch, tmp_path):
    limited = ("x", "level")
    attributes = {
        name: msgspec.structs.replace(one, versions=("1.0",) if name in limited else ())
        for name, one in TOY_PROFILE.attributes.items()
    }
    attributes["level"] = msgspec.structs.replace(attributes["level"], versions=("",))
    process = msgspec.structs.replace(TOY_PROFILE.process, versions=("", "1.0"))
    profile = msgspec.structs.replace(TOY_PROFILE, process=process, attributes=attributes)
    monkeypatch.setattr("soulslab.testing.fake_session.TOY_PROFILE", profile)
    with FakeSession() as session:
        session.toy.values["level"] = 1000  # cannot be read now, but is recorded
        status = record(session, tmp_path / "a.h5", compression="none")
    assert status.n_unreadable >= status.n_samples
    with h5py.File(tmp_path / "a.h5") as file:
        assert list(file["memory_data"].attrs["attribute_names"]) == ["hp", "y", "ticks", "level", "is_hurt"]


def test_a_recording_has_the_public_layout(session, tmp_path):
    path = tmp_path / "new folder" / "a.h5"
    session.step(Step(held=("W", "SPACE"), advance_s=0.1))
    status = record(session, path, lambda status: status.n_samples >= 20, compression="none")
    with h5py.File(path) as file:
        n = status.n_samples
        assert file["frames"].shape == (n, 48, 64, 4)
        assert file["frames"].dtype == np.uint8
        assert file["timestamps"].shape == (n,)
        assert file["timestamps"].dtype == np.int64
        assert file["memory_data"].shape == (n, 6)
        assert file["memory_data"].dtype == np.float32
        assert list(file["memory_data"].attrs["attribute_names"]) == ["hp", "x", "y", "ticks", "level", "is_hurt"]
        assert file["inputs"].shape == (n, 300)
        assert file["inputs"].dtype == np.uint8
        assert file["inputs"].attrs["key_mapping"][KEY_COLUMNS["W"]] == "W"
        assert file["latencies"].shape == (n, 5)
        assert file["latencies"].dtype == np.float32
        b, g, r, a = file["frames"][0, 0, 0]
        assert (r, g, b, a) == (94, 6, 0, 255)
        assert np.all(np.diff(file["timestamps"]) >= 0)
        assert abs(file["timestamps"][0] / 1000 - time.time()) < 60
        latencies = file["latencies"][:]
        assert np.all(latencies >= 0)
        assert np.all(latencies[:, 4] >= latencies[:, :3].sum(axis=1) - 1e-3)
    assert status.average_latency_ms > 0
    assert (status.end, status.error, status.problem, status.is_recording) == ("stopped", "", "", False)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_recorded_values_are_read_back(session, tmp_path, compression):
    path = tmp_path / "a.h5"
    session.write({"x": 1.25, "name": "Tørk ⚔", "velocity": np.array([0.5, -2.0])})
    session.toy.values["ticks"] = 2**31 + 1  # not exact in float32
    session.input.set_held(("W", "MOUSE_LEFT"))
    record(session, path, compression=compression)
    recording = read_recording(path)
    assert list(recording.attributes) == list(session.profile.attributes)
    assert set(recording.attributes["ticks"]) == {2**31 + 1}
    assert recording.attributes["ticks"].dtype == np.uint32
    assert set(recording.attributes["x"]) == {1.25}
    assert set(recording.attributes["name"]) == {"Tørk ⚔"}
    assert recording.attributes["velocity"].tolist() == [[0.5, -2.0]] * len(recording)
    assert set(recording.keys) == {"W", "MOUSE_LEFT"}
    assert all(recording.keys["W"])
    assert not any(column.any() for column in recording.unreadable.values())
    assert np.array_equal(recording.frames[0][..., 2::-1], session.capture().pixels)
    assert recording.facts["game"] == "toy"
    assert recording.video is None
    assert read_recording(path, with_frames=False).frames is None


def test_unreadable_values_are_marked_and_never_zero(session, tmp_path):
    with Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=200)) as recorder:
        session.toy.values["hp"] = 200  # out of its range; all else is fine
        wait_for(lambda: recorder.status().n_unreadable >= 3)
        session.toy.is_loading = True
        wait_for(lambda: recorder.status().n_unreadable >= 20)
    recording = read_recording(tmp_path / "a.h5")
    is_unreadable = recording.unreadable["hp"]
    assert not is_unreadable[0]
    assert is_unreadable[-1]
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(np.isnan(file["memory_data"][:, 0]), is_unreadable)
    assert recording.unreadable["x"][-1]
    assert not recording.unreadable["x"][np.argmax(is_unreadable)]
    assert np.isnan(recording.attributes["velocity"][-1]).all()
    assert recording.attributes["name"][-1] == ""
    assert "null pointer" in recorder.stop().problem


def test_a_film_has_the_frames_in_place_of_the_data_set(session, tmp_path):
    session.write({"hp": 90})
    status = record(session, tmp_path / "a.h5", lambda status: status.n_samples >= 60, frames="video")
    recording = read_recording(tmp_path / "a.h5")
    assert recording.frames is None
    assert recording.video == tmp_path / "a.mp4"
    frames = list(video_frames(recording.video))
    assert len(frames) == len(recording) == status.n_samples
    assert frames[0].shape == (48, 64, 3)
    assert abs(int(frames[0][20, 20, 0]) - 90) < 8


def test_a_film_of_odd_size_is_a_pixel_larger(session, tmp_path):
    record(session, tmp_path / "a.h5", frames="video", frame_px=(33, 21))
    assert next(video_frames(tmp_path / "a.mp4")).shape == (22, 34, 3)


def test_only_requested_values_are_read(tmp_path):
    with FakeSession(SessionOptions(with_window=False)) as session:
        with pytest.raises(WindowNotFoundError):
            Recorder(session, tmp_path / "a.h5", RecordingOptions(frames="none"))
        record(session, tmp_path / "a.h5", frames="none", with_keys=False, attributes=("name",))
        record(session, tmp_path / "b.h5", frames="none", with_keys=False, attributes=())
    recording = read_recording(tmp_path / "a.h5")
    assert list(recording.attributes) == ["name"]
    assert recording.frames is None
    assert len(read_recording(tmp_path / "b.h5")) >= 5


def test_it_ends_by_itself(session, tmp_path):
    recorder = Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=100, max_duration_s=0.1))
    wait_for(lambda: not recorder.status().is_recording)
    status = recorder.stop()
    assert status.end == "duration"
    assert status.n_samples + status.n_dropped == 10
    assert len(read_recording(tmp_path / "a.h5")) == status.n_samples


def test_samples_after_its_planned_end_are_not_missing(session, tmp_path, monkeypatch):
    snapshot = session.snapshot

    def snapshot_late(*arguments):
        if session.n_snapshots == 5:
            time.sleep(0.3)
        session.n_snapshots += 1
        return snapshot(*arguments)

    session.n_snapshots = 0
    monkeypatch.setattr(session, "snapshot", snapshot_late)
    recorder = Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=100, max_duration_s=0.1))
    wait_for(lambda: not recorder.status().is_recording)
    status = recorder.stop()
    assert status.n_late > 0
    assert status.n_samples + status.n_dropped == 10


def test_the_end_of_the_game_ends_it(session, tmp_path):
    recorder = Recorder(session, tmp_path / "a.h5")
    session.toy.is_alive = False
    wait_for(lambda: not recorder.status().is_recording)
    assert "has ended" in recorder.stop().end
    assert len(read_recording(tmp_path / "a.h5")) >= 1


@pytest.mark.parametrize("error", [ServerUnavailableError("the server is gone"), AccessRefusedError("revoked")])
def test_the_loss_of_the_server_ends_it(session, tmp_path, monkeypatch, error):
    def lost(*_):
        raise error

    recorder = Recorder(session, tmp_path / "a.h5")
    monkeypatch.setattr(session, "snapshot", lost)
    wait_for(lambda: not recorder.status().is_recording)
    assert recorder.stop().end == str(error)
    assert len(read_recording(tmp_path / "a.h5")) >= 1


def test_a_restart_of_the_game_does_not_end_it(session, tmp_path):
    with Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=200)) as recorder:
        session.restart({"level": "2"})
        n = recorder.status().n_samples
        wait_for(lambda: recorder.status().n_samples > n + 2)
    assert set(read_recording(tmp_path / "a.h5").attributes["level"]) == {1, 2}


def test_the_end_of_the_session_ends_it(tmp_path):
    session = FakeSession()
    recorder = Recorder(session, tmp_path / "a.h5")
    session.close()
    wait_for(lambda: not recorder.status().is_recording)
    assert "closed" in recorder.stop().end
    with pytest.raises(SessionStateError):
        Recorder(session, tmp_path / "b.h5")
    assert not (tmp_path / "b.h5").exists()


def test_samples_without_a_picture_are_dropped_and_counted(session, tmp_path):
    with Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=200)) as recorder:
        session.toy.has_window = False
        wait_for(lambda: recorder.status().n_failed >= 3)
        session.toy.has_window = True
        n = recorder.status().n_samples
        wait_for(lambda: recorder.status().n_samples > n)
    status = recorder.stop()
    assert status.n_dropped >= 3
    assert "window" in status.problem
    assert len(read_recording(tmp_path / "a.h5")) == status.n_samples
    session.toy.has_window = False
    with pytest.raises(WindowGoneError):
        Recorder(session, tmp_path / "b.h5")


def test_samples_that_are_late_are_dropped_and_counted(session, tmp_path, monkeypatch):
    real, go_on = session.capture, threading.Event()

    def slow(frame_format):
        go_on.wait(10)
        return real(frame_format)

    recorder = Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=500))
    monkeypatch.setattr(session, "capture", slow)
    start = time.perf_counter()
    wait_for(lambda: time.perf_counter() - start > 0.1)
    go_on.set()
    wait_for(lambda: recorder.status().n_late >= 40)
    assert recorder.stop().n_dropped >= 40


def test_samples_beyond_the_queue_are_dropped_and_counted(session, tmp_path, monkeypatch):
    go_on = threading.Event()
    recorder = Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=200, queue_mib=1, frame_px=(1024, 1024)))
    monkeypatch.setattr(recorder._writer._file, "append", lambda *_: go_on.wait(10))
    wait_for(lambda: recorder.status().n_overflowed >= 3)
    go_on.set()
    status = recorder.stop()
    assert status.n_dropped >= 3


def test_a_write_failure_is_reported_and_the_game_continues(session, tmp_path, monkeypatch):
    recorder = Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=200))
    wait_for(lambda: len(read_recording(tmp_path / "a.h5", with_frames=False)) > 0)
    monkeypatch.setattr(recorder._writer._file._file, "failure", OSError(28, "No space left on device"))
    wait_for(lambda: not recorder.status().is_recording)
    assert "No space left" in recorder.status().error
    for _ in range(2):
        with pytest.raises(RecordingError, match="No space left"):
            recorder.stop()
    assert len(read_recording(tmp_path / "a.h5")) > 0
    session.step(Step(advance_s=0.1))


def test_a_reading_that_a_commit_disturbs_is_repeated(session, tmp_path, monkeypatch):
    readers, read_once = [], reading._read_once

    def disturbed(reader, path, *, with_frames):
        readers.append(reader)
        if len(readers) == 1:
            time.sleep(0.2)  # the start of the process takes longer than the deadline
            raise reading._UnreadableError(path, "a commit happened")
        return read_once(reader, path, with_frames=with_frames)

    with Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=200)) as recorder:
        wait_for(lambda: recorder.status().n_samples >= 3)
    monkeypatch.setattr(reading, "_read_once", disturbed)
    monkeypatch.setattr(reading, "COMMIT_DEADLINE_S", 0.1)
    monkeypatch.setattr(reading, "is_being_written", lambda _: True)
    assert len(read_recording(tmp_path / "a.h5")) >= 3
    assert readers[0] is readers[1]


def test_a_sampler_that_breaks_is_reported(session, tmp_path, monkeypatch):
    recorder = Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=200))
    monkeypatch.setattr(session, "capture", lambda _: 1 / 0)
    wait_for(lambda: not recorder.status().is_recording)
    assert "ZeroDivisionError" in recorder.status().error
    with pytest.raises(RecordingError, match="ended early: ZeroDivisionError"):
        recorder.stop()
    assert len(read_recording(tmp_path / "a.h5")) >= 1


def test_a_window_that_changes_its_size_is_scaled(session, tmp_path):
    with Recorder(session, tmp_path / "a.h5", RecordingOptions(rate_hz=200)) as recorder:
        wait_for(lambda: recorder.status().n_samples >= 3)
    assert recorder._format.width_px == 64


def test_mistakes_of_the_caller(session, tmp_path):
    (tmp_path / "mine.h5").write_text("mine")
    with pytest.raises(RecordingError, match=r"mine\.h5.*exists"):
        Recorder(session, tmp_path / "mine.h5")
    (tmp_path / "film.mp4").write_text("mine")
    with pytest.raises(RecordingError, match=r"film\.mp4.*exists"):
        Recorder(session, tmp_path / "film.h5", RecordingOptions(frames="video"))
    assert not (tmp_path / "film.h5").exists()
    with pytest.raises(RecordingError, match="cannot be created"):
        Recorder(session, tmp_path / "mine.h5" / "a.h5")
    with pytest.raises(UnknownAttributeError, match="did you mean 'hp'"):
        Recorder(session, tmp_path / "a.h5", RecordingOptions(attributes=("hpp",)))


@pytest.mark.parametrize("content", [b"", b"no HDF5", None])
def test_other_files_are_refused_as_recordings(tmp_path, content):
    path = tmp_path / "a.h5"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"a\.h5: cannot be read"):
        read_recording(path)
    with pytest.raises(RecordingError, match=r"a\.h5: cannot be read"):
        list(video_frames(path))


def test_another_hdf5_file_or_a_newer_format_is_refused(session, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(RecordingError, match="its format is None"):
        read_recording(tmp_path / "a.h5")
    record(session, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5", "r+") as file:
        file.attrs["format"] = 2
    with pytest.raises(RecordingError, match="its format is 2"):
        read_recording(tmp_path / "b.h5")


def test_a_film_on_a_full_disk_stays_as_it_was(tmp_path, monkeypatch):
    film = video.RecordingVideo(tmp_path / "a.mp4", 50)
    noise = np.random.default_rng(1).integers(0, 256, (50, 48, 64, 3), np.uint8)
    for k, frame in enumerate(noise):
        film.append(frame, k / 50)
    film.commit()
    before = (tmp_path / "a.mp4").read_bytes()
    for k, frame in enumerate(noise):
        film.append(frame, 1 + k / 50)
    real, calls = video.os.write, []

    def full(handle, data):
        calls.append(1)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(handle, data[: len(data) // 2])

    monkeypatch.setattr(video.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        film.commit()
    monkeypatch.undo()
    film.close()
    film.close()
    assert (tmp_path / "a.mp4").read_bytes() == before
    assert 30 <= len(list(video_frames(tmp_path / "a.mp4"))) <= 50
