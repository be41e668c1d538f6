"""One Chromium for all tests."""

import shutil

import pytest
from playwright.sync_api import Error, expect, sync_playwright

from support.browser import running_dashboard
from support.waiting import PATIENCE_S

#: What Chromium reports when the server has gone.
DISCONNECTED = ("ERR_CONNECTION_REFUSED", "WebSocket connection", "WebSocket is already in CLOSING")
#: Chromium aborts all loads when the machine gets or loses an address, as by a container that starts.
NETWORK_CHANGED = "ERR_NETWORK_CHANGED"

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def contexts():
    """Returns a browser context of Debian's Chromium for a width.

    Pages of all tests share them, because a new context compiles a megabyte of scripts again. The cookie of a dashboard
    has the name of its port.
    """
    expect.set_options(timeout=1000 * PATIENCE_S)
    made = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium-headless-shell"), args=FLAGS)

        def context(width):
            if width not in made:
                made[width] = browser.new_context(
                    viewport={"width": width, "height": 800},
                    color_scheme="light",
                    timezone_id="Asia/Tokyo",
                    reduced_motion="reduce",
                    ignore_https_errors=True,  # the certificates of tests have an authority of their own
                )
            return made[width]

        yield context
        browser.close()


@pytest.fixture
def open_page(contexts):
    """Opens pages; no page may have an error in its console.

    A page whose server is restarted (``may_disconnect``) may report that. A page is loaded again if the network of the
    machine has changed meanwhile.
    """
    pages, errors = [], []

    def open_page(url, *, width=1280, may_disconnect=False):
        def note(text):
            if NETWORK_CHANGED in text:
                aborted.append(text)
            elif not (may_disconnect and any(each in text for each in DISCONNECTED)):
                errors.append(text)

        aborted = []
        page = contexts(width).new_page()
        pages.append(page)
        page.set_default_timeout(1000 * PATIENCE_S)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: note(message.text) if message.type == "error" else None)
        n_before = len(errors)
        while True:
            try:
                page.goto(url)
            except Error as error:
                if NETWORK_CHANGED not in error.message:
                    raise
                aborted.append(error.message)
            if not aborted:
                return page
            # Scripts fail without those that were not loaded.
            aborted.clear()
            del errors[n_before:]

    yield open_page
    for page in pages:
        page.close()
    assert errors == []


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A folder for studies and recorded fights, and its dashboard."""
    root = tmp_path_factory.mktemp("shelf") / "runs"
    root.mkdir()
    with running_dashboard(root, root.parent / "dashboard.log") as dashboard:
        yield root, dashboard
