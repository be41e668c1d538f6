"""The page that shows a fight, and what the policy computes, as it happens."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from nicegui import ui

from soulslab.config.shell_words import shell_word
from soulslab.dashboard.live_relay import feed_path
from soulslab.dashboard.pages.frame import RESPONSE_TIMEOUT_S, Site, empty_state, frame, reload_when, run_path
from soulslab.dashboard.scene_view import N_HIDDEN
from soulslab.learn.run_folder import POLICY_NAME
from soulslab.learn.sinks import PROGRESS_NAME
from soulslab.version import VERSION

#: The elements that the scripts fill.
_PAGE: Final = Path(__file__).parents[1] / "static" / "live.html"
_SCRIPTS: Final = ("live_diagrams.js", "live.js")


def add(site: Site) -> None:
    """Register the page."""

    @ui.page("/live/{run_id:path}", response_timeout=RESPONSE_TIMEOUT_S)
    async def live_page(run_id: str, game: str = "") -> None:
        title = f"{run_id}, {game}" if game else run_id
        with frame(f"Live: {title}", "/fleet" if game else "/"):
            folder = site.library.folder(run_id)
            if folder is None:
                text = f"{site.library.root} has no run {run_id}. If it starts now, it appears here."
                empty_state("No such run", text)
                ui.link("All runs", "/")
                reload_when(lambda: site.library.folder(run_id) is not None)
                return
            if feed_path(folder, game) is None:
                text = "The live page shows the games that play on the machine of the dashboard."
                empty_state(f"No game {game} on this machine", text)
                ui.link("All games", run_path(run_id, "fleet"))
                return
            with ui.element("div").classes("heading"):
                ui.html(f"<h1>{escape(title)}</h1>", sanitize=False)
                ui.html('<span id="live-state" class="state new">connecting</span>', sanitize=False)
                ui.space()
                if game:
                    ui.link("All games", run_path(run_id, "fleet")).classes("link-button")
                if (folder / PROGRESS_NAME).exists():
                    ui.link("Charts of this run", run_path(run_id)).classes("link-button")
                elif not game:  # a game without a run, of soulslab play or of a fleet on another machine
                    ui.link("All games", "/").classes("link-button")
            idle = "No fight is shown now. It appears when a game plays."
            if (folder / POLICY_NAME).exists() and not game:
                idle = (
                    "No fight is shown now. It appears when the run trains. To watch its policy: "
                    f"soulslab play --policy {shell_word(folder)} --dashboard"
                )
            add_live_view(f"/feed/{quote(run_id)}?{urlencode({'game': game})}", idle)


def add_live_view(socket: str, idle: str = "") -> None:
    """Add the view of a fight, whose decisions come from a websocket.

    ``idle`` is the text while no fight is shown; without it the fight is a recorded one, which starts at its beginning.
    """
    recorded = "false" if idle else "true"
    fields = {"socket": escape(socket), "recorded": recorded, "idle": escape(idle), "n_hidden": N_HIDDEN}
    page = _PAGE.read_text("utf-8").format(**fields)
    ui.html(page, sanitize=False).classes("wide")
    for script in _SCRIPTS:
        ui.add_body_html(f'<script src="/assets/{script}?{VERSION}" defer></script>')
