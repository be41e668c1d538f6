"""The page with all runs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from nicegui import ui

from soulslab.dashboard.pages.frame import (
    REFRESH_S,
    RESPONSE_TIMEOUT_S,
    UNKNOWN,
    Site,
    frame,
    hours,
    no_runs_yet,
    run_path,
    short,
)
from soulslab.dashboard.run_library import STATE_MEANINGS, RunLibrary, RunState, RunSummary
from soulslab.errors import SoulslabError
from soulslab.learn.configs import shipped_configs

_FIRST_CONFIG: Final = "demo.toml"

_COLUMNS: Final[list[dict[Any, Any]]] = [
    {"name": "run", "label": "Run", "field": "run", "align": "left", "sortable": True},
    {"name": "state", "label": "State", "field": "state", "align": "left", "sortable": True},
    {"name": "win", "label": "Win rate", "field": "win", "align": "right", "sortable": True},
    {"name": "curve", "label": "Progress", "field": "curve", "align": "left"},
    {"name": "decisions", "label": "Decisions", "field": "decisions", "align": "right", "sortable": True},
    {"name": "game", "label": "Game time", "field": "game", "align": "right", "sortable": True},
    {"name": "train", "label": "Training", "field": "train", "align": "right", "sortable": True},
    {"name": "speed", "label": "Decisions/s", "field": "speed", "align": "right", "sortable": True},
    {"name": "seen", "label": "Last message", "field": "seen", "align": "right", "sortable": True},
]
_CELLS: Final = {
    "run": '<q-td :props="props" class="name"><a :href="props.row.link">{{ props.row.title }}</a>'
    "<small>{{ props.row.env }}</small></q-td>",
    "state": '<q-td :props="props"><span :class="`state ${props.row.state}`" :title="props.row.meaning">'
    "{{ props.row.state }}</span></q-td>",
    "win": '<q-td :props="props">{{ props.row.win_text }}<small>{{ props.row.interval }}</small></q-td>',
    "curve": '<q-td :props="props"><svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" '
    ':aria-label="props.row.spark_label"><polyline :points="props.row.spark"/></svg></q-td>',
    **{
        name: f'<q-td :props="props">{{{{ props.row.{name}_text }}}}</q-td>'
        for name in ("decisions", "game", "train", "speed")
    },
    "seen": '<q-td :props="props"><time v-if="props.row.seen" :datetime="props.row.seen_iso">'
    "{{ props.row.seen_iso }}</time><span v-else>-</span></q-td>",
}
#: A run as a card, for narrow screens.
_CARD: Final = """
<div class="card-row"><label class="pick"><q-checkbox dense v-model="props.selected" aria-label="Select"/></label>
<a class="card" :href="props.row.link">
  <b>{{ props.row.title }}</b><span :class="`state ${props.row.state}`">{{ props.row.state }}</span>
  <span class="big">{{ props.row.win_text }} <small>{{ props.row.interval }}</small></span>
  <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
    <polyline :points="props.row.spark"/></svg>
  <small>{{ props.row.decisions_text }} decisions · {{ props.row.game_text }} of play · {{ props.row.train_text }} of
  training</small>
</a></div>
"""


def add(site: Site) -> None:
    """Register the page."""

    @ui.page("/", response_timeout=RESPONSE_TIMEOUT_S)
    async def runs_page() -> None:
        tables: list[ui.table] = []
        with frame("Runs", "/"):
            summaries = await asyncio.to_thread(site.library.summaries)
            with ui.element("div").classes("heading"):
                ui.html("<h1>Runs</h1>", sanitize=False)
                counts = ui.label().classes("faint")
                ui.space()
                if not (site.is_read_only or site.library.is_single):
                    ui.button("Start a run", on_click=lambda: _ask_for_run(site.library)).props("outline no-caps")
                ui.button("Compare", on_click=lambda: _compare(tables[0])).props("outline no-caps")
            empty = ui.element("div")
            with empty:
                no_runs_yet(site)
            table = _table()
            tables.append(table)

            def show(found: list[RunSummary]) -> None:
                rows = [_row(each) for each in found]
                if rows != table.rows:
                    table.rows = rows
                table.visible, empty.visible = bool(rows), not rows
                n_running = sum(each.state is RunState.RUNNING for each in found)
                counts.text = f"{len(found)} in {site.library.root}, {n_running} running" if found else ""

            async def refresh() -> None:
                show(await asyncio.to_thread(site.library.summaries))

            show(summaries)
            ui.timer(REFRESH_S, refresh)


def _table() -> ui.table:
    table = ui.table(columns=_COLUMNS, rows=[], row_key="run", selection="multiple", pagination=0)
    table.classes("runs").props('flat dense hide-bottom :grid="window.innerWidth < 1024" aria-label="Runs"')
    for name, cell in _CELLS.items():
        table.add_slot(f"body-cell-{name}", cell)
    table.add_slot("item", _CARD)
    return table


def _compare(table: ui.table) -> None:
    chosen = [row["run"] for row in table.selected]
    if not chosen:
        ui.notify("Select the runs to compare first.")
        return
    ui.navigate.to(f"/compare?{urlencode({'run': chosen}, doseq=True)}")


async def _ask_for_run(library: RunLibrary) -> None:
    """Ask for the name and the config of a new run, and start it."""
    with ui.dialog() as dialog, ui.card():
        ui.label("Start a run").classes("dialog-title")
        ui.label(f"It trains on this machine, in {library.root}, also after the dashboard has ended.")
        name = ui.input("name").props("dense outlined autofocus").classes("wide")
        config = ui.select(shipped_configs(), value=_FIRST_CONFIG, label="config").props("dense outlined")
        config.classes("wide")
        with ui.row():
            ui.button("Start", on_click=lambda: dialog.submit(True)).props("unelevated no-caps")
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat no-caps")
    if not await dialog:
        return
    try:
        await asyncio.to_thread(library.starter.start, library.root, str(name.value), str(config.value))
    except SoulslabError as error:
        ui.notify(str(error), type="negative")
        return
    ui.notify(f"{name.value} starts.")


def _row(summary: RunSummary) -> dict[str, Any]:
    """Return a row of the table: values to sort by, and texts."""
    interval = ""
    if summary.low is not None and summary.high is not None:
        interval = f"{summary.low:.0f} to {summary.high:.0f} %"
    is_running = summary.state is RunState.RUNNING
    seen = summary.last_wall_s
    return {
        "run": summary.run_id,
        "title": summary.run_id,
        "link": run_path(summary.run_id),
        "env": summary.env_id,
        "state": summary.state.value,
        "meaning": STATE_MEANINGS[summary.state],
        "win": summary.win_rate if summary.win_rate is not None else -1.0,
        "win_text": _result(summary),
        "interval": interval,
        "spark": _spark_points(summary.sparkline, is_rate=summary.win_rate is not None),
        "spark_label": "win rate over time" if summary.win_rate is not None else "return over time",
        "decisions": summary.env_steps,
        "decisions_text": short(summary.env_steps),
        "game": summary.game_hours,
        "game_text": hours(summary.game_hours),
        "train": summary.train_hours,
        "train_text": hours(summary.train_hours),
        "speed": summary.steps_per_second if is_running else None,
        "speed_text": short(summary.steps_per_second) if is_running else UNKNOWN,
        "seen": seen,
        "seen_iso": datetime.fromtimestamp(seen, UTC).isoformat(timespec="seconds") if seen is not None else "",
    }


def _result(summary: RunSummary) -> str:
    if summary.win_rate is not None:
        return f"{summary.win_rate:.1f} %"
    return f"return {summary.mean_return:.3g}" if summary.mean_return is not None else UNKNOWN


def _spark_points(values: tuple[float, ...], *, is_rate: bool) -> str:
    """Return the points of a line in a box of 100 x 24."""
    if len(values) < 2:
        return ""
    low, high = (0.0, 100.0) if is_rate else (min(values), max(values))
    height = max(high - low, 1e-9)
    step = 100.0 / (len(values) - 1)
    return " ".join(f"{i * step:.1f},{22.0 - 20.0 * (value - low) / height:.1f}" for i, value in enumerate(values))
