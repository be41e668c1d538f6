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


class Dashboard:
    """A running dashboard: its link with the token, and what it has printed."""

    def __init__(self, process: subprocess.Popen, link: str, log: Path) -> None:
        self.process, self.link, self._log = process, link, log
        self.base = link.partition("/?")[0]

    def log(self) -> str:
        return self._log.read_text()


@contextlib.contextmanager
def running_dashboard(root: Path, log: Path, *arguments: str, port: str = "0") -> Iterator[Dashboard]:
    """Start ``soulslab dashboard``, by default at a free port; its log must have no traceback at the end.

    Its token lies beside the log, so that a second start with the same log has the same token.
    """
    command = [sys.executable, "-m", "soulslab", "dashboard", str(root), "--listen", f"127.0.0.1:{port}", *arguments]
    environment = {**os.environ, "XDG_STATE_HOME": str(log.parent / "state")}
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        try:
            line = process.stdout.readline()
            assert "http" in line, log.read_text()
            yield Dashboard(process, line.split()[-1], log)
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            process.wait(20.0)
            process.stdout.close()
    assert "Traceback" not in log.read_text(), log.read_text()
    assert "ERROR" not in log.read_text(), log.read_text()
    assert process.returncode == -signal.SIGTERM


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
