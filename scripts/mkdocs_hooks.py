"""What the documentation takes from the code itself, each time it is built.

A line ``<!-- settings: soulslab.learn.settings:TrainSettings -->`` becomes the table of that type's settings.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from soulslab.config import describe_settings

_MARKER = re.compile(r"^<!-- settings: (?P<module>[\w.]+):(?P<name>\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put tables in the place of their markers; mkdocs calls this for each page."""
    return _MARKER.sub(lambda marker: settings_table(marker["module"], marker["name"]), markdown)


def settings_table(module: str, name: str) -> str:
    """Return the settings of a type as a Markdown table.

    Args:
        module: Where the type is.
        name: The type.
    """
    rows = describe_settings(getattr(importlib.import_module(module), name))
    lines = ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    for row in rows:
        default = f"`{row.default}`" if row.default else "(required)"
        cells = (f"`{row.path}`", row.type, default, row.doc)
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines)
