"""pysiphon 1.2.0 and EldenGym 0.6.0, on Linux, with a public server on Windows: the built-in fight as Elden Ring.

Wine does not show the user of a client, so the server cannot recognise its own user and asks for the token, which these
clients do not know. Here their channel adds it.
"""

import time
from pathlib import Path

import eldengym
import grpc
import numpy as np
import pytest
from eldengym.client import elden_client
from pysiphon import SiphonClient

from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.rpc.public.service import SERVICE
from support.waiting import wait_for
from support.windows_python import WindowsPython

TOKEN = "0123456789abcdef"  # noqa: S105
CONFIG = Path(eldengym.__file__).parent / "files" / "Margit-v0" / "er_siphon_config.toml"
SIZE_PX = (320, 180)
#: Maximum length of EldenGym's sleeps.
SLEEP_S = 0.02
SERVE = """
import sys, time
from pathlib import Path
from soulslab.errors import SiphonError
from soulslab.games.arena import stand_in
from soulslab.games.elden_ring import PROFILE_PATH
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.public.service import PublicOptions, PublicService
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import LOADING, SessionOptions

def prevent_death(game):
    while True:
        try:
            return game.write({"player.no_death": True})
        except LOADING:
            time.sleep(0.02)

options = SessionOptions(launch="always", options={"size": "320x180"}, clock="realtime")
with open_session(stand_in(PROFILE_PATH), options) as game:
    # EldenGym fails at a value that cannot be read, for example while another fight loads after a death.
    prevent_death(game)
    known = {game.profile.process.executable: load_profile(PROFILE_PATH)}
    public = PublicOptions(open_session=open_session, known=known, recordings=Path(sys.argv[2]))
    with (
        PublicService(public) as service,
        serve(game, ServerOptions(token=sys.argv[1], extra_handlers=service.handlers)) as server,
    ):
        print(f"at {server.address};", flush=True)
        server.wait()
"""


class TokenInterceptor(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Adds the token to the metadata of each call."""

    def intercept_unary_unary(self, continuation, client_call_details, request):
        return continuation(self._with_token(client_call_details), request)

    intercept_unary_stream = intercept_unary_unary

    @staticmethod
    def _with_token(details):
        return details._replace(metadata=[*(details.metadata or ()), ("authorization", f"Bearer {TOKEN}")])


@pytest.fixture(scope="module")
def address(windows, request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    with windows.occupied(), PrivateDisplay((800, 600)) as display:
        python = WindowsPython(request.config.cache.mkdir("windows_python"), windows)
        with python.serving(TOKEN, f"Z:{folder}", display=display.name, code=SERVE) as (address, _):
            yield address


@pytest.fixture
def token(monkeypatch):
    original = grpc.insecure_channel
    monkeypatch.setattr(
        grpc, "insecure_channel", lambda *place, **options: grpc.intercept_channel(
            original(*place, **options), TokenInterceptor()
        )
    )  # fmt: skip


def test_a_client_without_the_token_is_refused(address):
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as error:
        channel.unary_unary(f"/{SERVICE}/GetServerStatus")(b"")
    assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.usefixtures("token")
def test_pysiphon_reads_writes_and_sees_the_game(address, tmp_path):
    with SiphonClient(address) as client:
        assert client.init_all(str(CONFIG), wait_time=0.0)
        assert client.get_server_status()["process_name"] == "eldenring.exe"
        assert client.set_attribute("HeroHp", 123, "int")["success"]
        wait_for(lambda: client.get_attribute("HeroHp")["value"] == 123, "health as it was written")
        assert client.input_key_tap(["W"], hold_ms=100)["success"]
        frame = client.capture_frame(as_image=False)
        assert (frame["width"], frame["height"]) == SIZE_PX
        assert np.frombuffer(frame["pixels"], np.uint8).std() > 10
        assert client.stream_frames(format="jpeg", max_frames=3)["frames_received"] == 3


@pytest.mark.usefixtures("token")
def test_eldengym_plays_the_game(address, monkeypatch):
    sleep = time.sleep
    for module in (time, elden_client):
        monkeypatch.setattr(module, "sleep", lambda seconds: sleep(min(seconds, SLEEP_S)))
    env = eldengym.make("Margit-v0", host=address, launch_game=False)
    try:
        env.reset(seed=0)
        forward = np.array([name == "move_forward" for name in env.action_keys], np.int8)
        assert forward.sum() == 1
        start = env.client.player_hp
        frames = []
        for _ in range(5):
            seen, *_ = env.step(forward)
            frames.append(seen["frame"])
        assert (seen["HeroMaxHp"], seen["NpcMaxHp"]) == (454, 1037)
        assert 0 < start <= 454
        assert frames[0].shape == (SIZE_PX[1], SIZE_PX[0], 3)
        assert any((one != frames[0]).any() for one in frames)
        env.client.set_target_hp(88)
        wait_for(lambda: env.client.target_hp == 88, "health as it was written")
    finally:
        env.close()
