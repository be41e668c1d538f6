"""The examples of the documentation are valid: Python imports exist, and training on a game does not evaluate.

``tests/integration/test_house.py`` parses and runs the command lines.
"""

from __future__ import annotations

import ast
import re
import shlex
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from pydoc import locate
from types import ModuleType

import docstring_parser
import msgspec
import pytest
import yaml

from soulslab import cli
from soulslab.learn.configs import config_path
from soulslab.learn.training import load_new_run_settings

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
#: Configs in examples that the reader writes.
OWN_CONFIGS = {"my.toml", "best.toml"}
#: Environments that may evaluate in 200 environments at once.
SIMULATORS = {"soulslab/Arena-v0", "CartPole-v1"}


def blocks(page, *languages):
    """Return the code blocks of the given languages on a page."""
    return re.findall(
        rf"^```(?:{'|'.join(languages)})\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def command_lines(page):
    """Return the command lines of soulslab, without comments."""
    text = "\n".join(blocks(page, "bash", "sh")).replace("\\\n", " ")
    lines = [shlex.split(line.partition(" < ")[0], comments=True) for line in text.splitlines()]
    return [words[1:] for words in lines if words[:1] == ["soulslab"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_import_existing_names(page):
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("soulslab"):
                module = import_module(node.module)
                for name in node.names:
                    exists = hasattr(module, name.name) or find_spec(f"{node.module}.{name.name}")
                    assert exists, f"{page.name}: {node.module} has no {name.name}"


def training_flags(page):
    """Return the flags of each command on a page that starts a new run."""
    for words in command_lines(page):
        if words[:1] == ["train"] or words[:2] == ["fleet", "learn"]:
            _, bound, *_ = cli.app.parse_args(words, print_error=False, exit_on_error=False)
            if bound.arguments["flags"].resume is None:
                yield bound.arguments["flags"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_training_on_a_game_never_starts_further_games_to_evaluate(page):
    for flags in training_flags(page):
        if flags.config is not None and flags.config.parts[-1] in OWN_CONFIGS:
            continue
        env = [f"env.id={flags.env}"] if getattr(flags, "env", None) else []
        config = config_path(flags.config) if flags.config is not None else None
        settings = load_new_run_settings(config, [*env, *(flags.overrides or [])])
        if settings.env.id not in SIMULATORS:
            assert settings.run.evaluate_every == 0, (page.name, settings.env.id)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_rows_of_a_table_have_as_many_cells_as_its_header(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for table in re.findall(r"(?:^\|.*\n)+", re.sub(r"`[^`\n]*`", "", text), re.MULTILINE):
        rows = table.splitlines()
        n_cells = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
        assert n_cells == [n_cells[0]] * len(rows), f"{page.name}: {rows[0]}"


def test_pages_contain_examples():
    assert sum(len(blocks(page, "python")) for page in PAGES) > 20
    assert sum(len(command_lines(page)) for page in PAGES) > 20


def documented_structs():
    """Return the structs that the pages document from their docstrings."""
    for page in PAGES:
        for name, options in re.findall(r"^::: (\S+)\n((?: .*\n)*)", page.read_text(encoding="utf-8"), re.MULTILINE):
            shown = locate(name)
            if isinstance(shown, ModuleType):
                members = (yaml.safe_load(options) or {"options": {}})["options"].get("members", vars(shown))
                found = [getattr(shown, member) for member in members or ()]
                kinds = [each for each in found if getattr(each, "__module__", "").startswith(name)]
            else:
                kinds = [shown]
            yield from (each for each in kinds if isinstance(each, type) and issubclass(each, msgspec.Struct))


def test_documented_structs_describe_each_field():
    kinds = [kind for kind in documented_structs() if not kind.__name__.startswith("_")]
    assert len(kinds) > 20
    for kind in kinds:
        described = docstring_parser.parse(kind.__doc__, docstring_parser.DocstringStyle.GOOGLE).params
        own = [name for name in kind.__struct_fields__ if name in kind.__annotations__]
        assert set(own) <= {entry.arg_name for entry in described if entry.description}, kind


def test_licence_page_lists_every_runtime_package():
    listed = set(
        re.findall(r"^\| `([\w.-]+)`", (ROOT / "docs" / "licences.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for requirement in metadata.requires("soulslab"):
        extra = re.search(r"extra == [\"'](\w+)[\"']", requirement)
        if extra is None or extra[1] in {"siphon", "window", "learn", "tune", "fleet", "dashboard"}:
            assert re.match(r"[\w.-]+", requirement)[0] in listed
