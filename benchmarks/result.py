"""What a benchmark hands back: rows that a terminal shows and a JSON file keeps, with the machine they are of."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any, TypeAlias

import msgspec
from rich.table import Table

PACKAGES = ("numpy", "numba", "torch")
CPU_INFO = Path("/proc/cpuinfo")


class MoreThan(msgspec.Struct, frozen=True):
    """A number that was not reached: a time limit that passed, a ratio of which only this much is known.

    Attributes:
        value: It would have been more than this.
    """

    value: float


Cell: TypeAlias = str | int | float | bool | MoreThan | None
Row: TypeAlias = dict[str, Cell]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a benchmark.

    Attributes:
        title: What was measured, and how.
        rows: From column name, with its unit, to cell; at least one row, and all with the columns of the first.
    """

    title: str
    rows: list[Row]


def as_table(result: Result) -> Table:
    """Return a result for a terminal."""
    table = Table(title=result.title, title_justify="left", box=None, pad_edge=False)
    columns = list(result.rows[0])
    for name in columns:
        cells = [row[name] for row in result.rows]
        if all(isinstance(cell, str) for cell in cells):
            table.add_column(name)
        else:
            # Headings take as many lines as they need, so that a narrow terminal breaks texts but cuts no number.
            width = max(len(word) for word in [*map(_text, cells), *name.split()])
            table.add_column(fill(name, width), justify="right", no_wrap=True)
    for row in result.rows:
        table.add_row(*(_text(row[name]) for name in columns))
    return table


def as_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return results for a JSON file: the cells of each row, its table's title, and the machine.

    A number that was not reached becomes ``"> 330"``.
    """
    about = machine()
    return [
        {"table": result.title, **{name: _plain(cell) for name, cell in row.items()}, "machine": about}
        for result in results
        for row in result.rows
    ]


def machine() -> dict[str, str | int]:
    """Return what the numbers depend on: the processor, its cores, and the versions of what computes."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES if find_spec(name)},
    }


def machine_line() -> str:
    """Return `machine` in one line."""
    about = machine()
    versions = ", ".join(f"{name} {about[name]}" for name in ("python", *PACKAGES) if name in about)
    return f"{about['cpu']}, {about['cores']} cores, {about['system']}; {versions}"


def _cpu_model() -> str:
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _plain(cell: Cell) -> str | int | float | bool | None:
    return _text(cell) if isinstance(cell, MoreThan) else cell


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return "-"
        case str():
            return cell
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case MoreThan(value=value):
            return f"> {_number(value)}"
        case _:
            return _number(cell)


def _number(value: float) -> str:
    """Return three digits of a small number, and no fraction of a large one."""
    size = abs(value)
    digits = 2 if size < 10 else 1 if size < 100 else 0
    return f"{value:,.{digits}f}"
