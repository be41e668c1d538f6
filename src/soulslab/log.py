"""Logging setup of the command line; importing soulslab as a library does not change logging."""

from __future__ import annotations

import logging

# Log levels of soulslab's loggers and of all other loggers, by the number of -v options.
_LEVELS = ((logging.INFO, logging.WARNING), (logging.DEBUG, logging.INFO), (logging.DEBUG, logging.DEBUG))
_HANDLER_NAME = "soulslab"


def configure(verbosity: int = 0) -> None:
    """Write log records and Python warnings to standard error; a second call replaces the first.

    Args:
        verbosity: 0 for messages to users, 1 (-v) for details, 2 (-vv) for all messages of all libraries.
    """
    # Imported here because rich takes longer to import than `soulslab --help` takes to answer.
    from rich.console import Console  # noqa: PLC0415
    from rich.logging import RichHandler  # noqa: PLC0415

    own, others = _LEVELS[min(max(verbosity, 0), len(_LEVELS) - 1)]
    handler = RichHandler(console=Console(stderr=True), show_time=verbosity > 0, show_path=verbosity > 1)
    handler.set_name(_HANDLER_NAME)
    root = logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == _HANDLER_NAME]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(others)
    logging.getLogger("soulslab").setLevel(own)
    logging.captureWarnings(capture=True)
