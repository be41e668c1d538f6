"""An environment whose game is behind a server."""

import msgspec
import pytest

from soulslab.envs.process import ProcessEnv
from soulslab.errors import EnvironmentUsageError, RemoteError, ServerUnavailableError
from soulslab.siphon.fake import FakeSession
from soulslab.siphon.rpc.server import ServerOptions, serve
from support.toy_env import toy_profile, toy_table


@pytest.fixture
def serving():
    """Start servers of the toy that are stopped, whatever happens."""
    running = []

    def start(address="127.0.0.1:0", token=""):
        server = serve(lambda: FakeSession(env=toy_table()), ServerOptions(address=address, token=token))
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def make():
    made = []

    def make_one(server, **options):
        made.append(ProcessEnv(profile=toy_profile(), server=server.address, token=server.token, **options))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def test_the_same_as_on_this_machine(serving, make):
    near, far = ProcessEnv(profile=toy_profile(), session=lambda: FakeSession(env=toy_table())), make(serving())
    near.reset(seed=1)
    far.reset(seed=1)
    for action in (1, 2, 3, 4, 5, 0):
        ours, theirs = near.step(action), far.step(action)
        assert ours[0].keys() == theirs[0].keys()
        assert all((ours[0][name] == theirs[0][name]).all() for name in ours[0])
        assert ours[1:4] == theirs[1:4]
        assert ours[4]["reward_terms"] == theirs[4]["reward_terms"]


def test_launch_options_start_the_game_anew(serving, make):
    assert make(serving(), options={"level": 7}).reset()[1]["values"]["level"] == 7


def test_a_server_that_is_killed_and_restarted(serving, make):
    server = serving()
    env = make(server)
    env.reset()
    env.step(1)
    server.stop(0.0)
    with pytest.raises(RemoteError):
        env.step(1)
    serving(server.address, server.token)
    observation, info = env.reset()
    assert (observation["hp"].item(), info["n_restarts"]) == (10, 1)
    env.step(1)


def test_no_server(serving, make):
    server = serving()
    server.stop()
    with pytest.raises(ServerUnavailableError):
        make(server).reset()


def test_another_profile_than_the_server_s(serving):
    server = serving()
    profile = msgspec.structs.replace(toy_profile(), keys={**toy_profile().keys, "jump": "ENTER"})
    env = ProcessEnv(profile=profile, server=server.address, token=server.token)
    with pytest.raises(EnvironmentUsageError, match="other keys"):
        env.reset()
