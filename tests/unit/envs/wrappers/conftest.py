"""Environments for tests of wrappers: the simulator, and a live environment with the same fight."""

import gymnasium
import pytest

import soulslab  # noqa: F401 (registers the ids)
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_arena import FakeArenaSession


@pytest.fixture
def make_live():
    """A function that makes live environments with a fake session; they are closed at the end of the test."""
    made = []

    def make(**options):
        fight = {"phase": options.get("phase", "full"), "poses": "random" if options.get("random_pose") else "fixed"}
        session = FakeArenaSession(SessionOptions(options={"boss": options.get("boss", "judge"), **fight}))
        env = ArenaLiveEnv(session=session, **options)
        env.arena = lambda: session.arena
        made.append(env)
        return env

    yield make
    for env in made:
        env.close()


@pytest.fixture(params=["sim", "live"])
def make_duel(request, make_live):
    """A function that makes environments: of the simulator, and live ones."""
    if request.param == "live":
        return make_live
    return lambda **options: gymnasium.make("soulslab/Arena-v0", **options)
