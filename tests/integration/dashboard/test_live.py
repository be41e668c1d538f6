"""The live page, the controls, and the dashboards of other commands, with real training and a real policy."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest
from playwright.sync_api import expect

from soulslab.arena.features import FEATURE_NAMES
from soulslab.arena.vocabulary import N_ACTIONS
from soulslab.envs.registration import IUDEX_ID
from soulslab.learn.live_feed import FEED_NAME, LiveFeed
from soulslab.play.policy_actions import policy_actions
from soulslab.siphon.process.process_tree import living
from support.browser import (
    Dashboard,
    chart_data,
    check_no_traceback,
    check_widths,
    running_dashboard,
    token_file,
)
from support.forked import ForkedPopen
from support.policies import actor_critic
from support.waiting import PATIENCE_S, wait_for

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
SMALL = [
    *("--env", "support.slow_arena:SlowArena-v0", "--set", "env.n_envs=1", "--set", "learner.n_steps=32"),
    *("--set", "learner.minibatch_size=32", "--set", "network.widths=[16]", "--set", "run.total_steps=1_000_000_000"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("live") / "runs"


@pytest.fixture(scope="module")
def dashboard(root):
    """The dashboard of a run on the built-in fight that does not end by itself."""
    command = [sys.executable, "-m", "soulslab", "train", "--run-dir", str(root / "run"), "--dashboard", *SMALL]
    with (root.parent / "train.log").open("w") as log:
        process = ForkedPopen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=ENVIRONMENT)
        yield Dashboard(process, process.stdout.readline().split()[-1])
        process.kill()
        process.wait()
        process.stdout.close()
    check_no_traceback(root.parent / "train.log")


def shown(page):
    """Return the fight and the decision that the page shows."""
    found = page.evaluate("document.body.dataset.decision")
    return tuple(map(int, found.split(":"))) if found else None


VIEWERS = """window.viewers = Promise.all(Array.from({ length: 20 }, () => new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://${location.host}/feed/run`), sizes = [];
    socket.onopen = () => socket.send("n");
    socket.onerror = reject;
    socket.onmessage = ({ data }) => {
        sizes.push(data.size);
        if (sizes.length === 5) { socket.close(); resolve(Math.max(...sizes)); } else socket.send("n");
    };
}))), null"""
"""Starts twenty viewers at once, each of which asks for five messages and returns the size of the largest one."""


@pytest.fixture
def live(root, dashboard, open_page):
    wait_for((root / "run" / FEED_NAME).exists, "the run to start")
    page = open_page(dashboard.at("/live/run"))
    page.wait_for_function("window.soulslabLive?.moments.length > 5")
    return page


def test_live_page_shows_what_the_policy_computed_beside_twenty_viewers(live):
    expect(live.locator("#live-state")).to_have_text("live")
    live.evaluate(VIEWERS)
    live.keyboard.press("Space")
    expect(live.locator("#play")).to_have_attribute("aria-label", "Play")
    moment = live.evaluate("(({jpeg, ...rest}) => rest)(soulslabLive.moments[soulslabLive.head])")
    rows = live.locator("#actions li")
    expect(rows).to_have_count(20)
    texts = rows.locator("output").all_inner_texts()
    assert [float(text.removesuffix(" %")) for text in texts] == pytest.approx(
        [100 * score for score in moment["scores"]], abs=0.051
    )
    assert sum(moment["scores"]) == pytest.approx(1.0, abs=0.01)
    masked = [i for i, row in enumerate(rows.all()) if "masked" in row.get_attribute("class")]
    assert masked == [i for i, is_open in enumerate(moment["mask"]) if not is_open]
    expect(live.locator("#actions li.chosen .name")).to_have_text(
        live.evaluate(f"soulslabLive.info.actions[{moment['action']}]")
    )
    boss = live.locator("#vitals .boss output").inner_text()
    assert boss == f"{round(moment['vitals']['boss_hp'])} / {round(moment['vitals']['boss_max_hp'])}"
    colours = "new Set(document.getElementById('picture').getContext('2d').getImageData(0, 0, 640, 360).data).size"
    live.wait_for_function(f"{colours} > 50")
    # A paused fight can be stepped and scrolled back, while further decisions arrive.
    at = live.evaluate("soulslabLive.head")
    live.keyboard.press("ArrowLeft")
    live.keyboard.press("ArrowLeft")
    live.keyboard.press("ArrowRight")
    assert live.evaluate("soulslabLive.head") == at - 1
    live.wait_for_function(f"soulslabLive.moments.length > {at + 3}")
    assert live.evaluate("soulslabLive.head") == at - 1
    live.locator("#position").fill("0")
    first = live.evaluate("[soulslabLive.moments[0].fight, soulslabLive.moments[0].decision].join(':')")
    live.wait_for_function(f"document.body.dataset.decision === '{first}'")
    live.locator("#speed").select_option("0.25")
    live.wait_for_function("soulslabLive.speed === 0.25 && !soulslabLive.isLive && soulslabLive.head > 0")
    live.locator("#live").click()
    live.wait_for_function("soulslabLive.head > 5 && soulslabLive.speed === 1")
    # Decisions are shown as they happen, every 40 ms on an idle machine, so that their delay does not grow.
    live.wait_for_function("soulslabLive.moments.length > 100")
    live.wait_for_function("""(moments => {
        const last = moments.at(-1);
        const interval_ms = (last.receivedMs - moments.at(-101).receivedMs) / 100;
        return last.receivedMs - last.wall_ms < 12.5 * interval_ms;
    })(soulslabLive.moments)""")
    assert min(live.evaluate("viewers")) > 5_000  # each has received a decision with its picture
    check_widths(live)


def test_decisions_are_in_order_and_continue_after_a_reload(live):
    live.wait_for_function("soulslabLive.moments.length > 15")
    steps = live.evaluate("soulslabLive.moments.map(each => [each.fight, each.decision])")
    # A busy machine may leave some out.
    assert all(step < next_step for step, next_step in pairwise(steps))
    assert any(
        fight == next_fight and next_step == step + 1 for (fight, step), (next_fight, next_step) in pairwise(steps)
    )
    live.add_init_script("""
        window.sockets = [];
        window.WebSocket = class extends WebSocket { constructor(url) { super(url); sockets.push(this); } };
    """)
    live.reload()
    live.wait_for_function("window.soulslabLive?.moments.length > 3")
    # A viewer who has paused the fight keeps it when the connection is interrupted.
    live.keyboard.press("Space")
    history = "JSON.stringify([soulslabLive.head, ...soulslabLive.moments.slice(0, 4).map(each => each.wall_ms)])"
    paused_at = live.evaluate(history)
    live.evaluate("sockets.find(each => each.url.includes('/feed/')).close()")
    live.wait_for_function("!soulslabLive.isConnected")
    n_moments = live.evaluate("soulslabLive.moments.length")
    live.wait_for_function(f"soulslabLive.moments.length > {n_moments}")
    assert live.evaluate(history) == paused_at
    expect(live.locator("#actions li.chosen")).to_have_count(1)


def test_run_page_follows_the_run_and_saves_it(root, dashboard, open_page):
    page = open_page(dashboard.at("/run/run"))
    expect(page.locator(".state")).to_have_text("running")
    before = len(chart_data(page, "Entropy")["entropy"])
    name = json.dumps("Entropy")
    page.wait_for_function(
        f"""getElement(Number(document.querySelector(`[data-chart={name}]`).id.slice(1))).chart.getOption()
            .series[0].data.length > {before}"""
    )
    checkpoints = root / "run" / "checkpoints"
    saved = set(checkpoints.glob("*")) if checkpoints.exists() else set()
    page.get_by_role("button", name="Save now").click()
    wait_for(lambda: checkpoints.exists() and set(checkpoints.glob("*")) - saved, "a checkpoint")


def test_stand_in_game_is_shown(root, dashboard, open_page):
    (root / "game").mkdir()
    feed, is_over = LiveFeed(root / "game" / FEED_NAME), threading.Event()
    env = gymnasium.make(IUDEX_ID, stand_in=True, launch_seed=0, observation="features", render_mode="rgb_array")
    sizes = {"n_features": len(FEATURE_NAMES), "n_actions": N_ACTIONS, "feature_names": FEATURE_NAMES}
    player = actor_critic(env_id=IUDEX_ID, env_options={"observation": "features"}, **sizes)
    act = policy_actions(player, env)

    def play():
        feed.open(env)
        observation, info = env.reset(seed=3)
        n_decisions = 0
        while not is_over.is_set():
            action = act(observation, info["action_mask"], n_decisions)
            feed.show(env, player, act.inputs, info["action_mask"][None], np.array([action]))
            observation, reward, terminated, truncated, info = env.step(action)
            n_decisions += 1
            feed.follow(float(reward), is_over=terminated or truncated)
            if terminated or truncated:
                observation, info = env.reset()
                n_decisions = 0

    playing = threading.Thread(target=play)
    playing.start()
    try:
        wait_for((root / "game" / FEED_NAME).exists, "the feed of the game")
        page = open_page(dashboard.at("/live/game"))
        page.wait_for_function("window.soulslabLive?.moments.length > 3")
        moment = page.evaluate("(({jpeg, ...rest}) => rest)(soulslabLive.moments[0])")
        assert moment["vitals"]["boss_max_hp"] == env.unwrapped.scenario.boss_max_hp
        assert page.evaluate("soulslabLive.moments[0].jpeg.size") > 1000
        assert page.evaluate("soulslabLive.info.env") == IUDEX_ID
        expect(page.locator("#actions li")).to_have_count(N_ACTIONS)
    finally:
        is_over.set()
        playing.join(PATIENCE_S)
        feed.close()
        env.close()


def server_at(port):
    """Return the process that listens on a port."""
    pids = {each.pid for each in psutil.net_connections("tcp") if each.laddr.port == port and each.status == "LISTEN"}
    [pid] = pids
    return psutil.Process(pid)


def test_open_pages_recover_from_a_restart_of_the_server_without_controls(root, dashboard, tmp_path, open_page):
    """The last test of this run: it ends."""
    live = open_page(dashboard.at("/live/run"), may_disconnect=True)
    live.wait_for_function("window.soulslabLive?.moments.length > 0")
    runs = open_page(dashboard.at("/"), may_disconnect=True)
    decisions = runs.locator("tr", has_text="run").locator("td").nth(5)
    before = decisions.inner_text()
    server = server_at(int(dashboard.port))
    server.terminate()
    wait_for(lambda: not living([server.pid]), "the server to end")
    log = tmp_path / "dashboard.log"
    token_file(log).parent.mkdir(parents=True, mode=0o700)
    token_file(log).touch(0o600)
    token_file(log).write_text(dashboard.token)
    with running_dashboard(root, log, "--read-only", port=dashboard.port, popen=ForkedPopen) as again:
        assert again.token == dashboard.token
        # The page may be loaded again.
        live.wait_for_function("!window.soulslabLive?.moments.length || soulslabLive.isConnected")
        live.wait_for_function("window.soulslabLive?.isConnected && soulslabLive.moments.length > 3")
        expect(decisions).not_to_have_text(before)
        expect(runs.get_by_role("button", name="Compare")).to_be_visible()
        expect(runs.get_by_role("button", name="Start a run")).to_have_count(0)
        runs.goto(again.at("/run/run"))
        expect(runs.get_by_role("button", name="Watch live")).to_be_visible()
        expect(runs.get_by_role("button", name="Stop")).to_have_count(0)
        expect(runs.get_by_role("button", name="Save now")).to_have_count(0)
        dashboard.process.kill()
        expect(runs.locator(".state")).to_have_text("failed")
        expect(runs.get_by_role("button", name="Resume")).to_have_count(0)
        (root / "run" / "fleet").mkdir()
        runs.goto(f"{again.base}/fleet/run")
        expect(runs.locator("#content .state")).to_have_text("not reachable")
        for name in ("Pause", "Continue", "Save now"):
            expect(runs.get_by_role("button", name=name)).to_have_count(0)
        expect(live.locator("#live-state")).to_have_text("not live")
        live.close()
        runs.close()


def test_policy_plays_for_the_browser(tmp_path, open_page, request):
    options = {"boss": "judge", "observation": "features"}
    sizes = {"n_features": len(FEATURE_NAMES), "n_actions": N_ACTIONS, "feature_names": FEATURE_NAMES}
    policy = tmp_path / "policy.safetensors"
    actor_critic(env_id="soulslab/Arena-v0", env_options=options, **sizes).save(policy)
    command = [sys.executable, "-m", "soulslab", "play", "--policy", str(policy), "--dashboard", "--seed", "3"]
    with (tmp_path / "play.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=ENVIRONMENT)
        request.addfinalizer(process.kill)
        link = process.stdout.readline().split()[-1]
        page = open_page(link)
        page.wait_for_function("window.soulslabLive?.moments.length > 10")
        times = page.evaluate("soulslabLive.moments.map(each => each.wall_ms)")
        assert shown(page) is not None
        # The game is not faster than real time; a busy machine may make it slower.
        assert (times[-1] - times[0]) / (len(times) - 1) > 90.0
        page.goto("about:blank")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        process.stdout.close()
    assert re.search(r"\d+ of \d+ fights won", (tmp_path / "play.log").read_text())
    check_no_traceback(tmp_path / "play.log")
