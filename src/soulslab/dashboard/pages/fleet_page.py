"""The pages of fleets: all runs with a fleet, and the learner and the games of one."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from nicegui import ui

from soulslab.config.shell_words import shell_word
from soulslab.dashboard.live_relay import FRAMES_EVERY_S, feed_path
from soulslab.dashboard.pages.frame import (
    REFRESH_S,
    RESPONSE_TIMEOUT_S,
    UNKNOWN,
    Site,
    empty_state,
    frame,
    reload_when,
    run_path,
    short,
    tiles,
)
from soulslab.dashboard.run_library import FLEET_NAME
from soulslab.errors import SoulslabError, optional_imports

if TYPE_CHECKING:
    from soulslab.fleet.messages import EvaluationStatus, Lease
    from soulslab.fleet.operating import FleetStatus, Order

_N_FRAMES: Final = 12
"""Largest number of games whose picture is shown: the first ones on this machine."""

_CONTROLS: Final[tuple[tuple[str, Order, str], ...]] = (
    ("Pause", "pause", "Each game waits when its episode has ended."),
    ("Continue", "run", "The games continue."),
    ("Save now", "save", "The learner was asked to save a checkpoint."),
)
_COLUMNS: Final = (
    *("game", "state", "machine", "steps", "steps/s", "late", "late, 99 % (ms)", "idle (s)"),
    *("weights", "their age (s)", "unsent (MB)", "dropped", "restarts", "last fault"),
)


def find_fleets(site: Site) -> list[str]:
    """Return the ids of the runs that have a fleet."""
    return [each for each in site.library.run_ids() if (site.library.path(each) / FLEET_NAME).is_dir()]


def add(site: Site) -> None:
    """Register the pages."""

    @ui.page("/fleet", response_timeout=RESPONSE_TIMEOUT_S)
    async def fleets_page() -> None:
        with frame("Fleet", "/fleet"):
            ui.html("<h1>Fleets</h1>", sanitize=False)
            found = await asyncio.to_thread(find_fleets, site)
            if not found:
                command = f"soulslab fleet learn --run-dir {shell_word(site.library.root / 'first')}"
                empty_state("No fleet yet", f"No run in {site.library.root} has a fleet. Start one:", command)
            items = [f'<li><a href="/fleet/{quote(name)}">{escape(name)}</a></li>' for name in found]
            ui.html(f'<ul class="links">{"".join(items)}</ul>', sanitize=False)

    @ui.page("/fleet/{run_id:path}", response_timeout=RESPONSE_TIMEOUT_S)
    async def fleet_page(run_id: str) -> None:
        with frame(f"Fleet of {run_id}", "/fleet"):
            if run_id not in await asyncio.to_thread(find_fleets, site):
                text = f"{site.library.root} has no run {run_id} with a fleet. If it starts now, it appears here."
                empty_state("No such fleet", text)
                reload_when(lambda: run_id in find_fleets(site))
                return
            view = _FleetView(site, run_id)
            await view.refresh()
            ui.timer(REFRESH_S, view.refresh)
            ui.timer(FRAMES_EVERY_S, view.update_pictures)


class _FleetView:
    """The elements of the page of a fleet, and their update."""

    def __init__(self, site: Site, run_id: str) -> None:
        self._folder, self._run_id, self._relays = site.library.path(run_id), run_id, site.relays
        self._names: tuple[str, ...] = ()
        self._frames: dict[str, bytes | None] = {}
        with ui.element("div").classes("heading"):
            ui.html(f"<h1>{escape(run_id)}</h1>", sanitize=False)
            self._state = ui.html("", sanitize=False)
            ui.space()
            with ui.element("div").classes("controls"):
                ui.link("Charts of this run", run_path(run_id)).classes("link-button")
                if not site.is_read_only:
                    for label, order, effect in _CONTROLS:
                        ui.button(label, on_click=lambda o=order, e=effect: self._order(o, e)).props("outline no-caps")
        self._tiles = ui.html("", sanitize=False).classes("wide")
        self._games = ui.html("", sanitize=False).classes("wide scroll")
        self._is_reading = False

    async def refresh(self) -> None:
        """Read the status; a server that does not answer is reported on the page."""
        if self._is_reading:  # the server may take longer than the time between two updates
            return
        self._is_reading = True
        try:
            found = await asyncio.to_thread(_read, self._folder)
        except SoulslabError as error:
            self._state.content = '<span class="state stopped">not reachable</span>'
            command = f"soulslab fleet learn --resume {shell_word(self._folder)}"
            self._tiles.content = (
                f'<section class="empty"><h2>The fleet does not answer</h2><div>{escape(str(error))}</div>'
                f"<div>Continue it:</div><pre>{escape(command)}</pre></section>"
            )
            self._games.content = ""
            return
        finally:
            self._is_reading = False
        is_running = found.learner is not None
        words = {"run": "running", "pause": "paused", "stop": "stopping"}
        state = words[found.state] if is_running else "no learner"
        self._state.content = f'<span class="state {"running" if is_running else "stopped"}">{state}</span>'
        self._tiles.content = _learner_tiles(found)
        self._names = tuple(game.worker for game in found.games)
        self._games.content = games_html(found.games, self._folder, self._run_id, self._frames)

    async def update_pictures(self) -> None:
        """Find the games on this machine, and fetch the newest picture of the first `_N_FRAMES`."""
        paths = {name: feed_path(self._folder, name) for name in self._names}
        known = {name: path for name, path in paths.items() if path is not None}
        shown = dict(list(known.items())[:_N_FRAMES])
        frames = await asyncio.gather(*(self._relays.last_frame(path) for path in shown.values()))
        # A game between two fights has no new picture; the last one stays.
        found = {name: frame or self._frames.get(name) or b"" for name, frame in zip(shown, frames, strict=True)}
        self._frames = {**dict.fromkeys(known), **found}

    async def _order(self, order: Order, effect: str) -> None:
        try:
            await asyncio.to_thread(_send_order, self._folder, order)
        except SoulslabError as error:
            ui.notify(str(error), type="negative")
            return
        ui.notify(effect)
        await self.refresh()


def _read(run_dir: Path) -> FleetStatus:
    """Return the status of a fleet; raises FleetError, or MissingDependencyError without Redis."""
    with optional_imports():
        from soulslab.fleet.fleet_folder import FleetFolder
        from soulslab.fleet.operating import read_status

    return read_status(FleetFolder(run_dir))


def _send_order(run_dir: Path, order: Order) -> None:
    with optional_imports():
        from soulslab.fleet.fleet_folder import FleetFolder
        from soulslab.fleet.operating import give_order

    give_order(FleetFolder(run_dir), order)


def _learner_tiles(found: FleetStatus) -> str:
    learner = found.learner
    speed = sum(game.steps_per_second for game in found.games)
    values = [("Games", str(len(found.games))), ("Steps of all games", f"{speed:.1f} <small>per second</small>")]
    if learner is None:
        return tiles([*values, ("Learner", "does not run")])
    delay = f"{learner.delay_p95_ms:.0f} ms" if learner.delay_p95_ms is not None else UNKNOWN
    values += [
        ("Decisions", short(learner.env_steps)),
        ("Updates", short(learner.n_updates)),
        ("Steps that wait for the learner", short(learner.n_waiting_rows)),
        ("Memory of the learner", f"{short(learner.memory_mb)} MB"),
        ("Memory of Redis", f"{short(found.redis_mb)} MB" if found.redis_mb is not None else UNKNOWN),
        ("From step to learner, 95 %", delay),
        ("Dropped steps", short(learner.n_dropped)),
        ("Restarts of Redis", str(learner.n_restarts_of_redis)),
        *_evaluation_tiles(learner.evaluation),
        ("Learner", f"{escape(learner.host)} <small>process {learner.pid}</small>"),
    ]
    return tiles(values)


def _evaluation_tiles(evaluation: EvaluationStatus | None) -> list[tuple[str, str]]:
    last = evaluation.last if evaluation is not None else None
    if last is None or last.win_rate is None or last.low is None or last.high is None:
        return []
    interval = f"{100 * last.low:.0f} to {100 * last.high:.0f} % of {last.n_fights} fights"
    return [("Wins in the last evaluation", f"{100 * last.win_rate:.0f} % <small>{interval}</small>")]


def games_html(games: tuple[Lease, ...], run_dir: Path, run_id: str, frames: Mapping[str, bytes | None]) -> str:
    """Return a table of the games.

    ``frames`` has the games on this machine, which have a link to their live page: a picture, b"" for a game that has
    none yet, None for a game whose picture is not fetched.
    """
    if not games:
        command = escape(f"soulslab fleet play {shell_word(run_dir / 'join.toml')}")
        return (
            '<section class="empty"><h2>No game plays</h2><div>Start games on this machine, or copy the join file to '
            f"another one:</div><pre>{command}</pre></section>"
        )
    head = "".join(f"<th>{each}</th>" for each in _COLUMNS)
    rows = []
    for game in games:
        first = escape(game.worker)
        if game.worker in frames:
            first = _game_html(game.worker, run_id, frames[game.worker])
        cells = [first, *map(escape, _cells(game)[1:])]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<table class="plain numbers games"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _game_html(name: str, run_id: str, picture: bytes | None) -> str:
    """Return the name of a game with its last picture, as a link to its live page."""
    image = ""
    if picture is not None:
        image = '<span class="blank"></span>'  # a game between two fights has no picture yet
    if picture:
        image = f'<img src="data:image/jpeg;base64,{b64encode(picture).decode()}" alt="" width="120">'
    link = escape(f"{run_path(run_id, 'live')}?{urlencode({'game': name})}")
    return f'<a class="game" href="{link}" title="Watch this game">{image}{escape(name)}</a>'


def _cells(game: Lease) -> tuple[str, ...]:
    optional = (game.lateness_p99_ms, game.idle_s, game.age_of_weights_s)
    late_ms, idle_s, age_s = (f"{each:.1f}" if each is not None else UNKNOWN for each in optional)
    version = str(game.weights_version) if game.weights_version >= 0 else UNKNOWN
    sent = (f"{game.n_unsent_bytes / 1e6:.1f}", str(game.n_dropped), str(game.n_restarts), game.last_fault or UNKNOWN)
    played = (short(game.n_steps), f"{game.steps_per_second:.1f}", short(game.n_late), late_ms, idle_s)
    return (game.worker, game.activity, game.host, *played, version, age_s, *sent)
