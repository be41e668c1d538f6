"""Environments of a game on a server."""

from contextlib import closing

import gymnasium
import msgspec
import numpy as np
import pytest

from soulslab.config import Secret
from soulslab.envs.registration import PROCESS_ID
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.envs.tasks.process.process_env import ProcessEnv
from soulslab.errors import ControlTakenError, EnvironmentUsageError, RemoteError, ServerUnavailableError
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.testing.fake_session import FakeSession
from support.toy_env import toy_profile, toy_table


@pytest.fixture
def serving():
    """Return a function that starts servers of the toy, which are stopped at the end of the test."""
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


def test_a_remote_game_gives_the_same_steps_as_a_local_one(serving, make):
    near, far = ProcessEnv(profile=toy_profile(), session=lambda: FakeSession(env=toy_table())), make(serving())
    near.reset(seed=1)
    far.reset(seed=1)
    for action in (1, 2, 3, 4, 5, 0):
        ours, theirs = near.step(action), far.step(action)
        assert ours[0].keys() == theirs[0].keys()
        assert all((ours[0][name] == theirs[0][name]).all() for name in ours[0])
        assert ours[1:4] == theirs[1:4]
        assert ours[4]["reward_terms"] == theirs[4]["reward_terms"]


def test_launch_options_restart_the_game(serving, make):
    assert make(serving(), options={"level": 7}).reset()[1]["values"]["level"] == 7


def test_reset_recovers_after_a_server_restart(serving, make):
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


def test_a_stopped_server_is_an_error(serving, make):
    server = serving()
    server.stop()
    with pytest.raises(ServerUnavailableError):
        make(server).reset()


def test_a_profile_that_differs_from_the_server_s_is_refused(serving):
    server = serving()
    profile = msgspec.structs.replace(toy_profile(), keys={**toy_profile().keys, "jump": "ENTER"})
    env = ProcessEnv(profile=profile, server=server.address, token=server.token)
    with pytest.raises(EnvironmentUsageError, match="other keys"):
        env.reset()


def test_a_vector_environment_uses_one_server_per_game(serving):
    servers = [serving(), serving()]
    env = gymnasium.make_vec(
        PROCESS_ID,
        num_envs=2,
        profile=toy_profile(),
        server=[server.address for server in servers],
        token=[server.token for server in servers],
        options={"level": 3},
    )
    try:
        _, info = env.reset(seed=1)
        assert info["values"]["level"].tolist() == [3, 3]
        assert [server.n_clients for server in servers] == [1, 1]
        observations, *_ = env.step(np.array([1, 2]))
        assert observations["velocity"].tolist() == [[0.0, 1.0], [-1.0, 0.0]]
    finally:
        env.close()


def test_a_list_of_servers_is_refused_by_a_single_environment():
    with pytest.raises(EnvironmentUsageError, match=r"server: expected text, got a list; .*make_vec"):
        ProcessEnv(profile=toy_profile(), server=["a:1", "b:2"])


def test_a_second_environment_on_one_server_is_refused(serving, make):
    server = serving()
    first, second = make(server), make(server)
    first.reset()
    first.step(1)
    with pytest.raises(ControlTakenError, match="controls the game, and last did so"):
        second.reset()
    first.step(1)
    first.close()
    second.reset()
    assert second.step(1)[4]["n_restarts"] == 0


def test_the_token_is_read_from_a_file_or_an_environment_variable(serving, tmp_path, monkeypatch):
    server = serving(token="a-token-of-some-length")  # noqa: S106  (made up)
    file = tmp_path / "token"
    file.write_text(server.token.reveal())
    file.chmod(0o600)
    given = {"profile": toy_profile(), "server": server.address}
    with closing(ProcessEnv(**given, token_file=file)) as env:
        env.reset()
    monkeypatch.setenv("SOULSLAB_TOKEN", server.token.reveal())
    with closing(ProcessEnv(**given)) as env:
        env.reset()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"token": "plain text"}, r"token must be a soulslab.config.Secret.*give token_file"),
        ({"token_file": 3}, "token_file: expected text"),
        ({"token": Secret("x"), "token_file": "y"}, "either token or token_file"),
    ],
)
def test_wrong_tokens_are_refused(options, words):
    with pytest.raises(EnvironmentUsageError, match=words):
        ProcessEnv(profile=toy_profile(), server="127.0.0.1:1", **options)
    with pytest.raises(EnvironmentUsageError, match=words):
        ArenaLiveEnv(server="127.0.0.1:1", **options)
