"""``python -m benchmarks dashboard``: what the dashboard costs a run, and how fast it is.

The cost is measured in one run in which a browser opens and closes the live page in turn: game decisions (PPO) or
updates (Rainbow) per second of processor time of the training process. Processor time does not depend on what else the
machine does, except that processes on one machine share its caches and memory. A program that reads the feed as the
dashboard does, without a server and a browser beside the training, shows the cost of the feed alone. Without a viewer a
feed only counts the decisions, which is timed by itself and compared with the time of a step.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

import msgspec
import numpy as np
import psutil
from playwright.sync_api import Browser, sync_playwright

from benchmarks.child_process import child_environment
from benchmarks.result import Result, Row
from soulslab.dashboard.run_library import RunLibrary
from soulslab.dashboard.run_log import RunLog
from soulslab.learn import telemetry
from soulslab.learn.live_feed import FEED_NAME, LENGTH, WATCHED_DECISION_S, FeedAddress, LiveFeed, receive_exactly
from soulslab.learn.sinks import PROGRESS_NAME, JsonLinesSink, read_json_lines

COST_TARGET_PERCENT: Final = 2.0
UNWATCHED_TARGET_PERCENT: Final = 0.5
SERVER_TARGET_PERCENT: Final = 8.0
LATENCY_TARGET_MS: Final = 250.0
OPEN_TARGET_S: Final = 2.0

_REPORTS_PER_S: Final = 5
"""Reports per second of PPO in the demo."""

_CHROMIUM: Final = "chromium-headless-shell"
_FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
_START_S: Final = 120.0
_SETTLE_S: Final = 3.0
"""Time after a viewer has connected, in which the first fight is sent at once (s)."""


class DashboardBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        window_s: Time for each kind of viewer in each round (s).
        n_rounds: Number of rounds.
        watch_s: Time for which the latency is measured (s).
        n_runs: Runs in the list of runs.
        run_hours: Length of each of these runs (h).
    """

    window_s: float = 10.0
    n_rounds: int = 20
    watch_s: float = 30.0
    n_runs: int = 100
    run_hours: float = 10.0

    def quick(self) -> DashboardBenchSettings:
        """Return settings for a short run."""
        return DashboardBenchSettings(window_s=4.0, n_rounds=2, watch_s=5.0, n_runs=20, run_hours=0.5)


def measure_dashboard(settings: DashboardBenchSettings) -> list[Result]:
    """Measure the cost to training, the server, the latency, and the time to open a page."""
    with TemporaryDirectory(prefix="soulslab_bench_") as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which(_CHROMIUM), args=list(_FLAGS))
        root = Path(folder)
        costs = [
            _measure_cost("PPO", "demo.toml", "decisions", root / "ppo", browser, settings),
            _measure_cost("Rainbow", "rainbow.toml", "updates", root / "rainbow", browser, settings),
        ]
        step_ns = _unwatched_step_ns()
        unwatched = [_unwatched_row("PPO", root / "ppo", step_ns), _unwatched_row("Rainbow", root / "rainbow", step_ns)]
        latency = _measure_latency(root / "ppo" / "run", browser, settings)
        opening = _measure_opening(root / "many", root / "ppo" / "run" / PROGRESS_NAME, browser, settings)
        browser.close()
    return [
        Result(title=f"cost to training (target: at most {COST_TARGET_PERCENT:g} % with a browser)", rows=costs),
        Result(title=f"cost without a viewer (target: at most {UNWATCHED_TARGET_PERCENT:g} %)", rows=unwatched),
        Result(title="soulslab play in real time: from a decision until the browser has received it", rows=[latency]),
        Result(title="opening of pages: the first one of a new server, and later ones", rows=[opening]),
    ]


def _measure_cost(
    name: str, config: str, unit: str, root: Path, browser: Browser, settings: DashboardBenchSettings
) -> Row:
    """Train, and compare the work per second of processor time without viewers, with a reader, and with a browser.

    The learning rate is so small that the policy and its fights stay the same; a policy that improves halves the
    decisions per second within minutes.
    """
    arguments = ["train", "--config", config, "--run-dir", str(root / "run"), "--set", "run.max_seconds=100000"]
    arguments += ["--set", "learner.lr=1e-12"]
    arguments += ["--set", "run.total_steps=1_000_000_000", "--set", "run.evaluate_every=0"]
    root.mkdir(parents=True)
    rates: dict[str, list[float]] = {"no viewer": [], "reader": [], "browser": []}
    wall_rates: dict[str, list[float]] = {viewer: [] for viewer in rates}
    shares: list[float] = []
    browser_shares: list[float] = []
    with _command(arguments, root / "train.log") as training, _dashboard(root) as (server, link):
        _wait_for((root / "run" / FEED_NAME).exists)
        _wait_for((root / "run" / PROGRESS_NAME).exists)
        _next_work(root, unit)
        time.sleep(settings.window_s)  # the policy and the caches settle
        for i in range(settings.n_rounds):
            # Each second round in reversed order, because the rate may drift.
            for viewer, found in list(rates.items())[:: -1 if i % 2 else 1]:
                with _viewer(viewer, root / "run", browser, link):
                    time.sleep(_SETTLE_S)
                    busy_s, start_s = _browser_busy_s(), time.monotonic()
                    rate, wall_rate, share = _rate(training, server, root, unit, settings.window_s)
                    browser_share = (_browser_busy_s() - busy_s) / (time.monotonic() - start_s)
                found.append(rate)
                wall_rates[viewer].append(wall_rate)
                if viewer == "browser":
                    shares.append(share)
                    browser_shares.append(browser_share)
    return {
        "learner": name,
        "rounds": settings.n_rounds,
        "per CPU s": f"{median(rates['no viewer']):,.0f} {unit}",
        "per s": f"{median(wall_rates['no viewer']):,.0f} {unit}",
        "per s with a browser": f"{median(wall_rates['browser']):,.0f} {unit}",
        "cost of the feed (%)": _cost(rates["no viewer"], rates["reader"]),
        "cost with a browser beside it (%)": _cost(rates["no viewer"], rates["browser"]),
        "server CPU (%)": round(100.0 * median(shares), 1),
        "browser CPU (%)": round(100.0 * median(browser_shares), 1),
    }


def _browser_busy_s() -> float:
    """Return the processor time of all processes of the browser (s)."""
    busy_s = 0.0
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            busy_s += _busy_s(each) if "chromium" in each.name() else 0.0
    return busy_s


def _cost(alone: list[float], watched: list[float]) -> str:
    """Return the mean cost over the rounds and its standard error, both in %."""
    costs = 100.0 * (1.0 - np.array(watched) / np.array(alone))
    return f"{np.mean(costs):.1f} ± {np.std(costs, ddof=1) / np.sqrt(len(costs)):.1f}"


@contextmanager
def _viewer(kind: str, run: Path, browser: Browser, link: str) -> Iterator[None]:
    """Watch a run: not at all, with a program that reads the feed, or with a browser."""
    if kind == "no viewer":
        yield
        return
    if kind == "browser":
        context = browser.new_context()
        page = context.new_page()
        page.goto(link)
        page.goto(link.partition("/?")[0] + "/live/run")
        page.wait_for_function("window.soulslabLive?.moments.length > 0", timeout=60_000)
        yield
        context.close()
        return
    address = msgspec.json.decode((run / FEED_NAME).read_bytes(), type=FeedAddress)
    with socket.create_connection(("127.0.0.1", address.port)) as connection:
        connection.sendall(address.key.encode())
        threading.Thread(target=_read_feed, args=(connection,), daemon=True).start()
        yield
        connection.shutdown(socket.SHUT_RDWR)


def _read_feed(connection: socket.socket) -> None:
    """Read ten messages per second until the connection is closed."""
    try:
        while True:
            [length] = LENGTH.unpack(receive_exactly(connection, LENGTH.size))
            receive_exactly(connection, length)
            time.sleep(WATCHED_DECISION_S)
            connection.sendall(b"n")
    except OSError:
        return


def _unwatched_step_ns(n: int = 1_000_000) -> float:
    """Return the time that a feed without a viewer takes in each step of the environments (ns)."""
    feed = LiveFeed(Path(FEED_NAME))  # not opened: it has no viewers then either
    start_ns = time.perf_counter_ns()
    for _ in range(n):
        if feed.is_watched:
            raise AssertionError("the feed is watched without a viewer")
        feed.follow(0.5, is_over=False)
    return (time.perf_counter_ns() - start_ns) / n


def _unwatched_row(name: str, root: Path, step_ns: float) -> Row:
    """Compare that time with the time in which each environment of a run takes a decision.

    A step may take longer, because it contains several decisions (``skip_locked``), so the cost is an upper bound.
    """
    progress = RunLog(root / "run" / PROGRESS_NAME)
    progress.update()
    n_envs = int(RunLibrary(root).settings("run")["env.n_envs"])
    steps_per_s = float(np.median(progress.series("train/steps_per_second").values)) / n_envs
    share = 100.0 * step_ns * 1e-9 * steps_per_s
    return {
        "learner": name,
        "ns per step": round(step_ns),
        "steps/s": round(steps_per_s),
        "cost, at most (%)": round(share, 3),
    }


def _rate(
    training: psutil.Process, server: psutil.Process, root: Path, unit: str, window_s: float
) -> tuple[float, float, float]:
    """Return the work of a run per second of its processor time and of time, and the share of a core of the server.

    Both ends of the window are reports of the run: it reports a few times per second, which is up to 2 % of a window.
    """
    before = _next_work(root, unit)
    busy_s, server_s, start_s = _busy_s(training), _busy_s(server), time.monotonic()
    time.sleep(window_s)
    work = _next_work(root, unit) - before
    wall_s = time.monotonic() - start_s
    return work / (_busy_s(training) - busy_s), work / wall_s, (_busy_s(server) - server_s) / wall_s


def _busy_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _next_work(root: Path, unit: str) -> float:
    """Wait for the next report of a run; return the decisions, or the updates, that it has reported."""
    log = RunLog(root / "run" / PROGRESS_NAME)
    before = _work(log, unit)
    _wait_for(lambda: _work(log, unit) > before, poll_s=0.005)
    return _work(log, unit)


def _work(log: RunLog, unit: str) -> float:
    """Return the decisions, or the updates, that a run has reported."""
    log.update()
    found = log.series("update/n_updates").values if unit == "updates" else log.series("train/n_fights").env_steps
    return float(found[-1]) if len(found) else 0.0


def _measure_latency(policy: Path, browser: Browser, settings: DashboardBenchSettings) -> Row:
    """Let a policy play in real time; return the delays from its decisions to the browser."""
    with _command(
        ["play", "--policy", str(policy), "--dashboard"], policy.parent / "play.log", subprocess.PIPE
    ) as play:
        stdout: IO[str] = play.output
        link = stdout.readline().split()[-1]
        page = browser.new_page()
        page.goto(link)
        page.wait_for_function("window.soulslabLive?.moments.length > 5", timeout=60_000)
        [server] = play.process.children()
        busy_s, start_s = _busy_s(server), time.monotonic()
        page.wait_for_timeout(1000.0 * settings.watch_s)
        share = (_busy_s(server) - busy_s) / (time.monotonic() - start_s)
        delays = page.evaluate("soulslabLive.moments.slice(10).map(each => each.receivedMs - each.wall_ms)")
        received = page.evaluate("soulslabLive.moments.filter(each => each.jpeg).map(each => each.receivedMs)")
        page.close()
    return {
        "pictures/s": round(1000.0 * (len(received) - 1) / (received[-1] - received[0]), 1),
        "median (ms)": float(np.median(delays)),
        "95 % (ms)": float(np.quantile(delays, 0.95)),
        "target (ms)": LATENCY_TARGET_MS,
        "server CPU (%)": round(100.0 * share, 1),
        "target CPU (%)": SERVER_TARGET_PERCENT,
    }


def _measure_opening(root: Path, example: Path, browser: Browser, settings: DashboardBenchSettings) -> Row:
    """Open the list of many long runs, and the page of one of them; ``example`` is the log of a PPO run."""
    (root / "first").mkdir(parents=True)
    first = root / "first" / PROGRESS_NAME
    _write_long_run(first, settings.run_hours, example)
    for number in range(1, settings.n_runs):
        (root / f"run_{number:03d}").mkdir()
        os.link(first, root / f"run_{number:03d}" / PROGRESS_NAME)
    with _dashboard(root) as (_, link):
        page = browser.new_page()
        times: dict[str, list[float]] = {"/": [], "/run/first": []}
        for path, found in times.items():
            ready = "tr[role] a, tbody tr a" if path == "/" else '[data-chart="Win rate"] canvas'
            for _ in range(4):
                start_s = time.monotonic()
                page.goto(link if path == "/" else link.partition("/?")[0] + path)
                page.locator(ready).first.wait_for(timeout=60_000)
                found.append(time.monotonic() - start_s)
        page.close()
    return {
        "runs": settings.n_runs,
        "MB per run": round(first.stat().st_size / 1e6, 1),
        "list, first (s)": round(times["/"][0], 2),
        "list, again (s)": round(median(times["/"][1:]), 2),
        "target (s)": OPEN_TARGET_S,
        "page of one run, first (s)": round(times["/run/first"][0], 2),
        "page of one run, again (s)": round(median(times["/run/first"][1:]), 2),
    }


def _write_long_run(path: Path, hours: float, example: Path) -> None:
    """Write the log of a PPO run of this length, with the messages of a real one, and evaluations and checkpoints."""
    last = {type(message): message for message in read_json_lines(example)}
    n = round(_REPORTS_PER_S * 3600 * hours)
    progress = msgspec.structs.replace(last[telemetry.TrainProgress], total_steps=n * 1000)
    evaluated = telemetry.Evaluated(env_steps=0, n_fights=200, mean_return=1.0, win_rate=0.5, low=0.43, high=0.57)
    kinds = (  # a message, and the number of reports between two of them
        (last[telemetry.UpdateStats], 1),
        (last[telemetry.FightStats], _REPORTS_PER_S),
        (evaluated, 300 * _REPORTS_PER_S),
        (telemetry.CheckpointSaved(env_steps=0, path="checkpoint"), 300 * _REPORTS_PER_S),
    )
    sink = JsonLinesSink(path)
    sink.write(telemetry.TrainStarted(env_id="x", total_steps=n * 1000, env_steps=0, seed=0, is_resumed=False))
    for i in range(1, n):
        now = {"env_steps": i * 1000}
        grown = {"seconds": i / _REPORTS_PER_S, "win_rate": i / n, "mean_return": i / n}
        sink.write(msgspec.structs.replace(progress, **now, **grown))
        for message, every in kinds:
            if i % every == 0:
                sink.write(msgspec.structs.replace(message, **now))
    sink.close()


class _Command:
    """A running command of soulslab."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = psutil.Process(process.pid)
        self._popen = process

    @property
    def output(self) -> IO[str]:
        """Standard output."""
        if self._popen.stdout is None:
            raise TypeError("the output of this command is not read")
        return self._popen.stdout


@contextmanager
def _command(arguments: list[str], log: Path, stdout: int | None = None) -> Iterator[Any]:
    """Run a command of soulslab until the block ends."""
    environment = child_environment(OMP_NUM_THREADS="1")
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "soulslab", *arguments],
            stdout=stdout if stdout is not None else errors,
            stderr=errors,
            text=True,
            env=environment,
        )
        try:
            yield _Command(process) if stdout is not None else psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _dashboard(root: Path) -> Iterator[tuple[psutil.Process, str]]:
    """Serve a dashboard; yield its process and its link."""
    log = root / "dashboard.log"
    with _command(["dashboard", str(root), "--listen", "127.0.0.1:0"], log, subprocess.PIPE) as command:
        yield command.process, command.output.readline().split()[-1]


def _wait_for(condition: Callable[[], bool], poll_s: float = 0.1) -> None:
    end_s = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(f"waited {_START_S:.0f} s in vain; see the logs of the commands")
        time.sleep(poll_s)
