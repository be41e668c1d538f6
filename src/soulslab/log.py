"""Logging setup of the command line; importing soulslab as a library does not change logging."""

from __future__ import annotations

import logging
from typing import Any

from rich.console import Console
from rich.logging import RichHandler
from rich.text import Text

# Log levels of soulslab's loggers and of all other loggers, by the number of -v options.
_LEVELS = ((logging.INFO, logging.WARNING), (logging.DEBUG, logging.INFO), (logging.DEBUG, logging.DEBUG))
_FORMATS = ("%(message)s", "[%(asctime)s] %(message)s", "[%(asctime)s] %(message)s  %(filename)s:%(lineno)d")
_HANDLER_NAME = "soulslab"


def configure(verbosity: int = 0) -> None:
    """Write log records and Python warnings to standard error; a second call replaces the first.

    Args:
        verbosity: 0 for messages to users, 1 (-v) for details, 2 (-vv) for all messages of all libraries.
    """
    verbosity = min(max(verbosity, 0), len(_LEVELS) - 1)
    own, others = _LEVELS[verbosity]
    handler = _LineHandler(console=Console(stderr=True, soft_wrap=True))
    handler.setFormatter(logging.Formatter(_FORMATS[verbosity], "%X"))
    handler.set_name(_HANDLER_NAME)
    root = logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == _HANDLER_NAME]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(others)
    logging.getLogger("soulslab").setLevel(own)
    logging.captureWarnings(capture=True)


class _LineHandler(RichHandler):
    """Writes a message without further line breaks, so that commands and paths in it can be copied."""

    def render(self, *, record: logging.LogRecord, message_renderable: Any, **_: Any) -> Text:
        return Text.assemble(self.get_level_text(record), " ", message_renderable)
