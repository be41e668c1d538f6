"""The pages of recorded fights: all data sets, the fights of one, and the replay of a fight."""

from __future__ import annotations

import asyncio
import math
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from nicegui import ui

from soulslab.dashboard.pages.frame import RESPONSE_TIMEOUT_S, UNKNOWN, Site, empty_state, frame, tiles
from soulslab.dashboard.pages.live_page import add_live_view
from soulslab.dashboard.recorded_fights import RecordedFight, find_data_sets, is_repeatable, list_fights
from soulslab.errors import SoulslabError
from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.run_folder import POLICY_NAME

_COLUMNS: Final[list[dict[Any, Any]]] = [
    {"name": name, "label": label, "field": name, "align": align, "sortable": True}
    for name, label, align in (
        ("number", "Fight", "left"),
        ("result", "Result", "left"),
        ("killed_by", "Ended by", "left"),
        ("steps", "Steps", "right"),
        ("total", "Return", "right"),
        ("seed", "Seed", "right"),
    )
]
_LINK_CELL: Final = '<q-td :props="props"><a :href="props.row.link">Fight {{ props.row.number }}</a></q-td>'
_RESULTS: Final = {True: "won", False: "lost", None: UNKNOWN}
_NO_POLICY: Final = "no policy"


def add(site: Site) -> None:
    """Register the pages."""

    @ui.page("/fights", response_timeout=RESPONSE_TIMEOUT_S)
    async def fights_page() -> None:
        with frame("Fights", "/fights"):
            ui.html("<h1>Recorded fights</h1>", sanitize=False)
            found = await asyncio.to_thread(find_data_sets, site.library.root)
            if not found:
                command = f"soulslab fights record {site.library.root / 'fights'} --fights 20"
                empty_state("No recorded fights yet", f"{site.library.root} has no data set. Record one:", command)
            rows = await asyncio.to_thread(lambda: [_data_set_row(name, folder) for name, folder in found.items()])
            if rows:
                ui.html(_data_sets_html(rows), sanitize=False).classes("wide scroll")

    @ui.page("/fights/{name:path}", response_timeout=RESPONSE_TIMEOUT_S)
    async def data_set_page(name: str) -> None:
        with frame(f"Fights: {name}", "/fights"):
            ui.html(f"<h1>{escape(name)}</h1>", sanitize=False)
            folder = (await asyncio.to_thread(find_data_sets, site.library.root)).get(name)
            if folder is None:
                empty_state("No such data set", f"{site.library.root} has no data set {name}.")
                return
            try:
                description, fights = await asyncio.to_thread(list_fights, folder)
            except SoulslabError as error:
                empty_state("This data set cannot be read", str(error))
                return
            known = [fight.is_won for fight in fights if fight.is_won is not None]
            values = [("Environment", escape(description.env_id)), ("Player", escape(description.player))]
            values += [("Fights", str(len(fights))), ("Won", f"{sum(known)} <small>of {len(known)}</small>")]
            ui.html(tiles(values), sanitize=False).classes("wide")
            _fights_table(name, fights)

    @ui.page("/replay/{name:path}", response_timeout=RESPONSE_TIMEOUT_S)
    async def replay_page(name: str, fight: int = 0, policy: str = "") -> None:
        with frame(f"Fight {fight} of {name}", "/fights"):
            folder = (await asyncio.to_thread(find_data_sets, site.library.root)).get(name)
            if folder is None:
                empty_state("No such data set", f"{site.library.root} has no data set {name}.")
                return
            has_video = await asyncio.to_thread(_has_video, folder, fight)
            with ui.element("div").classes("heading"):
                ui.html(f"<h1>{escape(name)}, fight {fight}</h1>", sanitize=False)
                ui.html('<span id="live-state" class="state finished">recorded</span>', sanitize=False)
                ui.space()
                file = f"{name.replace('/', '_')}_{fight}.mp4"
                link = f"/video/{quote(name)}?{urlencode({'fight': fight})}"
                if has_video:
                    button = f'<a class="link-button" href="{escape(link)}" download="{escape(file)}">Save as video</a>'
                    ui.html(button, sanitize=False)
                _policy_choice(site, name, fight, policy)
            query = urlencode({"fight": fight, "policy": policy})
            add_live_view(f"/replayed/{quote(name)}?{query}", is_recorded=True)


def _data_set_row(name: str, folder: Path) -> tuple[str, str, str, str]:
    """Return name, environment, player and number of fights of a data set; what cannot be read is unknown."""
    try:
        description = describe(folder)
    except SoulslabError:
        return name, UNKNOWN, UNKNOWN, UNKNOWN
    return name, description.env_id, description.player or UNKNOWN, str(description.n_episodes)


def _data_sets_html(rows: list[tuple[str, str, str, str]]) -> str:
    head = "".join(f"<th>{each}</th>" for each in ("data set", "environment", "player", "fights"))
    lines = []
    for name, *others in rows:
        link = f'<a href="/fights/{quote(name)}">{escape(name)}</a>'
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in (link, *map(escape, others))) + "</tr>")
    return f'<table class="plain trials"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _has_video(folder: Path, number: int) -> bool:
    """Return whether a fight can be saved as a video."""
    try:
        description, fights = list_fights(folder)
    except SoulslabError:
        return False
    return 0 <= number < len(fights) and is_repeatable(description, fights[number])


def _rounded(value: float | None) -> float | None:
    """Return a number with three digits; None if it is unknown or infinite, which JSON cannot hold."""
    return float(f"{value:.3g}") if value is not None and math.isfinite(value) else None


def _fights_table(name: str, fights: list[RecordedFight]) -> None:
    """Show the fights, and a choice of results."""
    rows = [
        {
            "number": fight.number,
            "result": _RESULTS[fight.is_won],
            "killed_by": fight.killed_by.replace("_", " "),
            "steps": fight.n_steps,
            "total": _rounded(fight.total_return),
            "seed": fight.seed,
            "link": f"/replay/{quote(name)}?{urlencode({'fight': fight.number})}",
        }
        for fight in fights
    ]
    choice = ui.toggle({"": "all", "won": "won", "lost": "lost"}, value="").props("no-caps unelevated dense")
    table = ui.table(columns=_COLUMNS, rows=rows, row_key="number", pagination=50).classes("runs")
    table.props('flat dense aria-label="Fights"').add_slot("body-cell-number", _LINK_CELL)

    def show() -> None:
        table.rows = [row for row in rows if choice.value in ("", row["result"])]

    choice.on_value_change(show)


def _policy_choice(site: Site, name: str, fight: int, policy: str) -> None:
    """Offer the policies of all runs, which are asked what they would compute."""
    found = [each for each in site.library.run_ids() if (site.library.path(each) / POLICY_NAME).exists()]
    options = {"": _NO_POLICY, **{each: each for each in found}}

    def change(chosen: str) -> None:
        ui.navigate.to(f"/replay/{quote(name)}?{urlencode({'fight': fight, 'policy': chosen})}")

    select = ui.select(options, value=policy if policy in options else "", label="policy to ask")
    select.on_value_change(lambda event: change(event.value))
    select.classes("axis").props("dense outlined options-dense")
