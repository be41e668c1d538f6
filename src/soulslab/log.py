"""Logging, set up once by the command line; importing soulslab as a library configures nothing."""

from __future__ import annotations

import logging

# Levels of soulslab's own loggers and of everybody else's, by how often -v was given.
_LEVELS = ((logging.INFO, logging.WARNING), (logging.DEBUG, logging.INFO), (logging.DEBUG, logging.DEBUG))
_HANDLER_NAME = "soulslab"


def configure(verbosity: int = 0) -> None:
    """Send log records and Python warnings to standard error; a second call replaces the first.

    Args:
        verbosity: 0 for what a user wants to know, 1 (-v) for details too, 2 (-vv) for everything of every
            library.
    """
    # Not at the top: rich takes longer to import than `soulslab --help` takes to answer.
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
