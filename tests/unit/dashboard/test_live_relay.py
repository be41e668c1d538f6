"""The pictures of games on the page of a fleet, and feeds that cannot be read or drawn."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest

from soulslab.arena.records import FIGHT
from soulslab.dashboard import live_relay
from soulslab.dashboard.live_relay import LiveRelays, _Relay
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


class DuelOfALostBoss(Painted):
    def scene_info(self):
        return {"boss": b"/lost/boss.toml", "rules": bytes(FIGHT.itemsize)}


@pytest.fixture
def offered(tmp_path, monkeypatch):
    """Run the relay of a feed until it has offered some messages, and return their kinds."""
    monkeypatch.setattr(live_relay, "_RETRY_S", 0.0)

    async def relay_messages(n):
        relay, kinds, is_enough = _Relay(tmp_path / FEED_NAME), [], asyncio.Event()

        def offer(kind, _):
            kinds.append(kind)
            if len(kinds) == n:
                is_enough.set()

        relay._offer = offer
        task = asyncio.create_task(relay._run())
        await is_enough.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return kinds

    with ThreadPoolExecutor(1) as thread:
        yield lambda n: thread.submit(asyncio.run, relay_messages(n)).result()


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_damaged_address_is_reported_once(tmp_path, offered, caplog):
    assert offered(3) == ["status"] * 3
    assert warnings(caplog) == []  # a run that does not offer its decisions
    (tmp_path / FEED_NAME).write_text("{")
    offered(3)
    [warning] = warnings(caplog)
    assert "the feed cannot be read" in warning


def test_feed_is_shown_without_the_boss_file(tmp_path, offered, caplog):
    feed = LiveFeed(tmp_path / FEED_NAME)
    feed.open(DuelOfALostBoss())
    assert offered(2) == ["status", "info"]
    [warning] = warnings(caplog)
    assert "the fight cannot be drawn: /lost/boss.toml" in warning
    feed.close()
