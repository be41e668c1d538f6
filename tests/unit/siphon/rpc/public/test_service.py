"""The public service with a client on the toy: each call, its failures, and cleanup after clients."""

import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import psutil
import pytest
import simplejpeg

from soulslab.errors import ProcessNotFoundError, WireError
from soulslab.siphon.profile import Attribute
from soulslab.siphon.recording.reading import read_recording
from soulslab.siphon.recording.recorder import RecordingOptions
from soulslab.siphon.rpc.public import siphon_service_pb2 as messages
from soulslab.siphon.rpc.public.call_handlers import response_of
from soulslab.siphon.rpc.public.service import MAX_STREAMS
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession
from support.public_siphon import PATTERN, TYPES, public_server, with_entity
from support.waiting import PATIENCE_S, wait_for


@pytest.fixture
def server(tmp_path):
    before = {thread for thread in threading.enumerate() if "siphon" in thread.name or "recording" in thread.name}
    with public_server(tmp_path) as server:
        yield server
    after = {thread for thread in threading.enumerate() if "siphon" in thread.name or "recording" in thread.name}
    assert after <= before
    assert all(session.toy.held == frozenset() for session in server.toys.sessions)


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture
def ready(client):
    client.initialise()
    return client


# --- configuration ------------------------------------------------------------------------------------------


def test_a_session_is_opened_as_it_was_configured(server, client):
    assert not client("GetServerStatus").config_set
    answer = client("InitializeMemory")
    assert not answer.success
    assert "SetProcessConfig first" in answer.message
    assert client.configure().success
    assert client("InitializeMemory").process_id == 4242
    profile, options = server.toys.asked[-1]
    assert list(profile.attributes) == list(TYPES)
    assert profile.process.executable == "toy"
    assert (options.launch, options.with_window) == ("never", False)
    status = client("GetServerStatus")
    assert (status.memory_initialized, status.input_initialized, status.capture_initialized) == (True, False, False)
    assert client("InitializeInput").success
    profile, options = server.toys.asked[-1]
    assert options.with_window
    assert profile.process.window_title == "Toy"
    capture = client("InitializeCapture")
    assert (capture.window_width, capture.window_height) == (64, 48)
    assert len(server.toys.asked) == 2  # the second one had the window already
    status = client("GetServerStatus")
    assert status.success
    assert status.config_set
    assert (status.memory_initialized, status.input_initialized, status.capture_initialized) == (True, True, True)
    assert (status.process_name, status.window_name, status.process_id) == ("toy", "Toy", 4242)


def test_another_window_is_another_session_and_the_old_one_is_closed(server, ready):
    assert ready("InputKeyToggle", key="W", toggle=True).success
    assert ready("InitializeCapture", window_name="Other").success
    old, new = server.toys.sessions[-2:]
    assert server.toys.asked[-1][0].process.window_title == "Other"
    assert old.toy.held == frozenset()
    assert new.toy.held == {"W"}  # what was held is held there
    assert ready("GetAttribute", attributeName="hp").success
    assert ready("GetServerStatus").window_name == "Other"


def test_a_game_that_ended_is_attached_to_again(server, ready):
    server.toys.toy.is_alive = False
    answer = ready("GetAttribute", attributeName="hp")
    assert not answer.success
    assert "has ended" in answer.message
    assert ready("InitializeMemory").success
    assert ready("GetAttribute", attributeName="hp").int_value == 100
    assert ready("CaptureFrame").success


def test_an_equal_configuration_has_no_effect_and_another_one_restarts(server, ready):
    assert ready.configure().success
    assert ready("GetAttribute", attributeName="hp").success
    assert len(server.toys.sessions) == 2
    assert ready("InputKeyToggle", key="W", toggle=True).success
    assert ready.configure({"hp": "int"}).success
    assert server.toys.toy.held == frozenset()
    status = ready("GetServerStatus")
    assert status.config_set
    assert not (status.memory_initialized or status.input_initialized or status.capture_initialized)
    assert status.process_id == 0
    answer = ready("GetAttribute", attributeName="hp")
    assert "InitializeMemory first" in answer.message


@pytest.mark.parametrize(
    ("kinds", "fields", "problem"),
    [
        ({"hp": "number"}, {}, "type"),
        ({"hp": "int"}, {"process_name": ""}, "name"),
        ({"hp": ""}, {}, "type"),
    ],
)
def test_a_malformed_configuration_is_refused_with_its_place(client, kinds, fields, problem):
    answer = client.configure(kinds, **fields)
    assert not answer.success
    assert answer.message.startswith("SetProcessConfig: ")
    assert problem in answer.message
    assert not client("GetServerStatus").config_set


def test_a_duplicate_name_is_refused(client):
    request = messages.SetProcessConfigRequest(process_name="toy")
    for _ in range(2):
        attribute = request.attributes.add()
        attribute.name, attribute.pattern, attribute.type = "hp", PATTERN, "int"
    answer = client("SetProcessConfig", request)
    assert not answer.success
    assert "attributes[1].name" in answer.message


def test_errors_while_opening_are_passed_on(server, client):
    server.toys.error = ProcessNotFoundError("no process of the name toy runs")
    client.configure()
    for call in ("InitializeMemory", "InitializeInput", "InitializeCapture"):
        answer = client(call)
        assert not answer.success
        assert answer.message == "no process of the name toy runs"


# --- attributes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "field", "value", "other", "read"),
    [
        ("hp", "int_value", 100, 50, 50),
        ("x", "float_value", 0.0, 2.5, 2.5),
        ("is_hurt", "bool_value", False, True, True),
        ("name", "array_value", b"toy", "tøy".encode(), "tøy"),
        ("velocity", "array_value", bytes(16), np.array([3.0, -4.0]).tobytes(), [3.0, -4.0]),
    ],
)
def test_each_type_uses_its_field_in_both_directions(server, ready, name, field, value, other, read):  # noqa: PLR0917
    answer = ready("GetAttribute", attributeName=name)
    assert answer.success
    assert answer.WhichOneof("value") == field
    assert getattr(answer, field) == value
    assert ready("SetAttribute", attributeName=name, **{field: other}).success
    assert np.all(server.toys.toy.values[name] == read)
    assert getattr(ready("GetAttribute", attributeName=name), field) == other


@pytest.mark.parametrize(("value", "problem"), [(2**31, "32-bit integers"), (-(2**31) - 1, "32-bit"), (1e39, "floats")])
def test_a_number_out_of_range_is_an_error(value, problem):
    kind = "f64" if isinstance(value, float) else "i64"
    attribute = Attribute(base="a", offsets=(0,), type=kind, range=(-1e300, 1e300), source="made up")
    with pytest.raises(WireError, match=f"{problem}.*own client"):
        response_of("x", value, attribute)


def test_a_float_that_loses_digits_is_reported():
    attribute = Attribute(base="a", offsets=(0,), type="f64", range=(-1e300, 1e300), source="made up")
    assert "rounded" in response_of("x", 0.1, attribute).message
    for value in (0.5, float("inf"), float("nan")):
        assert response_of("x", value, attribute).message == "ok"


def test_a_number_that_the_protocol_cannot_carry_is_reported(server, ready):
    server.toys.toy.values["ticks"] = 2**31
    answer = ready("GetAttribute", attributeName="ticks")
    assert not answer.success
    assert "2147483648" in answer.message
    assert answer.WhichOneof("value") is None


@pytest.mark.parametrize(
    ("name", "field", "problem"),
    [
        ("hp", {"int_value": 1000}, "between 0 and 100"),
        ("hp", {"float_value": 1.0}, "came as float"),
        ("hp", {"bool_value": True}, "came as bool"),
        ("hp", {}, "carries no value"),
        ("x", {"array_value": b"1234"}, "came as array"),
        ("x", {"float_value": float("nan")}, "has to lie"),
        ("is_hurt", {"int_value": 2}, "0 or 1"),
        ("name", {"array_value": b"\xff"}, "UTF-8"),
        ("velocity", {"array_value": b"1234"}, "16 bytes"),
        ("ticks", {"int_value": 1}, "read-only"),
        ("hpp", {"int_value": 1}, "did you mean 'hp'"),
        ("", {"int_value": 1}, "unknown attribute"),
    ],
)
def test_values_that_cannot_be_written_are_refused(server, ready, name, field, problem):
    before = repr(dict(server.toys.toy.values))
    answer = ready("SetAttribute", attributeName=name, **field)
    assert not answer.success
    assert problem in answer.message
    assert repr(dict(server.toys.toy.values)) == before


def test_an_unreadable_attribute_is_reported(server, ready):
    server.toys.toy.is_loading = True
    answer = ready("GetAttribute", attributeName="hp")
    assert not answer.success
    assert "null pointer" in answer.message


def dll_request():
    request = messages.SetProcessConfigRequest(process_name="toy", process_window_name="Toy")
    for name, method in (("hp", ""), ("enemy_hp", "dll")):
        attribute = request.attributes.add()
        attribute.name, attribute.type, attribute.method = name, "int", method
        attribute.pattern = "48 8B 48 08 49 89 8D" if method else PATTERN
        attribute.offsets.extend([0x190, 0x138])
    return request


def test_an_injected_attribute_needs_a_known_profile(tmp_path):
    with public_server(tmp_path) as server, server.client() as client:
        answer = client("SetProcessConfig", dll_request())
        assert answer.success
        assert "1 with method 'dll' cannot be read" in answer.message
        assert client("InitializeMemory").success
        answer = client("GetAttribute", attributeName="enemy_hp")
        assert not answer.success
        assert "injects nothing" in answer.message
        assert not client("SetAttribute", attributeName="enemy_hp", int_value=1).success
        answer = client("StartRecording", attribute_names=["enemy_hp"])
        assert "injects nothing" in answer.message
    known = {"TOY": with_entity(TOY_PROFILE)}
    with public_server(tmp_path, known=known) as server, server.client() as client:
        answer = client("SetProcessConfig", dll_request())
        assert answer.success
        assert "dll" not in answer.message
        assert client("InitializeMemory").success
        profile, _ = server.toys.asked[-1]
        assert profile.attributes["enemy_hp"].entity == "target"
        assert profile.attributes["enemy_hp"].offsets == (0x190, 0x138)
        assert profile.entities["target"].id == 7


# --- keys and mouse -----------------------------------------------------------------------------------------


def test_keys_are_toggled_by_their_public_names(server, ready):
    toy = server.toys.toy
    for key in ("W", "d", "LEFT"):
        assert ready("InputKeyToggle", key=key, toggle=True).success
    assert toy.held == {"W", "D", "MOUSE_LEFT"}
    assert ready("InputKeyToggle", key="W", toggle=False).success
    assert toy.held == {"D", "MOUSE_LEFT"}
    answer = ready("InputKeyToggle", key="SPACEE", toggle=True)
    assert not answer.success
    assert "did you mean 'SPACE'" in answer.message
    assert toy.held == {"D", "MOUSE_LEFT"}


def test_a_tap_presses_all_holds_and_releases(server, ready, monkeypatch):
    seen = []
    real = type(server.toys.sessions[-1].input).set_held

    def set_held(self, keys):
        seen.append(list(keys))
        real(self, keys)

    monkeypatch.setattr(type(server.toys.sessions[-1].input), "set_held", set_held)
    ready("InputKeyToggle", key="D", toggle=True)
    assert ready("InputKeyTap", keys=["W", "SPACE"], hold_ms=10, delay_ms=5).success
    assert seen == [["D"], ["D", "W"], ["D", "W", "SPACE"], ["D", "SPACE"], ["D"]]
    assert server.toys.toy.held == {"D"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"keys": []}, "1 to 32 keys"),
        ({"keys": ["W", "nonsense"]}, "unknown key"),
        ({"keys": ["W"], "hold_ms": -1}, "hold_ms is -1"),
        ({"keys": ["W", "A"], "hold_ms": 10, "delay_ms": 2**31 - 1}, "is the most"),
        ({"keys": ["W"], "hold_ms": 2**31 - 1}, "is the most"),
    ],
)
def test_a_tap_that_makes_no_sense_is_refused(server, ready, fields, problem):
    answer = ready("InputKeyTap", **fields)
    assert not answer.success
    assert problem in answer.message
    assert server.toys.toy.held == frozenset()


def test_a_mouse_move_is_cut_into_steps_that_add_up(server, ready):
    assert ready("MoveMouse", delta_x=100, delta_y=-7, steps=3).success
    assert ready("MoveMouse", delta_x=1, delta_y=1).success
    assert server.toys.toy.input.mouse_px == (101, -6)
    for fields in ({"delta_x": 2**31 - 1}, {"delta_x": 1, "steps": 2**31 - 1}):
        answer = ready("MoveMouse", **fields)
        assert not answer.success
        assert "too much" in answer.message


def test_a_deadline_ends_a_tap_and_releases_its_keys(server, ready):
    with pytest.raises(grpc.RpcError) as caught:
        ready("InputKeyTap", keys=["W"], hold_ms=30_000, timeout=0.2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_for(lambda: server.toys.toy.held == frozenset())


def test_a_client_that_vanishes_leaves_no_key(server, ready):
    with server.client() as other:
        assert other("InputKeyToggle", key="W", toggle=True).success
    with server.client() as other, ThreadPoolExecutor(1) as pool:
        assert ready("InputKeyToggle", key="D", toggle=True).success
        tap = pool.submit(other, "InputKeyTap", keys=["SPACE"], hold_ms=30_000)
        wait_for(lambda: "SPACE" in server.toys.toy.held)
        other._channel.close()
        with pytest.raises((grpc.RpcError, ValueError)):
            tap.result()
    wait_for(lambda: server.toys.toy.held == {"D"})
    assert ready("InputKeyToggle", key="D", toggle=False).success
    wait_for(lambda: not any(thread.name == "siphon: peers" for thread in threading.enumerate()))


def test_a_key_is_held_for_the_maximum_time(tmp_path):
    with public_server(tmp_path, keys_after_s=1000.0) as server:
        with server.client() as client:
            client.initialise()
            assert client("InputKeyToggle", key="W", toggle=True).success
        with server.client() as client:  # as `pysiphon toggle W 1` and later `pysiphon toggle W 0`
            assert server.toys.toy.held == {"W"}
            assert client("InputKeyToggle", key="W", toggle=False).success
            assert server.toys.toy.held == frozenset()


# --- pictures -----------------------------------------------------------------------------------------------


def test_a_frame_is_raw_bgra(server, ready):
    server.toys.toy.values.update(hp=90, ticks=5)
    frame = ready("CaptureFrame")
    assert frame.success
    assert (frame.width, frame.height) == (64, 48)
    assert frame.frame == bytes([0, 5, 90, 255]) * (64 * 48)
    server.toys.toy.has_window = False
    answer = ready("CaptureFrame")
    assert not answer.success
    assert answer.frame == b""
    assert "closed" in answer.message


def test_a_stream_has_numbered_frames_of_both_formats(server, ready):
    for kind in ("jpeg", "raw", ""):
        stream = ready.start("StreamFrames", format=kind, quality=90)
        frames = [next(stream) for _ in range(3)]
        stream.cancel()
        assert [frame.frame_number for frame in frames] == [1, 2, 3]
        assert [frame.format for frame in frames] == [kind or "jpeg"] * 3
        assert frames[0].timestamp_us < frames[2].timestamp_us
        if kind == "raw":
            assert len(frames[0].data) == 64 * 48 * 4
        else:
            assert simplejpeg.decode_jpeg(frames[0].data).shape == (48, 64, 3)
    wait_for(lambda: len(server.service._streams) == 0)


@pytest.mark.parametrize("fields", [{"format": "png"}, {"quality": 101}, {"quality": -1}])
def test_a_stream_that_makes_no_sense_ends_with_a_status(ready, fields):
    with pytest.raises(grpc.RpcError) as caught:
        next(ready.start("StreamFrames", **fields))
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_a_stream_ends_with_the_window_and_with_the_channel(server, ready):
    with server.client() as other:
        stream = other.start("StreamFrames", format="raw")
        next(stream)
        assert len(server.service._streams) == 1
    wait_for(lambda: len(server.service._streams) == 0)
    stream = ready.start("StreamFrames")
    next(stream)
    server.toys.toy.has_window = False
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    assert "closed" in caught.value.details()
    wait_for(lambda: len(server.service._streams) == 0)


def test_streams_that_stall_make_room_for_new_ones(server, ready):
    stalled = [ready.start("StreamFrames", format="raw", timeout=2 * PATIENCE_S) for _ in range(MAX_STREAMS)]
    wait_for(lambda: len(server.service._streams) == MAX_STREAMS)
    live = ready.start("StreamFrames")
    assert next(live).frame_number == 1
    wait_for(lambda: len(server.service._streams) == MAX_STREAMS)
    for stream in [*stalled, live]:
        stream.cancel()
    wait_for(lambda: len(server.service._streams) == 0)


def test_a_stream_that_is_read_does_not_make_room_for_new_ones(server, ready, monkeypatch):
    capture, n_frames = FakeSession.capture, Counter()  # a stream has a thread of its own

    def counted(*arguments):
        n_frames[threading.get_ident()] += 1
        return capture(*arguments)

    monkeypatch.setattr(FakeSession, "capture", counted)
    live = ready.start("StreamFrames", timeout=2 * PATIENCE_S)  # the first of all streams
    next(live)
    (live_thread,) = n_frames
    others = [ready.start("StreamFrames", format="raw", timeout=2 * PATIENCE_S) for _ in range(MAX_STREAMS - 1)]
    wait_for(lambda: len(server.service._streams) == MAX_STREAMS)

    def active_threads():
        """Return the threads that capture while the live stream captures 20 frames."""
        before = n_frames.copy()
        while n_frames[live_thread] < before[live_thread] + 20:
            next(live)
        return (n_frames - before).keys()

    wait_for(lambda: active_threads() == {live_thread}, "the others to stall")
    others.append(ready.start("StreamFrames"))
    assert next(others[-1]).frame_number == 1
    assert live_thread in active_threads()
    for stream in [*others, live]:
        stream.cancel()
    wait_for(lambda: len(server.service._streams) == 0)


# --- programs -----------------------------------------------------------------------------------------------


@pytest.fixture
def running(tmp_path):
    with public_server(tmp_path, programs=(Path(sys.executable),)) as server, server.client() as client:
        yield client


def test_no_program_runs_unless_it_was_allowed(client, running):
    answer = client("ExecuteCommand", command=sys.executable, args=["-c", "print(1)"], capture_output=True)
    assert not answer.success
    assert "operator allows" in answer.message
    for command in ("/bin/sh", "sh", "", "../python", "\0", "/bin/../bin/sh"):
        answer = running("ExecuteCommand", command=command)
        assert not answer.success
        assert "not among" in answer.message


def test_an_allowed_program_runs_without_a_shell(running, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "1")
    code = "import os, sys; print(os.getcwd(), sys.argv[1], 'SECRET' in os.environ); print('bad', file=sys.stderr)"
    for command in (sys.executable, Path(sys.executable).resolve().name):
        answer = running(
            "ExecuteCommand",
            command=command,
            args=["-c", code, "$HOME; ls"],
            working_directory=str(tmp_path),
            capture_output=True,
        )
        assert answer.success
        assert answer.stdout_output == f"{tmp_path} $HOME; ls False\n"
        assert answer.stderr_output == "bad\n"
        assert answer.exit_code == 0
    answer = running("ExecuteCommand", command=sys.executable, args=["-c", "exit(3)"])
    assert not answer.success
    assert answer.exit_code == 3
    assert answer.stdout_output == ""


def test_a_program_that_takes_too_long_is_killed_with_all_it_started(running, tmp_path):
    code = (
        "import subprocess, sys, pathlib, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid));"
        "print('begun', flush=True); time.sleep(600)"
    )
    answer = running(
        "ExecuteCommand", command=sys.executable, args=["-c", code], timeout_seconds=1, capture_output=True
    )
    assert not answer.success
    assert "longer than 1 s" in answer.message
    assert answer.stdout_output == "begun\n"
    assert answer.execution_time_ms >= 1000
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_a_program_is_killed_with_its_client_and_its_output_is_bounded(running, tmp_path):
    pid_file = str(tmp_path / "pid")
    code = f"import os, pathlib, time; pathlib.Path({pid_file!r}).write_text(str(os.getpid())); time.sleep(600)"
    with pytest.raises(grpc.RpcError):
        running("ExecuteCommand", command=sys.executable, args=["-c", code], timeout_seconds=600, timeout=1.0)
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not psutil.pid_exists(pid))
    code = "import sys; sys.stdout.write('x' * 5_000_000)"
    answer = running("ExecuteCommand", command=sys.executable, args=["-c", code], capture_output=True)
    assert answer.success
    assert len(answer.stdout_output) == 2**20


@pytest.mark.parametrize(
    "fields", [{"working_directory": "/no such folder"}, {"args": ["\0"]}, {"timeout_seconds": -1}]
)
def test_a_program_that_cannot_be_started_is_reported(running, fields):
    answer = running("ExecuteCommand", command=sys.executable, **fields)
    assert not answer.success
    assert answer.message


# --- recordings ---------------------------------------------------------------------------------------------


def download(client, recording_id):
    files, chunks = {}, list(client.start("DownloadRecording", session_id=recording_id))
    for chunk in chunks:
        assert chunk.offset == len(files.get(chunk.filename, b""))
        files[chunk.filename] = files.get(chunk.filename, b"") + chunk.data
        assert len(files[chunk.filename]) <= chunk.total_size
    assert [chunk.is_final for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert all(len(files[chunk.filename]) == chunk.total_size for chunk in chunks)
    return files


@pytest.mark.parametrize("frames", ["dataset", "video"])
def test_a_recording_is_made_and_downloaded(tmp_path, frames):
    options = RecordingOptions(rate_hz=100, frames=frames, compression="none")
    with public_server(tmp_path / "server", recording=options) as server, server.client() as client:
        client.initialise()
        client("InputKeyToggle", key="W", toggle=True)
        answer = client("StartRecording", attribute_names=["hp", "x"], output_directory="fights/margit")
        assert answer.success
        recording_id = answer.session_id
        assert str(tmp_path / "server" / "recordings" / "fights" / "margit") in answer.message
        status = wait_for(
            lambda: (s := client("GetRecordingStatus", session_id=recording_id)).current_frame >= 100 and s
        )
        assert status.success
        assert status.is_recording
        assert status.elapsed_time_seconds > 0
        with pytest.raises(grpc.RpcError) as caught:
            list(client.start("DownloadRecording", session_id=recording_id))
        assert "StopRecording first" in caught.value.details()
        stop = client("StopRecording", session_id=recording_id)
        assert stop.success
        assert stop.total_frames >= 100
        assert 0 < stop.actual_fps < 120
        assert stop.average_latency_ms > 0
        assert client("StopRecording", session_id=recording_id) == stop
        assert not client("GetRecordingStatus", session_id=recording_id).is_recording
        files = download(client, recording_id)
    assert len(files) == (1 if frames == "dataset" else 2)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    recording = read_recording(next(tmp_path.glob("*.h5")))
    assert len(recording) == stop.total_frames
    assert list(recording.attributes) == ["hp", "x"]
    assert recording.keys["W"].all()
    assert len(data) > 2**20 or frames == "video"  # several chunks


def test_a_recording_of_memory_only(server, client):
    client.configure()
    client("InitializeMemory")
    answer = client("StartRecording", attribute_names=["hp"], max_duration_seconds=1)
    assert answer.success
    status = wait_for(lambda: not (s := client("GetRecordingStatus", session_id=answer.session_id)).is_recording and s)
    assert "duration" in status.message
    files = download(client, answer.session_id)
    assert len(files) == 1


def test_a_recording_continues_after_a_new_attachment_and_ends_with_its_client(server, ready):
    with server.client() as other:
        recording_id = other("StartRecording", attribute_names=["hp"]).session_id
        n = len(server.toys.sessions)
        server.toys.toy.has_window = False
        assert other("InitializeCapture").success
        assert len(server.toys.sessions) == n + 1
        before = other("GetRecordingStatus", session_id=recording_id).current_frame
        wait_for(lambda: other("GetRecordingStatus", session_id=recording_id).current_frame > before + 2)
    wait_for(lambda: not ready("GetRecordingStatus", session_id=recording_id).is_recording)
    assert ready("StopRecording", session_id=recording_id).success
    assert download(ready, recording_id)


def test_at_most_two_recordings_run(ready):
    ids = [ready("StartRecording", attribute_names=["hp"]).session_id for _ in range(2)]
    answer = ready("StartRecording", attribute_names=["hp"])
    assert not answer.success
    assert "go on already" in answer.message
    assert all(ready("StopRecording", session_id=recording_id).success for recording_id in ids)


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ("", "."),
        ("a/b", "a/b"),
        ("/home/elsewhere", "home/elsewhere"),
        ("../../etc", "etc"),
        ("a/../../b", "a/b"),
        ("C:\\Users\\me\\fights", "Users/me/fights"),
    ],
)
def test_recordings_stay_below_their_folder(server, ready, tmp_path, asked, got):
    answer = ready("StartRecording", attribute_names=["hp"], output_directory=asked)
    assert answer.success
    ready("StopRecording", session_id=answer.session_id)
    folder = (tmp_path / "recordings" / got).resolve()
    assert [path.suffix for path in folder.iterdir() if path.is_file()] == [".h5"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"attribute_names": ["hpp"]}, "did you mean 'hp'"),
        ({"max_duration_seconds": -1}, "max_duration_seconds"),
        ({"output_directory": "\0"}, "zero character"),
        ({"output_directory": "x" * 5000}, "cannot be created"),
    ],
)
def test_a_recording_that_makes_no_sense_is_refused(ready, fields, problem):
    answer = ready("StartRecording", **fields)
    assert not answer.success
    assert problem in answer.message
    assert answer.session_id == ""


def test_a_missing_recording_is_an_error(ready):
    for call in ("StopRecording", "GetRecordingStatus"):
        answer = ready(call, session_id="nonsense")
        assert not answer.success
        assert "unknown recording id" in answer.message
    with pytest.raises(grpc.RpcError) as caught:
        list(ready.start("DownloadRecording", session_id="nonsense"))
    assert "unknown recording id" in caught.value.details()


# --- what is around -----------------------------------------------------------------------------------------


def test_invalid_bytes_are_refused_and_the_connection_continues(ready):
    for call in ("GetAttribute", "SetProcessConfig", "StreamFrames", "DownloadRecording"):
        with pytest.raises(grpc.RpcError) as caught:
            list(ready.start(call, b"\xff\xff\xff")) if call in ("StreamFrames", "DownloadRecording") else ready(
                call, b"\xff\xff\xff"
            )
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert ready("GetServerStatus").success


@pytest.mark.parametrize(("file", "name"), [("/games/TOY", "Toy"), ("/usr/bin/python3", "toy"), ("/games/toy", "x.sh")])
def test_the_process_of_a_served_session_is_used(server, client, file, name):
    """A program is accepted by its file name or by the name of its profile."""

    class Served:
        info = SimpleNamespace(pid=77, executable=file, is_read_only=False)
        profile = SimpleNamespace(process=SimpleNamespace(executable=name))

    server.service._game.served = Served
    client.configure()
    assert client("InitializeMemory").success
    assert server.toys.asked[-1][1].pid == 77


@pytest.mark.parametrize("name", ["other", "sleep", "/bin/sh", "toy2"])
def test_no_other_process_can_be_reached(server, ready, name):
    answer = ready.configure(process_name=name)
    assert not answer.success
    assert f"names '{name}', and this server serves 'toy' only (process 4242)" in answer.message
    assert len(server.toys.sessions) == 2  # what there was goes on
    assert ready("GetAttribute", attributeName="hp").int_value == 100
    assert all(options.pid == server.served.info.pid for _, options in server.toys.asked)


def test_clients_of_a_read_only_server_change_nothing(tmp_path):
    with (
        FakeSession(SessionOptions(is_read_only=True)) as served,
        public_server(tmp_path, served=served) as server,
        server.client() as client,
    ):
        client.initialise()
        for call, fields in {
            "SetAttribute": {"attributeName": "hp", "int_value": 1},
            "InputKeyTap": {"keys": ["W"], "hold_ms": 1},
            "InputKeyToggle": {"key": "W", "toggle": True},
            "MoveMouse": {"delta_x": 1},
        }.items():
            answer = client(call, **fields)
            assert not answer.success
            assert "the session is read-only" in answer.message
        assert client("GetAttribute", attributeName="hp").int_value == 100
        assert client("CaptureFrame").success
        started = client("StartRecording", attribute_names=["hp"])
        assert started.success, started.message
        assert client("StopRecording", session_id=started.session_id).success
        toys = [session.toy for session in server.toys.sessions]
        assert [(toy.held, toy.input.mouse_px, toy.values["hp"]) for toy in toys] == [(frozenset(), (0, 0), 100)] * len(
            toys
        )


def test_the_folder_of_the_recordings_has_a_limit(tmp_path):
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings/old.h5").write_bytes(bytes(5 << 20))
    options = RecordingOptions(rate_hz=500, compression="none")
    with public_server(tmp_path, recording=options, recordings_bytes=8 << 20) as server, server.client() as client:
        client.initialise()
        started = [client("StartRecording", attribute_names=["hp"]) for _ in range(2)]
        assert [one.success for one in started] == [True, True], started[1].message
        for one in started:
            wait_for(lambda one=one: not client("GetRecordingStatus", session_id=one.session_id).is_recording)
            assert client("StopRecording", session_id=one.session_id).message == "ended: size"
        assert 6 << 20 < sum(file.stat().st_size for file in (tmp_path / "recordings").iterdir()) <= 8 << 20
        refused = client("StartRecording", attribute_names=["hp"])
        assert not refused.success
        assert "GB are the most" in refused.message


def test_two_clients_share_one_game(server, ready):
    with server.client() as other:
        assert other("GetServerStatus").memory_initialized
        assert other("SetAttribute", attributeName="hp", int_value=7).success
    assert ready("GetAttribute", attributeName="hp").int_value == 7
