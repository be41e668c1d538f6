"""pysiphon 1.2.0 with the server and the real Doom: memory, keys, mouse, frames, recordings.

And to the built-in fight as Elden Ring: it reads all that the public profile of that game names.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import cv2
import grpc
import msgspec
import numpy as np
import pytest
from pysiphon import SiphonClient

from benchmarks.live_peer import mask_with_public_attributes
from soulslab.compat.eldengym.eldengym_observation import PUBLIC_ATTRIBUTES
from soulslab.config.writing import dump_settings
from soulslab.games import profile_path
from soulslab.games.arena import stand_in
from soulslab.games.elden_ring import PROFILE_PATH
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.profile.public_format import from_public, resolve_injected
from soulslab.siphon.recording.reading import read_recording
from soulslab.siphon.recording.recorder import RecordingOptions
from soulslab.siphon.rpc.public.service import SERVICE, PublicOptions, PublicService
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions
from support.long_form import IS_LONG
from support.malformed_messages import SERVICE_DESCRIPTOR, malformed
from support.waiting import PATIENCE_S, wait_for

#: Moments of a fight at which all is read.
N_MOMENTS = 300 if IS_LONG else 1
# The public profile follows the pointer at the place that the pattern names: `players[0].mo`, the player's thing.
DOOM_TOML = """
[process_info]
name = "chocolate-doom"
window_name = ""

[attributes.HeroHp]
pattern = "48 8D 05 ?? ?? ?? ?? 48 8D 3C D0 E8"
offsets = [0xA4]
type = "int"

[attributes.HeroPosX]
pattern = "48 8D 05 ?? ?? ?? ?? 48 8D 3C D0 E8"
offsets = [0x18]
type = "int"

[attributes.HeroPos]
pattern = "48 8D 05 ?? ?? ?? ?? 48 8D 3C D0 E8"
offsets = [0x18]
type = "array"
length = 12

[attributes.HeroAngle]
pattern = "48 8D 05 ?? ?? ?? ?? 48 8D 3C D0 E8"
offsets = [0x38]
type = "int"

[attributes.Stale]
pattern = "DE AD BE EF ?? ?? ?? ?? 01 02 03"
offsets = [0x18]
type = "int"

[attributes.NpcHp]
method = "dll"
pattern = "48 8B 48 08 49 89 8D"
offsets = [0x190, 0x0, 0x138]
type = "int"
"""
# A client that holds a key, streams, and is killed.
RUDE_CLIENT = """
import sys, time
from pysiphon import SiphonClient
client = SiphonClient(sys.argv[1])
assert client.input_key_toggle("UP_ARROW", True)["success"]
handle = client.start_frame_stream()
while client.get_latest_frame(handle) is None:
    time.sleep(0.01)
print("held", flush=True)
time.sleep(600)
"""
PUBLIC_ELDEN_RING = Path(__file__).parents[2] / "unit/games/public_elden_ring.toml"
#: What lies where the public profile of Elden Ring looks for something else.
LIES_THERE = {
    "HeroMaxFp": ("player.base_fp", 0),
    "HeroAnimLength": ("player.animation_time", 0),
    "NpcAnimLength": ("boss.animation_time", 0),
    "NpcGlobalPosAngle": ("NpcGlobalPosAngle", 0),
}

#: Calls that may rightly wait, for a key to go up or a window to come.
PATIENT = ("InputKeyTap", "InitializeInput", "InitializeCapture")


def as_the_public_profile_has_it():
    """Return the profile of Elden Ring with the addresses of the public one, valid in the stand-in."""
    own = mask_with_public_attributes(load_profile(PUBLIC_ELDEN_RING))
    with PUBLIC_ELDEN_RING.open("rb") as file:
        public = resolve_injected(from_public(tomllib.load(file), str(PUBLIC_ELDEN_RING)), own)
    plain = {name: msgspec.structs.replace(one, alternatives=()) for name, one in own.attributes.items()}
    extra = {"NpcGlobalPosAngle": public.attributes["NpcGlobalPosAngle"]}
    return msgspec.structs.replace(own, attributes=plain | extra), public


@pytest.fixture
def elden_ring(tmp_path):
    """The window with this memory layout, and its server."""
    profile, _ = as_the_public_profile_has_it()
    (tmp_path / "mask.toml").write_text(dump_settings(profile))
    options = SessionOptions(launch="always", options={"size": "320x180"}, screen_px=(320, 180))
    known = {profile.process.executable: load_profile(PROFILE_PATH)}
    public = PublicOptions(open_session=open_session, known=known, recordings=tmp_path)
    with (
        open_session(stand_in(tmp_path / "mask.toml"), options) as game,
        PublicService(public) as service,
        serve(game, ServerOptions(extra_handlers=service.handlers)) as server,
    ):
        game.write({"player.no_death": True})
        game.clock.pause()  # a game that runs takes half a processor
        yield game, server.address


def test_all_that_the_public_profile_of_elden_ring_names_is_read(elden_ring):
    """It comes first, because the Doom of the other tests runs in real time."""
    game, address = elden_ring
    names = as_the_public_profile_has_it()[1].attributes
    assert set(names) == set(PUBLIC_ATTRIBUTES)
    assert len(names) == 33
    with SiphonClient(address) as client:
        assert client.init_all(str(PUBLIC_ELDEN_RING), wait_time=0.0)
        for _ in range(N_MOMENTS):
            game.clock.advance(0.1)  # and then it stands, so that both look at the same moment
            for name in names:
                answer = client.get_attribute(name)
                assert answer["success"], (name, answer)
                attribute, number = LIES_THERE.get(name, PUBLIC_ATTRIBUTES[name])
                assert answer["value"] == pytest.approx(np.atleast_1d(game.read(attribute))[number], abs=1e-6), name
        assert client.get_attribute("NpcMaxHp")["value"] == 1037
        assert client.get_attribute("HeroHp")["value"] > 0


@pytest.fixture(scope="module")
def game():
    options = SessionOptions(options={"geometry": "640x400"}, screen_px=(800, 600))
    with open_session(load_profile(profile_path(Path("doom"))), options) as game:
        # Warped into a level, Doom runs at its own pace until its time is held.
        wait_for(lambda: game.read("level_time") > 5)
        yield game


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    options = PublicOptions(
        open_session=open_session,
        recordings=tmp_path_factory.mktemp("recordings"),
        recording=RecordingOptions(rate_hz=30),
        keys_after_s=0.0,
    )
    with PublicService(options) as service:
        yield service


@pytest.fixture(scope="module")
def server(game, service):
    with serve(game, ServerOptions(extra_handlers=service.handlers)) as server:
        yield server


@pytest.fixture
def client(server, tmp_path):
    (tmp_path / "doom.toml").write_text(DOOM_TOML)
    with SiphonClient(server.address) as client:
        assert client.init_all(str(tmp_path / "doom.toml"), wait_time=0.0)
        yield client


def test_it_is_the_process_that_the_server_serves(game, client):
    status = client.get_server_status()
    assert status["process_id"] == game.info.pid
    assert status["process_name"] == "chocolate-doom"
    assert client.initialize_capture()["window_width"] == game.info.window_px[0]


def test_attributes_equal_those_of_the_game(game, client):
    assert client.get_attribute("HeroHp")["value"] == 100
    assert client.set_attribute("HeroHp", 55, "int")["success"]
    assert client.get_attribute("HeroHp")["value"] == 55
    x = client.get_attribute("HeroPosX")["value"]
    position = np.frombuffer(client.get_attribute("HeroPos")["value"], np.int32)
    assert position[0] == x
    answer = client.get_attribute("NpcHp")
    assert not answer["success"]
    assert "injects nothing" in answer["message"]


def test_a_stale_pattern_fails_by_its_attribute_only(client):
    assert "Stale" in client.initialize_memory()["message"]
    answer = client.get_attribute("Stale")
    assert not answer["success"]
    assert "attribute 'Stale'" in answer["message"]
    assert "was found nowhere" in answer["message"]
    assert client.get_attribute("HeroHp")["success"]


def test_keys_and_the_mouse_reach_the_game(client):
    angle = client.get_attribute("HeroAngle")["value"]
    assert client.input_key_tap(["RIGHT_ARROW"], hold_ms=200)["success"]
    assert client.get_attribute("HeroAngle")["value"] != angle
    assert client.input_key_toggle("LEFT_ARROW", True)["success"]
    angle = client.get_attribute("HeroAngle")["value"]
    wait_for(lambda: client.get_attribute("HeroAngle")["value"] != angle)
    assert client.input_key_toggle("LEFT_ARROW", False)["success"]
    assert client.move_mouse(30, 0, steps=3)["success"]


def test_frames_equal_those_of_the_game(game, client, tmp_path):
    frame = client.capture_frame(as_image=False)
    assert (frame["width"], frame["height"]) == game.info.window_px
    pixels = np.frombuffer(frame["pixels"], np.uint8).reshape(frame["height"], frame["width"], 4)
    assert (pixels[..., 3] == 255).all()
    assert pixels[..., :3].std() > 10
    for kind in ("jpeg", "raw"):
        assert client.stream_frames(format=kind, max_frames=5)["frames_received"] == 5
    assert client.capture_and_save(str(tmp_path / "doom.png"))
    assert cv2.imread(str(tmp_path / "doom.png")).shape[:2] == (frame["height"], frame["width"])


def test_streams_of_the_game_end_when_they_are_stopped(game, service, client):
    sizes = []
    client.stream_frames_to_callback(lambda frame: sizes.append((frame.width, frame.height)) or len(sizes) < 3)
    assert sizes == [game.info.window_px] * 3
    handle = client.start_frame_stream()
    wait_for(lambda: client.get_latest_frame(handle))
    client.stop_frame_stream(handle)
    wait_for(lambda: not len(service._streams))


def test_no_program_runs_beside_the_game(client):
    answer = client.execute_command("/bin/true")
    assert (answer["success"], "operator allows" in answer["message"]) == (False, True)


def test_a_recording_of_the_game(client, tmp_path):
    started = client.start_recording(["HeroHp", "HeroPosX", "HeroPos"], "doom")
    assert started["success"], started["message"]
    assert client.input_key_toggle("LEFT_ARROW", True)["success"]
    wait_for(lambda: client.get_recording_status(started["session_id"])["current_frame"] >= 20)
    assert client.input_key_toggle("LEFT_ARROW", False)["success"]
    stopped = client.stop_recording(started["session_id"])
    assert stopped["success"]
    assert client.download_recording(started["session_id"], str(tmp_path), show_progress=False)
    recording = read_recording(next(tmp_path.glob("*.h5")))
    assert len(recording) == stopped["total_frames"]
    assert recording.keys["LEFT_ARROW"].any()
    assert recording.frames.shape[1:] == (*client.capture_frame().size[::-1], 4)
    assert len({frame.tobytes() for frame in recording.frames}) > 3
    assert np.array_equal(
        recording.attributes["HeroPos"][:, :4].copy().view(np.int32)[:, 0], recording.attributes["HeroPosX"]
    )


def test_a_client_that_is_killed_leaves_no_key_and_no_stream(server, service, client):
    with subprocess.Popen([sys.executable, "-c", RUDE_CLIENT, server.address], stdout=subprocess.PIPE) as rude:
        try:
            wait_for(lambda: b"held" in rude.stdout.readline())
            assert service._keys.down == ["UP_ARROW"]
        finally:
            rude.kill()
    wait_for(lambda: not service._keys.down and not len(service._streams))

    def stands():
        before = client.get_attribute("HeroPosX")["value"]
        client.input_key_tap(["F12"], hold_ms=100)  # a tenth of a second, in which nothing moves any more
        return client.get_attribute("HeroPosX")["value"] == before

    wait_for(stands)


def test_invalid_messages_do_not_affect_the_game(game, service, server, client, tmp_path):
    """tests/unit/siphon/rpc/public/test_malformed.py sends 20,000 messages to a toy; these are sent to Doom."""
    n_answers = n_refused = 0
    with grpc.insecure_channel(server.address) as channel:
        for i, (call, data) in enumerate(malformed(500, seed=3)):
            if i % 100 == 0:  # or most calls would only learn that nothing is initialised
                assert client.init_all(str(tmp_path / "doom.toml"), wait_time=0.0)
            if call in PATIENT:
                continue
            is_stream = SERVICE_DESCRIPTOR.methods_by_name[call].server_streaming
            ask = (channel.unary_stream if is_stream else channel.unary_unary)(f"/{SERVICE}/{call}")
            try:
                answer = ask(data, timeout=PATIENCE_S)
                if is_stream:
                    next(answer, None)
                    answer.cancel()
                n_answers += 1
            except grpc.RpcError as error:
                assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
                n_refused += 1
    assert min(n_answers, n_refused) > 50
    wait_for(lambda: not service._keys.down and not len(service._streams))
    assert game.read("game_tic") > 0
    assert game.capture().pixels.std() > 10
