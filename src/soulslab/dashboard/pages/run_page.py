"""The page of one run."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from html import escape
from typing import Any, NamedTuple

from nicegui import ui

from soulslab.dashboard.charts import AXIS_TITLES
from soulslab.dashboard.pages.frame import (
    REFRESH_S,
    RESPONSE_TIMEOUT_S,
    Site,
    empty_state,
    frame,
    hours,
    percent,
    reload_when,
    run_path,
    short,
    state_html,
    theme,
    tiles,
    time_html,
)
from soulslab.dashboard.pages.run_charts import CHARTS, action_chart, run_chart
from soulslab.dashboard.pages.run_tables import attacks_html, phases_html, saved_html, saved_policies, situations_html
from soulslab.dashboard.run_library import Controls, RunState, RunSummary
from soulslab.dashboard.run_log import AXES, Event, RunLog
from soulslab.dashboard.run_starter import read_console
from soulslab.dashboard.scene_view import duel_action_names
from soulslab.errors import SoulslabError
from soulslab.learn import telemetry
from soulslab.learn.evaluated_fights import FIGHTS_NAME
from soulslab.learn.live_feed import FEED_NAME
from soulslab.learn.run_requests import SAVE_NAME, STOP_NAME, request

_MAX_EVENTS = 200

_log = logging.getLogger(__name__)


def add(site: Site) -> None:
    """Register the page."""

    @ui.page("/run/{run_id:path}", response_timeout=RESPONSE_TIMEOUT_S)
    async def run_page(run_id: str, axis: str = AXES[0]) -> None:
        with frame(run_id, "/"):
            if site.library.folder(run_id) is None:
                text = f"{site.library.root} has no run {run_id}. If it starts now, it appears here."
                empty_state("No such run", text)
                ui.link("All runs", "/")
                reload_when(lambda: site.library.folder(run_id) is not None)
                return
            view = _RunView(site, run_id, axis if axis in AXES else AXES[0])
            await view.refresh()
            ui.timer(REFRESH_S, view.refresh)


class _Content(NamedTuple):
    """Content of the page of a run: HTML, text, and the options of the charts by title."""

    state: RunState
    controls: Controls
    tiles: str
    tables: str
    saved: str
    events: str
    console: str
    settings: str
    charts: dict[str, dict[str, Any]]


class _RunView:
    """The elements of the page of a run, and their update."""

    def __init__(self, site: Site, run_id: str, axis: str) -> None:
        self._site, self._run_id, self._axis = site, run_id, axis
        self._theme = theme()
        self._seen: tuple[Any, ...] = ()
        self._charts: dict[str, ui.echart] = {}
        with ui.element("div").classes("heading"):
            ui.html(f"<h1>{escape(run_id)}</h1>", sanitize=False)
            self._state = ui.html("", sanitize=False)
            ui.space()
            self._controls = ui.element("div").classes("controls")
        self._reason = ui.label().classes("faint")
        self._tiles = ui.html("", sanitize=False).classes("wide")
        with ui.element("div").classes("heading minor"):
            ui.html("<h2>Charts</h2>", sanitize=False)
            ui.space()
            options = {name: AXIS_TITLES[name] for name in AXES}
            chosen = ui.select(
                options, value=axis, label="horizontal axis", on_change=lambda e: self._change_axis(e.value)
            )
            chosen.classes("axis").props("dense outlined options-dense")
        self._grid = ui.element("section").classes("charts")
        self._hint = ui.element("div")
        with self._hint:
            empty_state("No measurements yet", "The charts appear with the first message of the run.")
        self._tables = ui.html("", sanitize=False).classes("wide tables")
        self._saved = ui.html("", sanitize=False).classes("wide")
        ui.html("<h2>Events</h2>", sanitize=False)
        self._events = ui.html("", sanitize=False).classes("wide")
        with ui.expansion("Log").classes("settings").props("dense") as self._log:
            self._console = ui.html("", sanitize=False).classes("wide")
        with ui.expansion("Settings").classes("settings").props("dense"):
            self._settings = ui.html("", sanitize=False).classes("wide")
        self._build_controls()

    def _build_controls(self) -> None:
        with self._controls:
            self._live = ui.button("Watch live", on_click=lambda: ui.navigate.to(run_path(self._run_id, "live")))
            self._live.props("unelevated no-caps")
            self._fights = ui.link("Evaluated fights", run_path(self._run_id, "fights")).classes("link-button")
            if not self._site.is_read_only:
                self._save = ui.button("Save now", on_click=lambda: self._ask(SAVE_NAME)).props("outline no-caps")
                self._stop = ui.button("Stop", on_click=self._confirm_stop).props("outline no-caps color=negative")
                self._resume = ui.button("Resume", on_click=self._start_again).props("outline no-caps")

    async def refresh(self) -> None:
        """Read what is new, and update what changed."""
        content = await asyncio.to_thread(self._read)
        if content is None:
            return
        self._state.content = state_html(content.state)
        self._tiles.content = content.tiles
        self._tables.content = content.tables
        self._saved.content = content.saved
        self._events.content = content.events
        self._console.content = f"<pre>{escape(content.console)}</pre>"
        self._log.visible = bool(content.console)
        self._settings.content = content.settings
        self._show_controls(content.controls)
        self._show_charts(content.charts)

    def _read(self) -> _Content | None:
        """Return the content of the page; None if nothing changed. It is called in a thread, and takes a moment."""
        library = self._site.library
        summary, console = library.summary(self._run_id), read_console(library.path(self._run_id))
        return library.read(self._run_id, partial(self._describe, summary, console))

    def _describe(self, summary: RunSummary, console: str, log: RunLog) -> _Content | None:
        seen = (summary.state, log.last_wall_s, len(log.events), self._axis, console)
        if seen == self._seen:
            return None
        self._seen = seen
        # A run that starts has no settings at first.
        decision_s = self._site.library.decision_s(self._run_id)
        charts = {spec.title: run_chart(spec, log, self._axis, decision_s, self._theme) for spec in CHARTS}
        names = duel_action_names(summary.env_id)
        charts["actions"] = action_chart(log, names, self._theme)
        return _Content(
            state=summary.state,
            controls=self._site.library.controls(self._run_id),
            tiles=_summary_tiles(summary, log),
            tables=attacks_html(log) + phases_html(log) + situations_html(log, names),
            saved=saved_html(saved_policies(self._site.library.path(self._run_id)), log),
            events=_events_html(log.events),
            console=console,
            settings=_settings_html(self._site.library.settings(self._run_id)),
            charts={title: options for title, options in charts.items() if options is not None},
        )

    def _show_controls(self, controls: Controls) -> None:
        folder = self._site.library.folder(self._run_id)
        self._live.visible = folder is not None and (folder / FEED_NAME).exists()
        self._fights.visible = folder is not None and (folder / FIGHTS_NAME).exists()
        if not self._site.is_read_only:
            self._save.visible = self._stop.visible = controls.can_stop
            self._resume.visible = controls.can_resume
            self._reason.text = controls.reason
        self._reason.visible = bool(self._reason.text)

    def _show_charts(self, charts: dict[str, dict[str, Any]]) -> None:
        for title, options in charts.items():
            if title not in self._charts:
                with self._grid:
                    self._charts[title] = ui.echart(options).classes("chart").props(f'data-chart="{escape(title)}"')
                    if title in ("Win rate", "actions"):
                        self._charts[title].classes("tall" if title == "actions" else "first")
            else:
                chart = self._charts[title]
                chart.options.clear()
                chart.options.update(options)
                chart.update()
        self._hint.visible = not self._charts

    async def _change_axis(self, axis: str) -> None:
        self._axis = axis
        await self.refresh()

    async def _confirm_stop(self) -> None:
        with ui.dialog() as dialog, ui.card():
            ui.label(f"Stop {self._run_id}?").classes("dialog-title")
            ui.label("The run saves a checkpoint and ends. It can be resumed.")
            with ui.row():
                ui.button("Stop the run", on_click=lambda: dialog.submit(True)).props(
                    "unelevated no-caps color=negative"
                )
                ui.button("Keep training", on_click=lambda: dialog.submit(False)).props("flat no-caps autofocus")
        if await dialog:
            self._ask(STOP_NAME)

    async def _start_again(self) -> None:
        if self._site.is_read_only:
            return
        try:
            await asyncio.to_thread(self._site.library.resume, self._run_id)
        except SoulslabError as error:
            ui.notify(str(error), type="negative")
            return
        ui.notify("The run is being resumed; the log below shows the result.")
        await self.refresh()

    def _ask(self, name: str) -> None:
        """Make a request to the run; the buttons of a page that is read-only do not exist."""
        folder = self._site.library.folder(self._run_id)
        if folder is None or self._site.is_read_only:
            return
        try:
            request(folder, name)
        except SoulslabError as error:
            ui.notify(str(error), type="negative")
            return
        _log.info("%s was requested for %s", name.removesuffix(".request"), folder)
        what = "stop after this update" if name == STOP_NAME else "save a checkpoint after this update"
        ui.notify(f"The run was asked to {what}.")


def _summary_tiles(summary: RunSummary, log: RunLog) -> str:
    evaluated = log.last.get(telemetry.Evaluated)
    rate, low, high, is_evaluated = summary.win_rate, summary.low, summary.high, summary.is_evaluated
    if isinstance(evaluated, telemetry.Evaluated) and evaluated.win_rate is not None:
        # The list samples long files; this page has read all of it.
        ends = (100.0 * end if end is not None else None for end in (evaluated.low, evaluated.high))
        rate, (low, high), is_evaluated = 100.0 * evaluated.win_rate, ends, True
    label = "Win rate, evaluated" if is_evaluated else "Win rate, last fights"
    done = f" <small>of {short(summary.total_steps)}</small>" if summary.total_steps else ""
    progress = log.last.get(telemetry.TrainProgress)
    fights = progress.n_fights if isinstance(progress, telemetry.TrainProgress) else None
    values = [
        (label, percent(rate, low, high)),
        ("Return, last fights", short(summary.mean_return)),
        ("Decisions", short(summary.env_steps) + done),
        ("Game time", hours(summary.game_hours)),
        ("Training time", hours(summary.train_hours)),
        ("Fights", short(fights)),
        ("Last message", time_html(summary.last_wall_s)),
    ]
    if summary.reason:
        values.append(("Ended", escape(summary.reason)))
    if log.n_malformed:
        values.append(("Unreadable lines", str(log.n_malformed)))
    return tiles(values)


def _events_html(events: list[Event]) -> str:
    rows = "".join(
        f"<tr><td>{time_html(wall_s)}</td><td>{_event(message)}</td></tr>"
        for wall_s, message in reversed(events[-_MAX_EVENTS:])
    )
    return f'<table class="plain"><tbody>{rows}</tbody></table>' if rows else '<p class="faint">No events yet.</p>'


def _event(message: telemetry.Message) -> str:
    match message:
        case telemetry.TrainStarted():
            verb = "Resumed" if message.is_resumed else "Started"
            return f"{verb} at {short(message.env_steps)} decisions: {escape(message.env_id)}, seed {message.seed}"
        case telemetry.CheckpointSaved():
            return f"Checkpoint at {short(message.env_steps)} decisions"
        case telemetry.Evaluated() if message.win_rate is not None:
            ends = [100.0 * end if end is not None else None for end in (message.low, message.high)]
            return f"Evaluated: {percent(100.0 * message.win_rate, *ends)} of {message.n_fights} fights won"
        case telemetry.Evaluated():
            return f"Evaluated: mean return {short(message.mean_return)} over {message.n_fights} episodes"
        case telemetry.TrainFinished():
            return f"Ended: {escape(message.reason)}, {short(message.env_steps)} decisions"
        case _:
            return escape(type(message).__name__)


def _settings_html(settings: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(str(value))}</td></tr>"
        for name, value in settings.items()
    )
    if not rows:
        return "<p>The folder has no config.toml yet.</p>"
    return f'<table class="plain"><tbody>{rows}</tbody></table>'
