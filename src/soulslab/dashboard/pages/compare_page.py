"""The page that compares runs: one chart with a line for each run, and the settings in which they differ."""

from __future__ import annotations

import asyncio
from html import escape
from typing import Any, Final

from fastapi import Query
from nicegui import ui

from soulslab.dashboard.charts import AXIS_TITLES, Line, chart_options
from soulslab.dashboard.pages.frame import (
    REFRESH_S,
    RESPONSE_TIMEOUT_S,
    UNKNOWN,
    Site,
    empty_state,
    frame,
    no_runs_yet,
    theme,
)
from soulslab.dashboard.pages.run_charts import CHARTS, WIN_RATE, ChartSpec, run_lines
from soulslab.dashboard.run_log import AXES

_SPECS: Final = {spec.title: spec for spec in CHARTS if not spec.prefix}
_NO_RUNS: Final[list[str]] = []


def add(site: Site) -> None:
    """Register the page."""

    @ui.page("/compare", response_timeout=RESPONSE_TIMEOUT_S)
    async def compare_page(
        run: list[str] = Query(_NO_RUNS),  # noqa: B008  (FastAPI's notation)
        axis: str = AXES[0],
    ) -> None:
        known = site.library.run_ids()
        with frame("Compare", "/compare"):
            ui.html("<h1>Compare runs</h1>", sanitize=False)
            if not known:
                no_runs_yet(site)
                return
            chosen = [each for each in run if each in known]
            view = _CompareView(site, known, chosen, axis if axis in AXES else AXES[0])
            await view.refresh()
            ui.timer(REFRESH_S, view.refresh)


class _CompareView:
    """The choices and the chart of the page."""

    def __init__(self, site: Site, known: list[str], chosen: list[str], axis: str) -> None:
        self._site = site
        self._theme = theme()
        self._seen: tuple[Any, ...] = ()
        with ui.element("div").classes("choices"):
            titles = {run_id: run_id for run_id in known}
            self._runs = ui.select(titles, value=chosen, multiple=True, label="runs", on_change=self.refresh)
            self._runs.classes("runs-choice").props("dense outlined use-chips options-dense")
            self._what = ui.select(list(_SPECS), value=WIN_RATE.title, label="measurement", on_change=self.refresh)
            self._axis = ui.select(
                {name: AXIS_TITLES[name] for name in AXES},
                value=axis,
                label="horizontal axis",
                on_change=self.refresh,
            )
            for each in (self._what, self._axis):
                each.classes("axis").props("dense outlined options-dense")
        self._chart = ui.echart({}).classes("chart compare").props('data-chart="compare"')
        self._hint = ui.element("div")
        with self._hint:
            empty_state("Nothing to compare", "Choose two or more runs above that have this measurement.")
        self._table = ui.html("", sanitize=False).classes("wide")

    async def refresh(self) -> None:
        """Update the chart if the choice or a run changed."""
        chosen, spec, axis = list(self._runs.value), _SPECS[self._what.value], str(self._axis.value)
        read = await asyncio.to_thread(self._read, chosen, spec, axis)
        seen = (*chosen, spec.title, axis, *(last_wall_s for last_wall_s, _ in read))
        if seen == self._seen:
            return
        self._seen = seen
        lines = [line for _, lines in read for line in lines]
        self._chart.visible, self._hint.visible = bool(lines), not lines
        self._chart.options.clear()
        self._chart.options.update(chart_options(spec.title, spec.unit, axis, lines, self._theme))
        self._chart.update()
        self._table.content = _differences_html({run_id: self._site.library.settings(run_id) for run_id in chosen})

    def _read(self, chosen: list[str], spec: ChartSpec, axis: str) -> list[tuple[float | None, list[Line]]]:
        """Return the time of the last message and the lines of each run."""

        def read(run_id: str) -> tuple[float | None, list[Line]]:
            return self._site.library.read(run_id, lambda log: (log.last_wall_s, self._lines(run_id, log, spec, axis)))

        return [read(run_id) for run_id in chosen]

    def _lines(self, run_id: str, log: Any, spec: ChartSpec, axis: str) -> list[Line]:
        lines = run_lines(spec, log, axis, self._site.library.decision_s(run_id))
        if spec is WIN_RATE:
            lines = lines[:1]  # the evaluations of a run that has them
        # The name of a line states its measurement if lines of this chart may have different ones.
        return [line._replace(name=run_id if len(spec.tags) == 1 else f"{run_id}, {line.name}") for line in lines]


def _differences_html(settings: dict[str, dict[str, Any]]) -> str:
    """Return a table of the settings in which runs differ."""
    names = sorted({name for table in settings.values() for name in table})
    rows = []
    for name in names:
        values = [str(table.get(name, UNKNOWN)) or '""' for table in settings.values()]
        if len(set(values)) > 1:
            cells = "".join(f"<td>{escape(value)}</td>" for value in values)
            rows.append(f"<tr><th><code>{escape(name)}</code></th>{cells}</tr>")
    if len(settings) < 2:
        return ""
    if not rows:
        return "<h2>Settings</h2><p>The runs have the same settings.</p>"
    head = "".join(f"<th>{escape(run_id)}</th>" for run_id in settings)
    table = f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<h2>Settings that differ</h2><div class="scroll"><table class="plain">{table}</table></div>'
