"""The live feed: nothing without viewers, consecutive decisions with them, and never a wait of the actor."""

import json
import socket
import stat

import cv2
import gymnasium
import msgspec
import numpy as np
import pytest

from soulslab.learn import live_feed
from soulslab.learn.environment import make_vector
from soulslab.learn.inputs import Inputs
from soulslab.learn.live_feed import (
    LENGTH,
    Ending,
    FeedInfo,
    FeedMessage,
    LiveFeed,
    Moment,
    encode_picture,
    receive_exactly,
)
from soulslab.learn.policy import Policy
from support.policies import actor_critic, some_inputs
from support.waiting import PATIENCE_S, wait_for


class Viewer:
    """A viewer as the dashboard is one."""

    def __init__(self, path, key=None):
        address = json.loads(path.read_text())
        self.connection = socket.create_connection(("127.0.0.1", address["port"]))
        self.connection.settimeout(PATIENCE_S)
        self.connection.sendall((key or address["key"]).encode())

    def read(self):
        [length] = LENGTH.unpack(receive_exactly(self.connection, LENGTH.size))
        return msgspec.msgpack.decode(receive_exactly(self.connection, length), type=FeedMessage)

    def ask(self):
        self.connection.sendall(b"n")

    def next(self):
        self.ask()
        return self.read()


@pytest.fixture
def env():
    made = make_vector("toys/Corridor-v0", 2, {})
    yield made
    made.close()


@pytest.fixture
def feed(tmp_path, env):
    feed = LiveFeed(tmp_path / "live.json")
    feed.open(env)
    yield feed
    feed.close()


@pytest.fixture
def viewer(tmp_path, feed):
    viewer = Viewer(tmp_path / "live.json")
    assert isinstance(viewer.read(), FeedInfo)
    wait_for(lambda: feed.is_watched, "the feed to notice its viewer")
    yield viewer
    viewer.connection.close()


def show(feed, env, n=1, policy=None):
    policy = policy or actor_critic()
    for _ in range(n):
        features, masks = some_inputs(2, 6, 4)
        feed.show(env, policy, Inputs(features), masks, np.array([1, 2]))
        feed.follow(0.5, is_over=False)


def test_address_can_only_be_read_by_its_user(tmp_path, feed):
    assert stat.S_IMODE((tmp_path / "live.json").stat().st_mode) == 0o600


def test_nothing_is_computed_without_a_viewer(feed, env, monkeypatch):
    monkeypatch.setattr(Policy, "view", None)  # a call would fail
    show(feed, env, 3)
    assert not feed.is_watched


def test_viewer_receives_what_the_policy_computed(feed, env, viewer):
    policy = actor_critic()
    features, masks = some_inputs(2, 6, 4)
    feed.follow(0.0, is_over=False)
    feed.show(env, policy, Inputs(features), masks, np.array([1, 2]))
    moment = viewer.next()
    assert isinstance(moment, Moment)
    assert (moment.action, moment.decision, moment.fight, moment.kind) == (1, 1, 0, "probability")
    assert np.array_equal(np.frombuffer(moment.features, np.float32), features[0])
    assert list(moment.mask) == masks[0].astype(int).tolist()
    expected = policy.scores(Inputs(features[:1]), masks[:1]).numbers[0]
    np.testing.assert_allclose(np.frombuffer(moment.scores, np.float32), expected, rtol=1e-5)
    assert [len(layer) for layer in moment.hidden] == [8]


def test_decisions_are_consecutive(feed, env, viewer):
    show(feed, env, 5)
    assert [viewer.next().decision for _ in range(5)] == [0, 1, 2, 3, 4]


def test_return_includes_the_decisions_before_the_viewer_connected(tmp_path, feed, env):
    show(feed, env, 50)
    viewer = Viewer(tmp_path / "live.json")
    viewer.read()
    wait_for(lambda: feed.is_watched, "the feed to notice its viewer")
    show(feed, env, 2)
    found = [viewer.next(), viewer.next()]
    assert [(each.decision, each.reward, each.total) for each in found] == [(50, 0.5, 25.0), (51, 0.5, 25.5)]
    viewer.connection.close()


def test_feed_pauses_until_a_fast_fight_was_watched(feed, env, viewer, monkeypatch):
    now = 100.0
    monkeypatch.setattr(live_feed.time, "monotonic", lambda: now)
    show(feed, env, 20)
    feed.follow(1.0, is_over=True, is_won=True)
    show(feed, env, 3)
    now = 101.9
    show(feed, env, 3)
    now = 102.1
    show(feed, env, 1)
    found = [viewer.next() for _ in range(22)]
    assert found[20] == Ending(fight=0, is_won=True)
    assert (found[21].fight, found[21].decision) == (1, 6)


def test_long_fast_fight_is_sent_from_its_beginning_and_with_its_end(feed, env, viewer, monkeypatch):
    monkeypatch.setattr(live_feed.time, "monotonic", lambda: 100.0)
    show(feed, env, live_feed.MAX_WAITING + 50)
    feed.follow(1.0, is_over=True, is_won=False)
    found = [viewer.next() for _ in range(live_feed.MAX_WAITING)]
    # The end took the place of the oldest decision.
    assert [each.decision for each in found[:-1]] == list(range(1, live_feed.MAX_WAITING))
    assert found[-1] == Ending(fight=0, is_won=False)


def test_slow_viewer_of_a_game_loses_the_oldest_messages_and_the_actor_does_not_wait(feed, env, viewer, monkeypatch):
    now = iter(range(10_000))
    monkeypatch.setattr(live_feed.time, "monotonic", lambda: float(next(now)))
    show(feed, env, live_feed.MAX_WAITING + 50)
    assert viewer.next().decision == 50


def test_feed_does_not_pause_after_a_game_with_short_decisions(feed, env, viewer, monkeypatch):
    now = 100.0
    monkeypatch.setattr(live_feed.time, "monotonic", lambda: now)
    for _ in range(20):
        show(feed, env)
        now += 0.04
    feed.follow(1.0, is_over=True, is_won=True)
    show(feed, env)
    found = [viewer.next() for _ in range(22)]
    assert (found[21].fight, found[21].decision, found[21].total) == (1, 0, 0.0)


def test_wrong_key_is_refused(tmp_path, feed):
    viewer = Viewer(tmp_path / "live.json", key="0" * 32)
    with pytest.raises(ConnectionError):
        viewer.read()
    viewer.connection.close()
    assert not feed.is_watched


def test_connections_without_the_key_are_limited(tmp_path, feed):
    port = json.loads((tmp_path / "live.json").read_text())["port"]
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(live_feed.MAX_CONNECTIONS)]
    refused = socket.create_connection(("127.0.0.1", port))
    refused.settimeout(2.0)  # less than the time for the key
    assert refused.recv(1) == b""
    for each in (*silent, refused):
        each.close()

    def is_served():
        viewer = Viewer(tmp_path / "live.json")
        try:
            return isinstance(viewer.read(), FeedInfo)
        except ConnectionError:
            return False
        finally:
            viewer.connection.close()

    wait_for(is_served, "the feed to notice that they have gone")


def test_feed_notices_that_a_viewer_has_gone(feed, env, viewer):
    viewer.connection.close()
    wait_for(lambda: not feed.is_watched, "the feed to notice")


def test_silent_feed_notices_that_a_viewer_has_gone(feed, viewer):
    viewer.ask()
    viewer.connection.close()
    wait_for(lambda: not feed.is_watched, "the feed to notice")


def test_viewer_of_a_silent_feed_is_kept(tmp_path, feed, env, monkeypatch):
    checks, has_gone = [], live_feed._has_gone
    monkeypatch.setattr(live_feed, "_CHECK_EVERY_S", 0.01)
    monkeypatch.setattr(live_feed, "_has_gone", lambda connection: checks.append(has_gone(connection)) or checks[-1])
    viewer = Viewer(tmp_path / "live.json")
    viewer.read()
    viewer.ask()
    wait_for(lambda: len(checks) > 1, "two checks of the viewer")
    show(feed, env)
    assert viewer.read().decision == 0
    assert not any(checks)
    viewer.connection.close()


def test_several_viewers(tmp_path, feed, env, viewer):
    other = Viewer(tmp_path / "live.json")
    assert isinstance(other.read(), FeedInfo)
    other.ask()
    wait_for(lambda: len(feed._viewers) == 2, "two viewers")
    show(feed, env)
    assert other.read() == viewer.next()
    other.connection.close()


def test_close_disconnects_and_removes_the_file(tmp_path, feed, viewer):
    feed.close()
    feed.close()
    assert not (tmp_path / "live.json").exists()
    with pytest.raises(OSError, match=r".*"):
        viewer.next()


def test_feed_without_a_folder_only_warns(tmp_path, env, caplog):
    feed = LiveFeed(tmp_path / "missing" / "live.json")
    feed.open(env)
    assert "no live feed" in caplog.text
    show(feed, env)
    feed.close()


def test_simulator_sends_records_instead_of_pictures(tmp_path):
    env = gymnasium.make("soulslab/Arena-v0", boss="judge")
    env.reset(seed=0)
    feed = LiveFeed(tmp_path / "live.json")
    feed.open(env)
    viewer = Viewer(tmp_path / "live.json")
    info = viewer.read()
    assert info.scene["boss"] == b"judge"
    assert info.n_actions == 20
    wait_for(lambda: feed.is_watched)
    feed.show(env, actor_critic(n_features=6), Inputs(np.zeros((1, 6), np.float32)), np.ones((1, 4), np.bool_), [0])
    moment = viewer.next()
    assert set(moment.scene) == {"duel", "state"}
    assert moment.picture == b""
    again = Viewer(tmp_path / "live.json")
    assert again.read().feed_id == info.feed_id != ""
    for each in (viewer, again):
        each.connection.close()
    feed.close()
    env.close()


def test_rendering_environment_sends_a_jpeg(tmp_path):
    class Painted(gymnasium.Env):
        render_mode = "rgb_array"
        action_space = gymnasium.spaces.Discrete(4)
        observation_space = gymnasium.spaces.Box(0, 1, (6,))

        def render(self):
            return np.full((300, 960, 3), 200, np.uint8)

    feed = LiveFeed(tmp_path / "live.json")
    env = Painted()
    feed.open(env)
    viewer = Viewer(tmp_path / "live.json")
    viewer.read()
    wait_for(lambda: feed.is_watched)
    feed.show(env, actor_critic(), Inputs(np.zeros((1, 6), np.float32)), np.ones((1, 4), np.bool_), [0])
    picture = cv2.imdecode(np.frombuffer(viewer.next().picture, np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape == (150, 480, 3)
    viewer.connection.close()
    feed.close()


GREEN = (20, 200, 60)


@pytest.mark.parametrize(
    ("picture", "shown"),
    [
        (np.full((8, 8, 3), GREEN), GREEN),
        (np.full((8, 8, 4), (*GREEN, 255)), GREEN),  # an opaque alpha channel
        (np.full((8, 8, 6), (1, 2, 3, *GREEN)), GREEN),  # the last of two frames
        (np.full((8, 8, 4), (1, 2, 3, 90)), (90, 90, 90)),  # the last of four grey frames
        (np.full((8, 8, 1), 90), (90, 90, 90)),
    ],
)
def test_pictures_of_all_channels(picture, shown):
    found = cv2.imdecode(np.frombuffer(encode_picture(picture.astype(np.uint8)), np.uint8), cv2.IMREAD_COLOR)
    assert np.abs(found[..., ::-1].astype(int) - shown).max() < 6
