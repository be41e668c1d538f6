"""One Chromium for all tests."""

import pytest
from playwright.sync_api import expect, sync_playwright

from support.browser import running_dashboard

#: What Chromium reports when the server has gone.
DISCONNECTED = ("ERR_CONNECTION_REFUSED", "WebSocket connection")

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def chromium():
    """Debian's Chromium."""
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Opens pages in a new context each; no page may have an error in its console.

    A page whose server is restarted (``may_disconnect``) may report that.
    """
    contexts, errors = [], []

    def open_page(url, *, width=1280, theme="light", may_disconnect=False):
        def note(text):
            if not (may_disconnect and any(each in text for each in DISCONNECTED)):
                errors.append(text)

        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: note(message.text) if message.type == "error" else None)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A folder for studies and recorded fights, and its dashboard."""
    root = tmp_path_factory.mktemp("shelf") / "runs"
    root.mkdir()
    with running_dashboard(root, root.parent / "dashboard.log") as dashboard:
        yield root, dashboard
