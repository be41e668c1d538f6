"""The page of a fleet in a browser, with a real learner and its Redis server."""

import os
import subprocess
import sys

import msgspec
import pytest
from playwright.sync_api import expect

from soulslab.fleet.access import Keys, connect
from soulslab.fleet.fleet_folder import FleetFolder
from soulslab.fleet.messages import Lease
from soulslab.fleet.operating import read_status
from support.browser import running_dashboard

FAULT = "<b>made no step for 8 s</b>"


@pytest.fixture
def run_dir(tmp_path):
    """The folder of a fleet whose learner runs."""
    folder = tmp_path / "runs" / "pack"
    command = [sys.executable, "-m", "soulslab", "fleet", "learn", "--run-dir", str(folder)]
    command += ["--set", "env.n_envs=1", "--set", "replay.capacity=1000"]
    with (tmp_path / "learn.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
        yield folder
        process.terminate()
        process.wait()


def test_page_shows_learner_and_games_and_gives_orders(run_dir, tmp_path, open_page):
    with running_dashboard(tmp_path / "runs", tmp_path / "dashboard.log") as dashboard:
        page = open_page(dashboard.link)
        page.goto(f"{dashboard.base}/fleet/pack")
        # The page follows the learner, whose server may not answer yet.
        expect(page.locator("#content .state")).to_have_text("running", timeout=120_000)
        expect(page.locator("#content")).to_contain_text("soulslab fleet play")
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
