"""pysiphon 1.2.0 and its command line, unmodified, with the service on the toy."""

import subprocess
import sys

import pytest
from pysiphon import SiphonClient

from soulslab.siphon.recording.reading import read_recording
from support.forked import ForkedPopen
from support.public_siphon import TOY_TOML, public_server
from support.waiting import PATIENCE_S, wait_for


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "toy.toml"
    path.write_text(TOY_TOML)
    return path


@pytest.fixture
def server(tmp_path):
    with public_server(tmp_path, keys_after_s=1000.0, recordings_after_s=1000.0) as server:
        yield server


@pytest.fixture
def client(server, config):
    with SiphonClient(f"127.0.0.1:{server.port}") as client:
        assert client.init_all(str(config), wait_time=0.0)
        yield client


def test_the_status_and_the_parts_one_by_one(server, config):
    with SiphonClient(f"127.0.0.1:{server.port}") as client:
        assert client.get_server_status()["config_set"] is False
        assert client.initialize_memory()["success"] is False
        answer = client.set_process_config(str(config))
        assert (answer["success"], answer["num_attributes"]) == (True, 8)
        assert client.initialize_memory()["process_id"] == 4242
        assert client.initialize_input("Toy")["success"]
        capture = client.initialize_capture("Toy")
        assert (capture["window_width"], capture["window_height"]) == (64, 48)
        status = client.get_server_status()
        assert status["success"]
        assert status["memory_initialized"]
        assert status["input_initialized"]
        assert status["capture_initialized"]


def test_attributes(server, client):
    assert client.get_attribute("hp")["value"] == 100
    assert client.get_attribute("x") == {"success": True, "message": "ok", "value": 0.0, "value_type": "float"}
    assert client.set_attribute("hp", 42, "int")["success"]
    assert client.set_attribute("x", 1.5, "float")["success"]
    assert client.set_attribute("is_hurt", True, "bool")["success"]
    assert client.set_attribute("name", "68 65 72 6f", "array")["success"]
    assert client.get_attribute("name")["value"] == b"hero"
    assert server.toys.toy.values["hp"] == 42
    answer = client.get_attribute("hpp")
    assert (answer["success"], answer["value"]) == (False, None)
    assert "did you mean 'hp'" in answer["message"]


def test_input(server, client):
    assert client.input_key_tap(["w", "SPACE"], hold_ms=5, delay_ms=1)["success"]
    assert client.input_key_toggle("D", True)["success"]
    assert server.toys.toy.held == {"D"}
    assert client.input_key_toggle("D", False)["success"]
    assert client.move_mouse(10, -5, steps=4)["success"]
    assert server.toys.toy.input.mouse_px == (10, -5)
    assert server.toys.toy.held == frozenset()


def test_pictures(server, client, tmp_path):
    server.toys.toy.values["hp"] = 90
    assert client.capture_frame().getpixel((3, 3))[:3] == (90, 0, 0)
    assert client.capture_frame(as_image=False)["width"] == 64
    assert client.capture_and_save(str(tmp_path / "frame.png"))
    for kind in ("jpeg", "raw"):
        assert client.stream_frames(format=kind, max_frames=3)["frames_received"] == 3
    seen = []
    client.stream_frames_to_callback(lambda frame: seen.append(frame.width) or len(seen) < 2)
    assert seen == [64, 64]


def test_a_polled_stream_stops_when_it_is_stopped(server, client):
    handle = client.start_frame_stream(format="jpeg", quality=85)
    frame = wait_for(lambda: client.get_latest_frame(handle))
    assert (frame.width, frame.height, frame.format) == (64, 48, "jpeg")
    client.stop_frame_stream(handle)
    wait_for(lambda: len(server.service._streams) == 0)


def test_a_program_needs_leave(client):
    answer = client.execute_command("/bin/ls", ["-l"])
    assert answer["success"] is False
    assert "operator allows" in answer["message"]


def test_a_recording(client, tmp_path):
    answer = client.start_recording(["hp", "x"], "fights", 0)
    assert answer["success"]
    recording_id = answer["session_id"]
    wait_for(lambda: client.get_recording_status(recording_id)["current_frame"] >= 10)
    assert client.get_recording_status(recording_id)["is_recording"]
    stop = client.stop_recording(recording_id)
    assert stop["success"]
    assert client.download_recording(recording_id, str(tmp_path / "download"), show_progress=False)
    (path,) = (tmp_path / "download").iterdir()
    assert len(read_recording(path)) == stop["total_frames"]
    assert not client.stop_recording("nonsense")["success"]


# --- its command line ---------------------------------------------------------------------------------------


def pysiphon(server, *arguments, text=None):
    """Run the command line with some text as its input; return the exit status and what it has written."""
    command = [sys.executable, "-m", "pysiphon.cli", "--host", f"127.0.0.1:{server.port}", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with ForkedPopen(command, text=True, **pipes) as process:
        said, _ = process.communicate(text, timeout=PATIENCE_S)
    return process.returncode, said


def test_the_prompt_knows_every_command(server, config, tmp_path):
    lines = f"""config {config}
init-memory
init-input
init-capture
status
get hp
set hp int 77
set x float 2.5
set name array 68 65 72 6f
get name
input W,SPACE 5 1
toggle D 1
toggle D 0
move 4 5 2
capture {tmp_path / "frame.png"}
exec /bin/ls
stream jpeg 85 3
stream raw 85 3
rec-start fights hp,x 1
rec-status nonsense
quit
"""
    status, said = pysiphon(server, "interactive", text=lines)
    assert status == 0
    for expected in (
        "Attributes: 8",
        "Process ID: 4242",
        "Window size: 64x48",
        "Capture Initialized: Yes",
        "hp = 100 (int)",
        "name = 68 65 72 6f (array)",
        "Keys W,SPACE inputted successfully",
        "Key D pressed",
        "Key D released",
        "Mouse moved successfully",
        "Frame saved to",
        "this server runs no programs",
        "Total frames received: 3",
        "=== Recording Started! ===",
        "unknown recording id 'nonsense'",
    ):
        assert expected in said
    assert "Error: " not in said
    toy = server.toys.toy
    assert (toy.values["hp"], toy.values["x"], toy.values["name"]) == (77, 2.5, "hero")
    assert toy.input.mouse_px == (4, 5)


def test_one_command_at_a_time_as_a_script_does(server, config, tmp_path):
    assert "Process ID:          4242" not in pysiphon(server, "status")[1]
    with SiphonClient(f"127.0.0.1:{server.port}") as client:  # `init` would wait for 2 s
        assert client.init_all(str(config), wait_time=0.0)
    # The key stays down from one program to the next, and so does the recording.
    assert "Key W pressed" in pysiphon(server, "toggle", "W", 1)[1]
    assert server.toys.toy.held == {"W"}
    started = pysiphon(server, "rec-start", "fights", "hp")[1]
    recording_id = started.partition("Session ID: ")[2].split()[0]
    assert "RECORDING" in pysiphon(server, "rec-status", recording_id)[1]
    assert "Key W released" in pysiphon(server, "toggle", "W", 0)[1]
    assert server.toys.toy.held == frozenset()
    assert "Recording stopped!" in pysiphon(server, "rec-stop", recording_id)[1]
    assert "Download successful!" in pysiphon(server, "rec-download", recording_id, tmp_path / "download")[1]
    (path,) = (tmp_path / "download").iterdir()
    keys = read_recording(path).keys["W"]
    assert keys[0]
    assert not keys[-1]
    status, said = pysiphon(server, "get", "hpp")
    assert status == 1
    assert "did you mean 'hp'" in said
