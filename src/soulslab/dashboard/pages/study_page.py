"""The pages of studies: all studies, and one study with its candidates and the importance of each setting."""

from __future__ import annotations

import asyncio
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import numpy as np
from nicegui import ui

from soulslab.config.shell_words import shell_word
from soulslab.dashboard.charts import Line, bar_options, chart_options
from soulslab.dashboard.pages.frame import (
    REFRESH_S,
    RESPONSE_TIMEOUT_S,
    UNKNOWN,
    Site,
    empty_state,
    frame,
    short,
    theme,
    tiles,
)
from soulslab.errors import SoulslabError
from soulslab.learn.tuning.settings import TuneSettings, load_tune_settings
from soulslab.learn.tuning.study_folder import STUDY_NAME, StudyFolder
from soulslab.learn.tuning.study_plot import OBJECTIVE_LABELS
from soulslab.learn.tuning.trial import TrialStatus, is_maximised
from soulslab.learn.tuning.trial_store import TrialRow, best_first, count_states, read_trials

_MAX_DEPTH: Final = 2
_N_SETTINGS: Final = 6
"""Number of settings that get a chart, starting with the most important one."""


class Study(NamedTuple):
    """A study as its folder has it."""

    tuning: TuneSettings
    rows: list[TrialRow]
    importances: dict[str, float]


def find_studies(root: Path) -> dict[str, Path]:
    """Return the folders of the studies below a folder, by their path relative to it; the root may be one."""
    found = {}
    for depth in range(_MAX_DEPTH + 1):
        for file in root.glob("/".join([*["*"] * depth, STUDY_NAME])):
            folder = file.parent
            found[folder.relative_to(root).as_posix() if depth else root.resolve().name] = folder
    return dict(sorted(found.items()))


def read_study(folder: Path) -> Study:
    """Read a study, which may be running; raises StudyError or ConfigError."""
    tuning = load_tune_settings(folder / STUDY_NAME)
    return Study(tuning, *read_trials(StudyFolder(folder).journal))


def add(site: Site) -> None:
    """Register the pages."""

    @ui.page("/studies", response_timeout=RESPONSE_TIMEOUT_S)
    async def studies_page() -> None:
        with frame("Studies", "/studies"):
            ui.html("<h1>Studies</h1>", sanitize=False)
            found = await asyncio.to_thread(find_studies, site.library.root)
            if not found:
                study = shell_word(site.library.root / "first")
                command = f"soulslab tune --study {study} --search learner.lr=1e-4..1e-2:log"
                empty_state("No studies yet", f"{site.library.root} has no studies. Start one:", command)
            items = [f'<li><a href="/study/{quote(name)}">{escape(name)}</a></li>' for name in found]
            ui.html(f'<ul class="links">{"".join(items)}</ul>', sanitize=False)

    @ui.page("/study/{study_id:path}", response_timeout=RESPONSE_TIMEOUT_S)
    async def study_page(study_id: str) -> None:
        with frame(f"Study {study_id}", "/studies"):
            folder = (await asyncio.to_thread(find_studies, site.library.root)).get(study_id)
            if folder is None:
                empty_state("No such study", f"{site.library.root} has no study {study_id}.")
                return
            ui.html(f"<h1>{escape(study_id)}</h1>", sanitize=False)
            view = _StudyView(folder)
            await view.refresh()
            ui.timer(REFRESH_S, view.refresh)


class _StudyView:
    """The elements of the page of a study, and their update."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._theme = theme()
        self._size = -1
        self._tiles = ui.html("", sanitize=False).classes("wide")
        self._hint = ui.element("div")
        self._hint.visible = False
        with self._hint:
            empty_state("No candidate has finished yet", "The charts appear with the first result.")
        self._grid = ui.element("section").classes("charts")
        self._charts: dict[str, ui.echart] = {}
        self._table = ui.html("", sanitize=False).classes("wide scroll")

    async def refresh(self) -> None:
        """Read the study again if its journal has grown."""
        try:
            size = StudyFolder(self._folder).journal.stat().st_size
        except OSError:
            size = 0
        if size == self._size:
            return
        self._size = size
        if size == 0:
            self._hint.visible = True
            return
        try:
            study = await asyncio.to_thread(read_study, self._folder)
        except SoulslabError as error:
            self._tiles.content = f'<p class="faint">{escape(str(error))}</p>'
            return
        self._tiles.content = _study_tiles(study)
        self._table.content = _trials_html(study) if study.rows else ""
        for name, options in self._options(study).items():
            if name not in self._charts:
                with self._grid:
                    self._charts[name] = ui.echart(options).classes("chart").props(f'data-chart="{escape(name)}"')
            else:
                self._charts[name].options.clear()
                self._charts[name].options.update(options)
                self._charts[name].update()
        self._hint.visible = not self._charts

    def _options(self, study: Study) -> dict[str, dict[str, Any]]:
        rows = [row for row in study.rows if row.value is not None and not row.is_retried]
        label = OBJECTIVE_LABELS[study.tuning.study.objective]
        scale = _scale(study)
        charts: dict[str, dict[str, Any]] = {}
        if rows:
            charts["candidates"] = _history(rows, study, label, self._theme)
        if study.importances:
            shares = [100.0 * share for share in study.importances.values()]
            charts["importance"] = bar_options("Importance", "%", list(study.importances), shares, self._theme)
        names = [*study.importances, *(name for name in study.tuning.search if name not in study.importances)]
        for name in names[:_N_SETTINGS]:
            points = [
                (row.params[name], scale * (row.value or 0.0))
                for row in rows
                if isinstance(row.params.get(name), int | float)
            ]
            if len(points) > 1:
                x, y = np.array(points, np.float64).T
                options = chart_options(
                    f"{label[0].upper()}{label[1:]} by {name}",
                    "",
                    name,
                    [Line(label, x, y, has_marks=True)],
                    self._theme,
                )
                options["series"][0]["lineStyle"] = {"opacity": 0}
                options["legend"]["show"] = False
                is_whole = all(isinstance(row.params.get(name), int) for row in rows)
                options["xAxis"]["axisLabel"]["showMinLabel"] = is_whole  # other smallest values have many digits
                options["xAxis"] |= {
                    "min": "dataMin",
                    "minInterval": 1 if is_whole else 0,
                    "type": "log" if x.min() > 0 and x.max() / x.min() > 30 else "value",
                }
                charts[name] = options
        return charts


def _history(rows: list[TrialRow], study: Study, label: str, colours: Any) -> dict[str, Any]:
    """Return the options of the chart of all candidates and the best one so far."""
    scale = _scale(study)
    lines = []
    for name, state in (("trained to the end", TrialStatus.COMPLETE), ("pruned", TrialStatus.PRUNED)):
        found = np.array([(row.number, scale * (row.value or 0.0)) for row in rows if row.state is state], np.float64)
        if len(found):
            lines.append(Line(name, found[:, 0], found[:, 1], has_marks=True))
    complete = [(row.number, scale * (row.value or 0.0)) for row in rows if row.state is TrialStatus.COMPLETE]
    options = chart_options(f"Candidates: {label}", "", "candidate", lines, colours)
    for series in options["series"]:
        series["lineStyle"] = {"opacity": 0}
    if complete:
        x, y = np.array(complete, np.float64).T
        best = np.maximum.accumulate(y) if is_maximised(study.tuning.study.objective) else np.minimum.accumulate(y)
        best_line = chart_options("", "", "candidate", [Line("best so far", x, best)], colours)["series"][0]
        colour = colours.lines[2]
        options["series"].append(
            {**best_line, "step": "end", "lineStyle": {"width": 1.8, "color": colour}, "itemStyle": {"color": colour}}
        )
        options["legend"]["data"].append("best so far")
    return options


def _scale(study: Study) -> float:
    """Return the factor from the values of the objective to what is shown: win rates are shown in %."""
    return 100.0 if study.tuning.study.objective == "win_rate" else 1.0


def _study_tiles(study: Study) -> str:
    counts = count_states(study.rows)
    best = best_first(study.rows, study.tuning.study)
    running = sum(row.state is None for row in study.rows)
    return tiles(
        [
            ("Objective", escape(OBJECTIVE_LABELS[study.tuning.study.objective])),
            ("Best", _value(best[0], study) if best else UNKNOWN),
            ("Candidates", f"{counts.total()} <small>of {study.tuning.study.n_trials}</small>"),
            ("In training or queued", str(running)),
            ("Pruned", str(counts[TrialStatus.PRUNED])),
            ("Failed", str(counts[TrialStatus.FAILED] + counts[TrialStatus.KILLED])),
        ]
    )


def _value(row: TrialRow, study: Study) -> str:
    if row.value is None:
        return UNKNOWN
    return f"{100.0 * row.value:.1f} %" if study.tuning.study.objective == "win_rate" else short(row.value)


def _trials_html(study: Study) -> str:
    """Return a table of all candidates: the complete ones, best first, then the others, newest first."""
    names = list(study.tuning.search)
    label = OBJECTIVE_LABELS[study.tuning.study.objective]
    best = best_first(study.rows, study.tuning.study)
    numbers = {row.number for row in best}
    others = [row for row in reversed(study.rows) if row.number not in numbers and not row.is_retried]
    head = "".join(f"<th>{escape(name)}</th>" for name in ("candidate", "state", label, *names))
    rows = []
    for row in [*best, *others]:
        state = row.state.value if row.state is not None else "in training or queued"
        values = [_setting(row.params[name]) if name in row.params else UNKNOWN for name in names]
        cells = (str(row.number), state, _value(row, study), *values)
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return f'<table class="plain trials"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _setting(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
