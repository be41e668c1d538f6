"""Output of a self-check: a table for the terminal, and rows for a file."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from soulslab.errors import cut
from soulslab.games.self_check import AttributeCheck, SelfCheck, Verdict
from soulslab.siphon.profile import Value
from soulslab.siphon.terminal_output import format_value

#: Maximum length of a source's name in the table.
SOURCE_LENGTH = 48
_STYLES = {Verdict.OK: "green", Verdict.NOT_LOADED: "yellow", Verdict.OTHER_VERSION: "dim"}


def check_table(check: SelfCheck) -> Group:
    """Return a table with a row for each attribute, and a summary."""
    table = Table(box=None, pad_edge=False)
    for title in ("attribute", "needed", "address", "value", "unit", "verdict", "reason, and other sources"):
        table.add_column(title, overflow="fold")
    for row in check.rows:
        table.add_row(
            Text(row.name),
            "yes" if row.is_needed else "",
            f"{row.address:#x}" if row.address else "",
            Text(format_value(row.value) if row.value is not None else ""),
            Text(row.unit),
            Text(row.verdict.value, style=_STYLES.get(row.verdict, "bold red")),
            Text(_notes(row)),
        )
    return Group(table, "", Text("\n".join(summary(check))))


def summary(check: SelfCheck) -> list[str]:
    """Return the lines of the summary of a self-check."""
    version = f"version {check.version}" if check.version else "no version"
    known = "" if check.is_known_version else ", which the profile does not know"
    looks = f"{check.n_looks} reads in {check.span_s:.2g} s of game time"
    lines = [f"{check.game}, {version}{known}: {looks}; nothing was written"]
    counts = {verdict: [row for row in check.rows if row.verdict is verdict] for verdict in Verdict}
    lines.append("; ".join(f"{len(rows)} {verdict.value}" for verdict, rows in counts.items() if rows))
    if counts[Verdict.NOT_LOADED]:
        lines.append("Some attributes are not loaded: load a character, stand near the enemy, and check again.")
    failed = [row.name for row in check.rows if row.is_needed and row.verdict is not Verdict.OK]
    lines.append(f"needed and not ok: {', '.join(failed)}" if failed else "all needed attributes are ok")
    return lines


def check_rows(check: SelfCheck) -> list[dict[str, Any]]:
    """Return a self-check as rows of plain values; each row also has the game and its version."""
    return [
        {
            "game": check.game,
            "version": check.version,
            "attribute": row.name,
            **{name: getattr(row, name) for name in row.__struct_fields__[1:]},
            "verdict": row.verdict.value,
            "value": _plain(row.value),
            "others": [msgspec.structs.asdict(other) for other in row.others],
            "versions": list(row.versions),
        }
        for row in check.rows
    ]


def _notes(row: AttributeCheck) -> str:
    """Return the reason, and for an attribute with alternatives the one in use; the file contains all details."""
    access = [] if row.is_writable else ["read-only"]
    reason = [row.reason] if row.reason else []
    in_use = [f"uses: {cut(row.source, SOURCE_LENGTH)}"] if row.others else []
    others = [f"{other.outcome}: {cut(other.source, SOURCE_LENGTH)}" for other in row.others]
    return "; ".join([*reason, *in_use, *others, *access])


def _plain(value: Value) -> Any:
    """Return a value that JSON can represent."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value.hex() if isinstance(value, bytes) else value
