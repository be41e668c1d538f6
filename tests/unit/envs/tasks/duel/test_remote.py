"""A duel with a game behind a server."""

import numpy as np
import pytest

from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.games.arena.fake import FakeArenaSession
from soulslab.siphon.rpc.server import ServerOptions, serve
from support.live_env import live_env
from support.players import script


@pytest.fixture
def server():
    """A server with the fight."""
    running = serve(FakeArenaSession, ServerOptions(address="127.0.0.1:0"))
    yield running
    running.stop()


def test_the_same_as_on_this_machine(server):
    options = {"boss": "trickster", "observation": "pixels+features", "skip_locked": True}
    near, far = live_env(**options), ArenaLiveEnv(server=server.address, token=server.token, **options)
    try:
        near.reset(seed=4)
        far.reset(seed=4)
        for action in script(4, 60):
            ours, theirs = near.step(int(action)), far.step(int(action))
            for name, value in ours[0].items():
                np.testing.assert_array_equal(theirs[0][name], value)
            assert theirs[1:4] == ours[1:4]
            if ours[2]:
                break
    finally:
        far.close()
