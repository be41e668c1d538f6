"""The frame of every page: header, navigation, theme, and small parts that several pages have."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final
from urllib.parse import quote

from nicegui import context, ui

from soulslab.config.shell_words import shell_word
from soulslab.dashboard.charts import DARK, LIGHT, Theme
from soulslab.dashboard.live_relay import LiveRelays
from soulslab.dashboard.run_library import STATE_MEANINGS, RunLibrary, RunState
from soulslab.version import VERSION

UNKNOWN: Final = "\N{EN DASH}"
"""Text for a number that is not known."""

REFRESH_S: Final = 2.0
"""Time between two updates of a page (s)."""

RESPONSE_TIMEOUT_S: Final = 30.0
"""Time in which a page is made (s); NiceGUI's default of 3 s is too short on a busy machine."""

_PAGES: Final = (
    ("Runs", "/"),
    ("Compare", "/compare"),
    ("Fleet", "/fleet"),
    ("Fights", "/fights"),
    ("Studies", "/studies"),
)
_HEAD: Final = f"""
<script>
(() => {{  // before the page is drawn, so that it does not flash in the other theme
  const found = document.cookie.match(/soulslab_theme=(light|dark)/);
  if (found) return;
  const theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  document.cookie = `soulslab_theme=${{theme}}; path=/; max-age=31536000; samesite=strict`;
  if (theme === 'dark' && document.cookie.includes('soulslab_theme=dark')) location.reload();
}})();
</script>
<link rel="stylesheet" href="/assets/dashboard.css?{VERSION}">
<script src="/assets/dashboard.js?{VERSION}" defer></script>
"""


@dataclass(frozen=True)
class Site:
    """The parts of the server that all pages share."""

    library: RunLibrary
    relays: LiveRelays
    is_read_only: bool


def theme() -> Theme:
    """Return the theme of the present page, which the browser chose."""
    return DARK if _is_dark() else LIGHT


def _is_dark() -> bool:
    request = context.client.request
    return request is not None and request.cookies.get("soulslab_theme") == "dark"


@contextmanager
def frame(title: str, path: str) -> Iterator[None]:
    """Build the header of a page; the content is added in the context. ``path`` is that of its entry in the menu."""
    ui.page_title(f"{title} · soulslab")
    ui.add_head_html(_HEAD)
    ui.dark_mode(value=_is_dark())
    ui.query("body").classes("soulslab")
    ui.html('<a class="skip" href="#content">Skip to the content</a>', sanitize=False)
    with ui.element("header").classes("top"), ui.element("div").classes("top-inner"):
        with ui.link(target="/").classes("brand"):
            ui.html('<img src="/assets/favicon.svg" alt="" width="22" height="22">', sanitize=False)
            ui.label("soulslab").classes("brand-name")
        with ui.element("nav").props('aria-label="Pages"'):
            for name, target in _PAGES:
                link = ui.link(name, target)
                if target == path:
                    link.props('aria-current="page"')
        ui.html(
            '<button class="theme" data-theme-switch aria-label="Switch between light and dark">◐</button>',
            sanitize=False,
        )
    with ui.element("div").classes("content").props('id="content"'):
        yield


def state_html(state: RunState) -> str:
    """Return the badge of a state: a shape and a word, so that it can be read without colours."""
    return f'<span class="state {state}" title="{escape(STATE_MEANINGS[state])}">{state}</span>'


def time_html(wall_s: float | None) -> str:
    """Return a time that the browser shows in its zone, and relative to now."""
    if wall_s is None:
        return UNKNOWN
    stamp = datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="seconds")
    return f'<time datetime="{stamp}">{stamp}</time>'


def tiles(values: Sequence[tuple[str, str]]) -> str:
    """Return a row of named values as HTML; the values are HTML, the names are text."""
    parts = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in values)
    return f'<dl class="tiles">{parts}</dl>'


def empty_state(title: str, text: str, command: str = "") -> None:
    """Show that a page has no content yet, and how to get some."""
    with ui.element("section").classes("empty"):
        ui.html(f"<h2>{escape(title)}</h2>", sanitize=False)
        ui.label(text)
        if command:
            ui.html(f"<pre>{escape(command)}</pre>", sanitize=False)


def no_runs_yet(site: Site) -> None:
    """Show that the folder has no runs, and how to start one."""
    empty_state(
        "No runs yet",
        f"{site.library.root} has no runs. Start one, and it appears here:",
        f"soulslab train --config demo.toml --run-dir {shell_word(site.library.root / 'first')}",
    )


def reload_when(exists: Callable[[], bool]) -> None:
    """Load the page again once what it shows exists: a command prints the link to its run before it has a folder.

    ``exists`` is called in a thread.
    """

    async def check() -> None:
        if await asyncio.to_thread(exists):
            ui.navigate.reload()

    ui.timer(REFRESH_S, check)


def run_path(run_id: str, page: str = "run") -> str:
    """Return the path of a page of a run."""
    return f"/{page}/{quote(run_id)}"


def short(value: float | None, n_digits: int = 3) -> str:
    """Return a number for people: 12.3 k, 4.56 M; a dash if it is unknown."""
    if value is None:
        return UNKNOWN
    if not math.isfinite(value):
        return str(value)
    # The suffix is that of the rounded number: 999,700 is 1 M.
    size = abs(float(f"{value:.{n_digits}g}"))
    for limit, unit, suffix in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if size >= limit:
            return f"{value / unit:.{n_digits}g}{suffix}"
    return f"{value:,.0f}" if size >= 1000.0 or float(value).is_integer() else f"{value:.{n_digits}g}"


def hours(value: float) -> str:
    """Return a duration in hours for people: 34 s, 12 min, 4.5 h."""
    if value < 1.0 / 60.0:
        return f"{3600.0 * value:.0f} s"
    return f"{60.0 * value:.0f} min" if value < 1.0 else f"{value:.1f} h"


def percent(rate: float | None, low: float | None = None, high: float | None = None) -> str:
    """Return a share in % with its interval, as HTML; a dash if it is unknown."""
    if rate is None:
        return UNKNOWN
    interval = f" <small>{low:.0f} to {high:.0f} %</small>" if low is not None and high is not None else ""
    return f"{rate:.1f} %{interval}"
