"""Tables and rows of benchmarks."""

import json
from io import StringIO

from rich.console import Console

from benchmarks.result import MoreThan, Result, as_rows, as_table, machine, machine_line

RESULT = Result(
    title="a title",
    rows=[
        {"who": "a long name", "steps/s": 1_234_567, "time (s)": 1.2345, "reached": True, "rate": MoreThan(330.0)},
        {"who": "b", "steps/s": 7, "time (s)": 123.45, "reached": None, "rate": 0.5},
    ],
)


def printed(result, width):
    console = Console(file=StringIO(), width=width)
    console.print(as_table(result))
    return console.file.getvalue()


def test_cells_are_formatted():
    lines = printed(RESULT, 100).splitlines()
    assert lines[0].strip() == "a title"
    assert lines[-2].split() == ["a", "long", "name", "1,234,567", "1.23", "yes", ">", "330"]
    assert lines[-1].split() == ["b", "7", "123", "-", "0.50"]


def test_a_narrow_terminal_does_not_cut_numbers():
    text = printed(RESULT, 44)
    assert "…" not in text
    assert "1,234,567" in text


def test_rows_contain_their_table_and_the_machine():
    first, second = json.loads(json.dumps(as_rows([RESULT])))
    assert first["table"] == second["table"] == "a title"
    assert first["machine"] == machine()
    assert (first["steps/s"], first["reached"], first["rate"]) == (1_234_567, True, "> 330")
    assert second["reached"] is None


def test_the_machine_in_one_line():
    about = machine()
    assert about["cores"] >= 1
    assert about["cpu"]
    assert all(f"{name} {about[name]}" in machine_line() for name in ("python", "numpy", "numba", "torch"))
