"""A session with the real Doom passes the contract suite, local and remote."""

import pytest

from soulslab.errors import SessionStateError
from soulslab.games.doom import PROFILE_PATH, launch_options
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions, Step
from soulslab.siphon.tick_alignment import TickAlignment
from soulslab.testing.session_contract import ContractGame, SessionContract

TIC_S = 1 / 35
MAX_TICS = 400
PROFILE = load_profile(PROFILE_PATH)
GAME = ContractGame(
    number="health",
    number_value=40,
    outside=5000,
    other="bullets",
    other_value=7,
    fixed="episode",
    tick="game_tic",
    tick_s=TIC_S,
    key="UP_ARROW",
    changes="x",
    n_ticks=10,
)


class DoomKeeper:
    """Keeps one Doom for several tests, because a start takes a second; starts another one after a close."""

    def __init__(self):
        self._session = None

    def ready(self):
        """Return a session whose game is in its level, as at its start."""
        try:
            self._play_to_level()
        except SessionStateError:
            self._session = None
            self._play_to_level()
        self._session.write({"health": 100, "bullets": 50})
        return self._session

    def close(self):
        if self._session is not None:
            self._session.close()

    def _play_to_level(self):
        if self._session is None:
            options = SessionOptions(launch="always", options=launch_options("freedoom1", 1, 1, 4))
            self._session = open_session(PROFILE, options)
        self._session.clock.pause()
        for _ in range(MAX_TICS):
            step = Step(held=(), advance_s=TIC_S, attributes=("level_time",))
            if self._session.step(step).snapshot["level_time"] >= 8:
                break
        # In the middle of a tic, so that it does not matter how much of one it took to get here.
        TickAlignment(PROFILE).align(self._session)


@pytest.fixture(scope="module")
def keeper():
    keeper = DoomKeeper()
    yield keeper
    keeper.close()


@pytest.fixture
def game():
    return GAME


class TestDoom(SessionContract):
    @pytest.fixture
    def session(self, keeper):
        return keeper.ready()


class TestRemoteDoom(SessionContract):
    @pytest.fixture
    def session(self, keeper, tmp_path):
        doom = keeper.ready()
        with (
            serve(doom, ServerOptions(address=f"unix:{tmp_path}/s")) as server,
            connect(server.address, token=server.token) as session,
        ):
            assert session.shares_memory
            yield session
