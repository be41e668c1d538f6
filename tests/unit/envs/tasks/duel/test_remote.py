"""A duel whose game runs on a server."""

import numpy as np
import pytest

from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.testing.fake_arena import FakeArenaSession
from support.live_env import live_env
from support.players import script


@pytest.fixture
def server():
    """A server of the built-in fight."""
    running = serve(FakeArenaSession, ServerOptions(address="127.0.0.1:0"))
    yield running
    running.stop()


def test_a_remote_game_gives_the_same_results_as_a_local_game(server):
    options = {"boss": "trickster", "observation": "pixels+features", "skip_locked": True}
    local, remote = live_env(**options), ArenaLiveEnv(server=server.address, token=server.token, **options)
    try:
        local.reset(seed=4)
        remote.reset(seed=4)
        for action in script(4, 60):
            ours, theirs = local.step(int(action)), remote.step(int(action))
            for name, value in ours[0].items():
                np.testing.assert_array_equal(theirs[0][name], value)
            assert theirs[1:4] == ours[1:4]
            if ours[2]:
                break
    finally:
        remote.close()
