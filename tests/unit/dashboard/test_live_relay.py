"""The pictures of games on the page of a fleet."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np

from soulslab.dashboard import live_relay
from soulslab.dashboard.live_relay import LiveRelays
from soulslab.learn.inputs import Inputs
from soulslab.learn.live_feed import FEED_NAME, LiveFeed
from support.policies import actor_critic
from support.waiting import wait_for


class Painted(gymnasium.Env):
    render_mode = "rgb_array"
    action_space = gymnasium.spaces.Discrete(4)
    observation_space = gymnasium.spaces.Box(0, 1, (6,))

    def render(self):
        return np.full((90, 320, 3), 200, np.uint8)


def test_pages_share_the_picture_of_a_game(tmp_path, monkeypatch):
    for name in ("FRAMES_EVERY_S", "_FRAME_TIMEOUT_S"):
        monkeypatch.setattr(live_relay, name, 60.0)  # a busy machine
    env = Painted()
    path, policy, relays = tmp_path / FEED_NAME, actor_critic(), LiveRelays()
    feed = LiveFeed(path)
    feed.open(env)

    def show():
        wait_for(lambda: feed.is_watched, "the relay to connect")
        feed.show(env, policy, Inputs(np.zeros((1, 6), np.float32)), np.ones((1, 4), np.bool_), np.array([0]))

    async def fetch():
        first, _ = await asyncio.gather(relays.last_frame(path), asyncio.to_thread(show))
        feed.close()  # the second page is served without the feed
        return first, await relays.last_frame(path)

    with ThreadPoolExecutor(1) as thread:  # the main thread has the event loop of the browser's tests
        first, second = thread.submit(asyncio.run, fetch()).result()
    assert first.startswith(b"\xff\xd8")
    assert second == first
