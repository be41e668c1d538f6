"""Take the pictures of the dashboard in the documentation: ``docs/images/dashboard_*.png``.

::

    soulslab demo --run-dir runs/demo --set run.evaluate_every=1_000_000
    soulslab train --config rainbow.toml --run-dir runs/rainbow          # stop it when it has learned something
    soulslab tune --study runs/study --config demo.toml --search learner.lr=1e-4..1e-2:log
    soulslab evaluate runs/demo --fights 12 --greedy --record runs/judged
    soulslab evaluate runs/rainbow --fights 12 --greedy --record runs/valued
    soulslab fleet learn --run-dir runs/fleet                            # and soulslab fleet play beside it
    soulslab play --policy runs/rainbow --dashboard                      # prints the second link
    soulslab dashboard runs                                              # prints the first link
    python scripts/dashboard_pictures.py LINK PLAY_LINK [NAME ...]

Names select pictures; without names all are taken. The browser is Debian's Chromium.
"""

from __future__ import annotations

import io
import shutil
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
    "compare": "/compare?run=demo&run=rainbow&axis=training time",
    "fleet": "/fleet/fleet",
    "fights": "/fights/demo",
    "replay": "/replay/judged?fight=1&policy=demo",
    "rainbow": "/replay/valued?fight=1&policy=rainbow",
    "study": "/study/study",
}
FIRST_SCREEN: Final = ("run", "compare", "fights")
"""Pictures of long pages that show their first screen alone."""

LIVE: Final[dict[str, dict[str, Any]]] = {
    "live": {},
    "live_dark": {"color_scheme": "dark"},
    "live_phone": {"viewport": {"width": 400, "height": 800}},
}
_SETTLE_MS: Final = 12_000
"""Time in which a page draws, and a fight is watched (ms)."""

_FIGHT_MS: Final = 180_000
"""Longest time until a page shows a fight (ms)."""

_CHOICE: Final = """() => {
  const moment = soulslabLive.moments[soulslabLive.head];
  return moment.decision > 100 && moment.mask.filter(Boolean).length > 10;
}"""


def main(link: str, play_link: str, *names: str) -> None:
    """Take pictures, and check that no page is wider than its window."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium-headless-shell")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        base = link.partition("/?")[0]
        for name, path in PAGES.items():
            if not names or name in names:
                _take(browser, [link, base + path], name)
        for name, options in LIVE.items():
            if not names or name in names:
                _take(browser, [play_link], name, **options)
        browser.close()


def _take(browser: Browser, addresses: Sequence[str], name: str, **options: Any) -> None:
    """Open addresses in turn, and take a picture of the last page; the first address has the token."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    page = context.new_page()
    for address in addresses:
        page.goto(address)
    if page.locator("[data-recorded=false]").count():
        page.wait_for_function("window.soulslabLive?.moments.length > 60", timeout=_FIGHT_MS)
    if page.locator("[data-recorded=true]").count():  # pause in the middle of the fight, so that all diagrams show it
        page.wait_for_function("window.soulslabLive?.endings.size === 1", timeout=_FIGHT_MS)
        page.locator("#position").fill(str(page.evaluate("Math.round(0.55 * soulslabLive.moments.length)")))
    if page.locator("table.games").count():
        page.wait_for_selector(".game img", timeout=_FIGHT_MS)
    if name == "fights":
        page.get_by_role("button", name="lost").click()
    page.wait_for_timeout(_SETTLE_MS)
    if name in LIVE:  # pause at a choice in the middle of a fight
        page.wait_for_function(_CHOICE, timeout=_FIGHT_MS)
        page.keyboard.press("Space")
        page.wait_for_selector("#live:not(.on)")
    page.evaluate("document.activeElement?.blur()")
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        raise SystemExit(f"{name} is wider than its window")
    picture = Image.open(io.BytesIO(page.screenshot(full_page=name not in FIRST_SCREEN)))
    picture.quantize(256).save(IMAGES / f"dashboard_{name}.png", optimize=True)
    context.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
