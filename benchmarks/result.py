"""Results of benchmarks: tables for a terminal and rows for a JSON file, with a description of the machine."""

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
    """A lower bound of a number, as from a time limit.

    Attributes:
        value: The bound.
    """

    value: float


Cell: TypeAlias = str | int | float | bool | MoreThan | None
Row: TypeAlias = dict[str, Cell]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a benchmark.

    Attributes:
        title: Description of the measurement.
        rows: Cells by column name with unit; at least one row, all with equal columns.
    """

    title: str
    rows: list[Row]


def as_table(result: Result) -> Table:
    """Return a result as a table for a terminal."""
    table = Table(title=result.title, title_justify="left", box=None, pad_edge=False)
    columns = list(result.rows[0])
    for name in columns:
        cells = [row[name] for row in result.rows]
        if all(isinstance(cell, str) for cell in cells):
            table.add_column(name)
        else:
            # Headings are wrapped, so that a narrow terminal does not cut numbers.
            width = max(len(word) for word in [*map(_text, cells), *name.split()])
            table.add_column(fill(name, width), justify="right", no_wrap=True)
    for row in result.rows:
        table.add_row(*(_text(row[name]) for name in columns))
    return table


def as_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return results for a JSON file: the cells of each row, its table's title, and the machine.

    A lower bound becomes ``"> 330"``.
    """
    about = machine()
    return [
        {"table": result.title, **{name: _plain(cell) for name, cell in row.items()}, "machine": about}
        for result in results
        for row in result.rows
    ]


def machine() -> dict[str, str | int]:
    """Return the processor, the number of cores, the system and the versions of numerical packages."""
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
    """Return a number with three significant digits; a large one without a fraction."""
    size = abs(value)
    digits = 2 if size < 10 else 1 if size < 100 else 0
    return f"{value:,.{digits}f}"
