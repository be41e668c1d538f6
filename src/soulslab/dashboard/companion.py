"""A dashboard beside another command: a process that serves it until that command ends.

``python -m soulslab.dashboard.companion ROOT PAGE [--read-only]`` ends when its standard input is closed, which the
system does when the process of the command ends, even if it is killed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from soulslab.dashboard.child_process import end_with_input, own_session
from soulslab.errors import MissingDependencyError

_END_TIMEOUT_S: Final = 5.0
_READ_ONLY: Final = "--read-only"


@contextmanager
def companion(
    root: Path, page: str, print_line: Callable[[str], None], *, is_read_only: bool = False
) -> Iterator[None]:
    """Serve a dashboard in another process while the block runs, and print the link to a page of it.

    ``is_read_only`` leaves out the controls, as for a folder that is removed at the end. Raises MissingDependencyError
    without NiceGUI.
    """
    if find_spec("nicegui") is None:
        raise MissingDependencyError("nicegui", "dashboard")
    options = [_READ_ONLY] if is_read_only else []
    command = [sys.executable, "-m", "soulslab.dashboard.companion", str(root), page, *options]
    process = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **own_session()
    )
    try:
        threading.Thread(
            target=_print_link, args=(process, print_line), name="soulslab-dashboard-link", daemon=True
        ).start()
        yield
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _print_link(process: subprocess.Popen[str], print_line: Callable[[str], None]) -> None:
    """Print the link once the server listens; the command goes on meanwhile."""
    if process.stdout is not None:
        with process.stdout:
            link = process.stdout.readline().strip()
        if link:
            print_line(f"the dashboard is at {link}")


def main(root: str, page: str, option: str = "") -> None:
    """Serve a dashboard until standard input is closed."""
    # Imported here, because the process of the command does not need NiceGUI, which takes two seconds.
    from soulslab.dashboard.server import DashboardOptions, serve_dashboard  # noqa: PLC0415

    end_with_input()

    def print_link(link: str) -> None:
        sys.stdout.write(f"{link}\n")
        sys.stdout.flush()

    serve_dashboard(DashboardOptions(root=Path(root), is_read_only=option == _READ_ONLY), print_link, page)


if __name__ == "__main__":
    main(*sys.argv[1:])
