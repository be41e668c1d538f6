"""Dashboards as processes of the command line, and what their pages show."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.waiting import PATIENCE_S


class Dashboard:
    """A running dashboard.

    Attributes:
        process: The process of the command that printed the link.
        base: URL without a path.
        token: Its token.
    """

    def __init__(self, process: subprocess.Popen, link: str) -> None:
        address = urlsplit(link)
        self.process = process
        self.base = f"{address.scheme}://{address.netloc}"
        self.port = str(address.port)
        [self.token] = parse_qs(address.query)["token"]

    def at(self, path: str) -> str:
        """Return the link to a page, with the token."""
        return f"{self.base}{path}{'&' if '?' in path else '?'}token={self.token}"


def token_file(log: Path) -> Path:
    """Return the file with the token of a dashboard that `running_dashboard` starts with a log."""
    return log.parent / "state" / "soulslab" / "dashboard.token"


@contextlib.contextmanager
def running_dashboard(
    root: Path, log: Path, *arguments: str, port: str = "0", popen: type[subprocess.Popen] = subprocess.Popen
) -> Iterator[Dashboard]:
    """Start ``soulslab dashboard``, by default at a free port; its log must have no traceback at the end.

    Its token lies in `token_file`, so that a second start with the same log has the same token. ``popen`` is the class
    of its process.
    """
    command = [sys.executable, "-m", "soulslab", "dashboard", str(root), "--listen", f"127.0.0.1:{port}", *arguments]
    environment = {**os.environ, "XDG_STATE_HOME": str(token_file(log).parents[1])}
    with log.open("w") as errors:
        process = popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        try:
            line = process.stdout.readline()
            assert "http" in line, log.read_text()
            yield Dashboard(process, line.split()[-1])
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            process.stdout.close()
    assert "Traceback" not in log.read_text(), log.read_text()
    assert "ERROR" not in log.read_text(), log.read_text()
    assert process.returncode == -signal.SIGTERM


def check_widths(page: Any) -> None:
    """Wait until a page fits a desktop and a phone; its window has the width of a desktop at the end."""
    for width in (400, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")


def check_no_traceback(log: Path) -> None:
    """Check the log of a command that has ended."""
    text = log.read_text()
    assert "Traceback" not in text, text


def chart_data(page: Any, name: str) -> dict[str, Any]:
    """Return the data that ECharts draws in a chart, by the name of the series."""
    page.locator(f'[data-chart="{name}"] canvas').first.wait_for()
    return page.evaluate(
        """name => {
          const id = document.querySelector(`[data-chart="${name}"]`).id.slice(1);
          const series = getElement(Number(id)).chart.getOption().series;
          return Object.fromEntries(series.map(each => [each.name, each.data]));
        }""",
        name,
    )
