"""Runs that are started and resumed in the browser over TLS, in a folder that is empty at first."""

import re
from contextlib import contextmanager

import psutil
from playwright.sync_api import expect

from soulslab.fleet.certificates import server_certificates
from soulslab.learn.process_lock import is_held
from soulslab.learn.run_folder import LOCK_NAME
from soulslab.learn.run_requests import STOP_NAME, request
from soulslab.learn.sinks import PROGRESS_NAME
from support.browser import running_dashboard
from support.forked import ForkedPopen
from support.run_folders import started, write_run
from support.waiting import wait_for

COMMANDS = {
    "/": "soulslab train --config demo.toml --run-dir",
    "/compare": "soulslab train --config demo.toml --run-dir",
    "/fleet": "soulslab fleet learn --run-dir",
    "/fights": "soulslab fights record",
    "/studies": "soulslab tune",
}


@contextmanager
def suspended(dashboard):
    """Suspend the run that a dashboard has started."""
    server = psutil.Process(dashboard.process.pid)
    # Before it runs its own program, the server would wait for it.
    is_started = lambda: [each for each in server.children() if "train" in each.cmdline()]  # noqa: E731
    [run] = wait_for(is_started, "the run to start")
    run.suspend()
    try:
        yield
    finally:
        run.resume()


def check_empty_pages(page, base):
    for path, command in COMMANDS.items():
        page.goto(f"{base}{path}")
        expect(page.locator("pre")).to_contain_text(command)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
    page.goto(f"{base}/")
    expect(page.locator("#content")).to_contain_text("No runs yet")


def wait_for_start(folder, n):
    """Wait until a run has started for the ``n``-th time; before, it would remove a request."""
    progress = folder / PROGRESS_NAME
    is_started = lambda: progress.exists() and progress.read_text().count("TrainStarted") == n  # noqa: E731
    wait_for(is_started, "the run to start")


def wait_for_end(folder):
    wait_for(lambda: not is_held(folder / LOCK_NAME), "the run to end")


def check_run_that_starts(page):
    """Check the page of a run whose process has neither a lock nor settings yet."""
    expect(page.locator(".state")).to_have_text("new")
    expect(page.get_by_role("button", name="Resume")).to_be_hidden()
    page.get_by_text("Settings", exact=True).click()
    expect(page.get_by_text("The folder has no config.toml yet.")).to_be_visible()


def test_empty_pages_say_what_to_do_and_a_run_is_started_stopped_and_resumed(tmp_path, open_page):
    root = tmp_path / "runs"
    folder = root / "mine"
    made = server_certificates(tmp_path / "tls", "127.0.0.1")
    tls = ("--certificate", str(made.certificate), "--key", str(made.key))

    try:
        with running_dashboard(root, tmp_path / "dashboard.log", *tls, popen=ForkedPopen) as dashboard:
            assert dashboard.base.startswith("https://127.0.0.1:")
            page = open_page(dashboard.at("/"), width=400)
            check_empty_pages(page, dashboard.base)
            page.get_by_role("button", name="Start a run").click()
            page.get_by_label("name").fill("../outside")
            page.get_by_role("button", name="Start", exact=True).click()
            expect(page.get_by_text(re.compile("takes letters"))).to_be_visible()
            page.get_by_role("button", name="Start a run").click()
            page.get_by_label("name").fill("mine")
            page.get_by_role("button", name="Start", exact=True).click()
            with suspended(dashboard):  # before it has the lock of its folder
                expect(page.locator(".card .state")).to_have_text("new")
                page.goto(f"{dashboard.base}/run/mine")
                check_run_that_starts(page)
            wait_for_start(folder, 1)
            with suspended(dashboard):  # it would train with all cores while the browser is waited for
                expect(page.locator(".state")).to_have_text("running")
                expect(page.locator("code", has_text="run.total_steps")).to_be_visible()
                page.get_by_role("button", name="Stop", exact=True).click()
                page.get_by_role("button", name="Stop the run").click()
                wait_for((folder / STOP_NAME).exists, "the request")
            wait_for_end(folder)
            expect(page.locator(".state")).to_have_text("stopped")
            expect(page.get_by_role("button", name="Save now")).to_be_hidden()
            wait_for(lambda: not psutil.Process(dashboard.process.pid).children(), "the process to end")
            page.get_by_role("button", name="Resume").click()
            with suspended(dashboard):
                expect(page.locator(".state")).to_have_text("new")
                expect(page.get_by_role("button", name="Resume")).to_be_hidden()
            wait_for_start(folder, 2)
            request(folder, STOP_NAME)
            wait_for_end(folder)
            page.get_by_text("Log", exact=True).click()
            expect(page.locator("pre")).to_contain_text("to resume: soulslab train --resume")
            page.close()  # before its server ends
    finally:
        if folder.exists() and is_held(folder / LOCK_NAME):  # the run is no child of this process
            request(folder, STOP_NAME)
            wait_for_end(folder)
    assert not (tmp_path / "outside").exists()


def test_no_run_is_started_beside_a_dashboard_of_one_run(tmp_path, open_page):
    """It would be in the folder of the run, where the dashboard shows no other."""
    write_run(tmp_path / "first", [started()])
    with running_dashboard(tmp_path / "first", tmp_path / "dashboard.log") as dashboard:
        page = open_page(dashboard.at("/"))
        expect(page.get_by_role("link", name="first")).to_be_visible()
        expect(page.get_by_role("button", name="Start a run")).to_have_count(0)
