"""What the pages show exists: every block of Python imports what there is, every command line is one."""

from __future__ import annotations

import ast
import re
import shlex
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from soulslab import cli

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]


def blocks(page, *kinds):
    """Return the blocks of some kinds on a page."""
    return re.findall(
        rf"^```(?:{'|'.join(kinds)})\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def command_lines(page):
    """Return the command lines of soulslab, without the remarks behind them."""
    text = "\n".join(blocks(page, "bash", "sh")).replace("\\\n", " ")
    lines = [shlex.split(line.partition(" < ")[0], comments=True) for line in text.splitlines()]
    return [words[1:] for words in lines if words[:1] == ["soulslab"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_python_imports_what_there_is(page):
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("soulslab"):
                module = import_module(node.module)
                for name in node.names:
                    is_there = hasattr(module, name.name) or find_spec(f"{node.module}.{name.name}")
                    assert is_there, f"{page.name}: {node.module} has no {name.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_line_is_one(page):
    for words in command_lines(page):
        cli.app.parse_args(words, print_error=False, exit_on_error=False)


def test_there_are_some():
    assert sum(len(blocks(page, "python")) for page in PAGES) > 20
    assert sum(len(command_lines(page)) for page in PAGES) > 20


def test_the_licence_page_lists_every_package_that_a_user_installs():
    listed = set(
        re.findall(r"^\| `([\w.-]+)`", (ROOT / "docs" / "licences.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for requirement in metadata.requires("soulslab"):
        extra = re.search(r"extra == [\"'](\w+)[\"']", requirement)
        if extra is None or extra[1] in {"siphon", "window", "learn", "tune"}:
            assert re.match(r"[\w.-]+", requirement)[0] in listed
