"""Take the pictures of the dashboard in the documentation: ``docs/images/dashboard_*.png``.

::

    soulslab demo --run-dir runs/demo
    soulslab train --config rainbow.toml --run-dir runs/rainbow          # stop it when it has learned something
    soulslab tune --study runs/study --config demo.toml --search learner.lr=1e-4..1e-2:log
    soulslab evaluate runs/demo --fights 12 --greedy --record runs/judged
    soulslab fleet learn --run-dir runs/fleet                            # and soulslab fleet play beside it
    soulslab play --policy runs/rainbow --dashboard                      # prints the second link
    soulslab dashboard runs                                              # prints the first link
    python scripts/dashboard_pictures.py LINK PLAY_LINK

Pages of runs that do not exist are left out. The browser is Debian's Chromium.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
PAGES: Final = {
    "runs": "/",
    "run": "/run/demo",
    "compare": "/compare?run=demo&run=rainbow",
    "fleet": "/fleet/fleet",
    "replay": "/replay/judged?fight=1&policy=demo",
    "study": "/study/study",
}
_SETTLE_MS: Final = 12_000
"""Time in which a page draws, and a fight is watched (ms)."""


def main(link: str, play_link: str) -> None:
    """Take all pictures, and check that no page is wider than its window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        base = link.partition("/?")[0]
        for name, path in PAGES.items():
            _take(browser, [link, base + path], name)
        _take(browser, [play_link], "live")
        _take(browser, [play_link], "live_dark", color_scheme="dark")
        _take(browser, [play_link], "live_phone", viewport={"width": 400, "height": 800})
        browser.close()


def _take(browser: Browser, addresses: Sequence[str], name: str, **options: Any) -> None:
    """Open addresses in turn, and take a picture of the last page; the first address has the token."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    page = context.new_page()
    for address in addresses:
        page.goto(address)
    page.wait_for_timeout(_SETTLE_MS)
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        raise SystemExit(f"{name} is wider than its window")
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    picture.quantize(256).save(IMAGES / f"dashboard_{name}.png", optimize=True)
    context.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
