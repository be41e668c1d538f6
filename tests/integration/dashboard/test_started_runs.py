"""Runs that are started and resumed in the browser."""

import re

from playwright.sync_api import expect

from soulslab.learn.process_lock import is_held
from soulslab.learn.run_folder import LOCK_NAME
from soulslab.learn.run_requests import STOP_NAME, request
from support.browser import running_dashboard
from support.waiting import wait_for


def test_run_is_started_stopped_and_resumed(tmp_path, open_page):
    root = tmp_path / "runs"
    folder = root / "mine"

    def wait_for_run(*, is_running):
        wait_for(
            lambda: (folder / LOCK_NAME).exists() and is_held(folder / LOCK_NAME) == is_running,
            f"is_running={is_running}",
            deadline_s=120.0,
        )

    def stop():
        page.get_by_role("button", name="Stop", exact=True).click()
        page.get_by_role("button", name="Stop the run").click()
        wait_for_run(is_running=False)

    try:
        with running_dashboard(root, tmp_path / "dashboard.log") as dashboard:
            page = open_page(dashboard.link)
            page.get_by_role("button", name="Start a run").click()
            page.get_by_label("name").fill("../outside")
            page.get_by_role("button", name="Start", exact=True).click()
            expect(page.get_by_text(re.compile("takes letters"))).to_be_visible()
            page.get_by_role("button", name="Start a run").click()
            page.get_by_label("name").fill("mine")
            page.get_by_role("button", name="Start", exact=True).click()
            wait_for_run(is_running=True)
            page.goto(f"{dashboard.base}/run/mine")
            expect(page.locator(".state")).to_have_text("running", timeout=60_000)
            stop()
            expect(page.locator(".state")).to_have_text("stopped")
            page.get_by_role("button", name="Resume").click()
            wait_for_run(is_running=True)
            expect(page.locator(".state")).to_have_text("running", timeout=60_000)
            stop()
            expect(page.locator(".state")).to_have_text("stopped")
            page.get_by_text("Log", exact=True).click()
            expect(page.locator("pre")).to_contain_text("to resume: soulslab train --resume")
    finally:
        if folder.exists():  # the run is no child of this process
            request(folder, STOP_NAME)
            wait_for_run(is_running=False)
    assert not (tmp_path / "outside").exists()
