"""The page of a fleet in a browser, with a real learner, its Redis server and a real game."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import expect

from soulslab.fleet.access import Keys, connect
from soulslab.fleet.fleet_folder import JOIN_NAME, FleetFolder
from soulslab.fleet.messages import Lease
from soulslab.fleet.operating import read_status
from support.browser import check_no_traceback, check_widths
from support.forked import ForkedPopen
from support.waiting import wait_for

FAULT = "<b>made no step for 8 s</b>"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
PACED = ["--set", "env.id=support.slow_arena:SlowArena-v0"]


@pytest.fixture(scope="module")
def run_dir(shelf):
    """The folder of a fleet whose learner runs."""
    root, _ = shelf
    folder = root / "pack"
    command = [sys.executable, "-m", "soulslab", "fleet", "learn", "--run-dir", str(folder)]
    # Without updates the game never has to wait for the learner.
    command += ["--set", "env.n_envs=1", "--set", "replay.capacity=1000", "--set", "run.evaluate_every=0"]
    command += ["--set", "learner.learning_starts=1_000_000", *PACED]
    with (root.parent / "learn.log").open("w") as log:
        process = ForkedPopen(command, stdout=log, stderr=log, env=ENVIRONMENT)
        yield folder
        process.terminate()
        process.wait()
    check_no_traceback(root.parent / "learn.log")


@contextmanager
def playing(join, name, log):
    """Yield the process of a game that joins the fleet."""
    command = [sys.executable, "-m", "soulslab", "fleet", "play", str(join), "--name", name, "--dashboard", *PACED]
    with log.open("w") as errors:
        process = ForkedPopen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=ENVIRONMENT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()
    check_no_traceback(log)


@pytest.fixture
def game(shelf, run_dir):
    """A game on the machine of the learner, which joins the fleet as soon as its learner runs."""
    root, _ = shelf
    wait_for((run_dir / JOIN_NAME).exists, "the join file")
    with playing(run_dir / JOIN_NAME, "here", root.parent / "play.log") as process:
        yield process


def test_page_shows_learner_and_games_and_gives_orders(shelf, run_dir, game, open_page):
    _, dashboard = shelf
    page = open_page(dashboard.at("/fleet/pack"))
    # The page follows the learner, whose server may not answer yet.
    expect(page.locator("#content .state")).to_have_text("running")
    assert float(page.locator("dl div", has_text="Memory of the learner").locator("dd").inner_text()[:-3]) > 50
    fleet = FleetFolder(run_dir)
    access = fleet.admin()
    lease = Lease(
        worker="pc/0",
        incarnation="a" * 16,
        host="pc",
        state="playing",
        n_envs=1,
        soulslab="x",
        n_steps=1234,
        steps_per_second=9.8,
        n_restarts=3,
        last_fault=FAULT,
    )
    client = connect(access)
    client.set(Keys(access.run).lease("play-x", "a" * 16), msgspec.json.encode(lease), ex=120)
    client.close()
    row = page.locator("tr", has_text="pc/0")
    expect(row).to_be_visible()
    cells = row.locator("td").all_inner_texts()
    assert cells[:5] == ["pc/0", "playing", "pc", "1,234", "9.8"]
    assert cells[-2:] == ["3", FAULT]
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#content .state")).to_have_text("paused")
    assert read_status(fleet).state == "pause"
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#content .state")).to_have_text("running")
    link = page.locator("tr", has_text="here/0").locator("a.game")
    expect(link.locator("img")).to_be_visible()
    assert link.locator("img").evaluate("image => image.naturalWidth") == 160
    check_widths(page)
    link.click()
    page.wait_for_function("window.soulslabLive?.moments.length > 3")
    expect(page.locator("h1")).to_have_text("pack, here/0")
    expect(page.locator("#live-state")).to_have_text("live")
    assert "/fleet/pack?token=" in game.stdout.readline()
    # The dashboard of a command has the same output; it is at its end when both have ended.
    game.kill()
    assert game.stdout.read() == ""


def test_a_machine_with_nothing_but_the_join_file_shows_its_game(tmp_path, run_dir, open_page):
    wait_for((run_dir / JOIN_NAME).exists, "the join file")
    join = shutil.copy(run_dir / JOIN_NAME, tmp_path)
    with playing(join, "away", tmp_path / "play.log") as game:
        page = open_page(game.stdout.readline().split()[-1])
        page.wait_for_function("window.soulslabLive?.moments.length > 3")
        expect(page.locator("h1")).to_have_text("away_0")
        page.goto("about:blank")
