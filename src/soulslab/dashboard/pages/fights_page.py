"""The pages of recorded fights: all sets of them, the fights of one, and the replay of a fight."""

from __future__ import annotations

import asyncio
import math
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from nicegui import ui

from soulslab.config.shell_words import shell_word
from soulslab.dashboard.pages.frame import RESPONSE_TIMEOUT_S, UNKNOWN, Site, empty_state, frame, run_path, tiles
from soulslab.dashboard.pages.live_page import add_live_view
from soulslab.dashboard.recorded_fights import (
    FightSet,
    RecordedFight,
    describe_fight_set,
    find_fight_sets,
    read_fight_set,
)
from soulslab.errors import SoulslabError
from soulslab.learn.run_folder import POLICY_NAME

_TEXT: Final = f"value => value || '{UNKNOWN}'"
_COUNT: Final = f"value => value === null ? '{UNKNOWN}' : value.toLocaleString('en')"
_COLUMNS: Final[list[dict[Any, Any]]] = [
    {"name": name, "label": label, "field": name, "align": align, "sortable": True, ":format": text}
    for name, label, align, text in (
        ("number", "Fight", "left", _COUNT),
        ("result", "Result", "left", _TEXT),
        ("killed_by", "Ended by", "left", _TEXT),
        ("steps", "Steps", "right", _COUNT),
        ("total", "Return", "right", f"value => value === null ? '{UNKNOWN}' : value.toFixed(2)"),
        ("seed", "Seed", "right", f"value => value ?? '{UNKNOWN}'"),
    )
]
_LINK_CELL: Final = '<q-td :props="props"><a :href="props.row.link">Fight {{ props.row.number }}</a></q-td>'
_EVALUATED_AT: Final = {
    **_COLUMNS[-1],
    "name": "env_steps",
    "label": "After decisions",
    "field": "env_steps",
    ":format": _COUNT,
}
"""Game decisions of the training before an evaluation."""

_MAX_ROWS: Final = 1000
"""Largest number of fights in the table; each is sent to the browser."""

_RESULTS: Final = {True: "won", False: "lost", None: UNKNOWN}
_NO_POLICY: Final = "no policy"


def add(site: Site) -> None:
    """Register the pages."""

    @ui.page("/fights", response_timeout=RESPONSE_TIMEOUT_S)
    async def fights_page() -> None:
        with frame("Fights", "/fights"):
            ui.html("<h1>Recorded fights</h1>", sanitize=False)
            found = await asyncio.to_thread(find_fight_sets, site.library)
            if not found:
                command = f"soulslab fights record {shell_word(site.library.root / 'fights')} --fights 20"
                text = f"{site.library.root} has no data set and no run with evaluations. Record fights:"
                empty_state("No recorded fights yet", text, command)
            rows = await asyncio.to_thread(lambda: [_set_row(name, folder) for name, folder in found.items()])
            if rows:
                ui.html(_sets_html(rows), sanitize=False).classes("wide scroll")

    @ui.page("/fights/{name:path}", response_timeout=RESPONSE_TIMEOUT_S)
    async def fight_set_page(name: str) -> None:
        with frame(f"Fights: {name}", "/fights"):
            found = await _find(site, name)
            if found is None:
                return
            with ui.element("div").classes("heading"):
                ui.html(f"<h1>{escape(name)}</h1>", sanitize=False)
                ui.space()
                if found.data is None:
                    ui.link("Charts of this run", run_path(name)).classes("link-button")
            known = [fight.is_won for fight in found.fights if fight.is_won is not None]
            values = [("Environment", escape(found.env_id)), ("Player", escape(found.player))]
            values += [
                ("Fights", f"{len(found.fights):,}"),
                ("Won", f"{sum(known):,} <small>of {len(known):,}</small>"),
            ]
            ui.html(tiles(values), sanitize=False).classes("wide")
            _fights_table(name, found)

    @ui.page("/replay/{name:path}", response_timeout=RESPONSE_TIMEOUT_S)
    async def replay_page(name: str, fight: int = 0, policy: str = "") -> None:
        with frame(f"Fight {fight} of {name}", "/fights"):
            found = await _find(site, name)
            if found is None:
                return
            with ui.element("div").classes("heading"):
                ui.html(f"<h1>{escape(name)}, fight {fight}</h1>", sanitize=False)
                ui.html('<span id="live-state" class="state finished">recorded</span>', sanitize=False)
                ui.space()
                ui.link("All fights", f"/fights/{quote(name)}").classes("link-button")
                if 0 <= fight < len(found.fights) and found.is_repeatable(found.fights[fight]):
                    file = f"{name.replace('/', '_')}_{fight}.mp4"
                    link = f"/video/{quote(name)}?{urlencode({'fight': fight})}"
                    button = f'<a class="link-button" href="{escape(link)}" download="{escape(file)}">Save as video</a>'
                    ui.html(button, sanitize=False)
                _policy_choice(site, name, fight, policy)
            query = urlencode({"fight": fight, "policy": policy})
            add_live_view(f"/replayed/{quote(name)}?{query}")


async def _find(site: Site, name: str) -> FightSet | None:
    """Return recorded fights by their name; if they do not exist or cannot be read, say so and return None."""
    folder = (await asyncio.to_thread(find_fight_sets, site.library)).get(name)
    if folder is None:
        empty_state("No such recorded fights", f"{site.library.root} has no recorded fights {name}.")
        return None
    try:
        return await asyncio.to_thread(read_fight_set, folder)
    except SoulslabError as error:
        empty_state("These fights cannot be read", str(error))
        return None


def _set_row(name: str, folder: Path) -> tuple[str, str, str, str]:
    """Return name, environment, player and number of recorded fights; what cannot be read is unknown."""
    try:
        env_id, player, n_fights = describe_fight_set(folder)
    except SoulslabError:
        return name, UNKNOWN, UNKNOWN, UNKNOWN
    return name, env_id, player or UNKNOWN, f"{n_fights:,}"


def _sets_html(rows: list[tuple[str, str, str, str]]) -> str:
    head = "".join(f"<th>{each}</th>" for each in ("recorded fights", "environment", "player", "fights"))
    lines = []
    for name, *others in rows:
        link = f'<a href="/fights/{quote(name)}">{escape(name)}</a>'
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in (link, *map(escape, others))) + "</tr>")
    return f'<table class="plain trials"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _fights_table(name: str, found: FightSet) -> None:
    """Show the fights, the newest evaluation of a run first, with a choice of results and attacks."""
    fights = found.fights if found.data is not None else tuple(reversed(found.fights))
    killers = sorted({fight.killed_by for fight in fights} - {""})
    columns = _COLUMNS if found.data is not None else [*_COLUMNS, _EVALUATED_AT]
    with ui.element("div").classes("choices"):
        result = ui.toggle({"": "all", "won": "won", "lost": "lost"}, value="").props("no-caps unelevated dense")
        killer = ui.select(
            {"": "any", **{each: each.replace("_", " ") for each in killers}}, value="", label="ended by"
        )
        killer.classes("axis").props("dense outlined options-dense")
    note = ui.label().classes("faint")
    table = ui.table(columns=columns, rows=[], row_key="number", pagination=50).classes("runs fights")
    table.props('flat dense aria-label="Fights"').add_slot("body-cell-number", _LINK_CELL)

    def show() -> None:
        chosen = [
            fight
            for fight in fights
            if result.value in ("", _RESULTS[fight.is_won]) and killer.value in ("", fight.killed_by)
        ]
        table.rows = [_fight_row(name, fight) for fight in chosen[:_MAX_ROWS]]
        note.text = f"The first {_MAX_ROWS:,} of {len(chosen):,} fights." if len(chosen) > _MAX_ROWS else ""
        note.visible = bool(note.text)

    show()
    result.on_value_change(show)
    killer.on_value_change(show)


def _fight_row(name: str, fight: RecordedFight) -> dict[str, Any]:
    return {
        "number": fight.number,
        "result": _RESULTS[fight.is_won],
        "killed_by": fight.killed_by.replace("_", " "),
        "steps": fight.n_steps,
        # JSON cannot hold an infinite number.
        "total": fight.total_return if fight.total_return is not None and math.isfinite(fight.total_return) else None,
        "seed": fight.seed,
        "env_steps": fight.env_steps,
        "link": f"/replay/{quote(name)}?{urlencode({'fight': fight.number})}",
    }


def _policy_choice(site: Site, name: str, fight: int, policy: str) -> None:
    """Offer the policies of all runs, which are asked what they would compute."""
    found = [each for each in site.library.run_ids() if (site.library.path(each) / POLICY_NAME).exists()]
    options = {"": _NO_POLICY, **{each: each for each in found}}

    def change(chosen: str) -> None:
        ui.navigate.to(f"/replay/{quote(name)}?{urlencode({'fight': fight, 'policy': chosen})}")

    select = ui.select(options, value=policy if policy in options else "", label="policy to ask")
    select.on_value_change(lambda event: change(event.value))
    select.classes("axis").props("dense outlined options-dense")
