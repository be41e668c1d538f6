"""Every script on the integrations page whose library is installed runs in an empty folder."""

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
#: Packages that a library imports only on use.
ALSO_NEEDED = {"minari": "jax"}


def packages(code):
    """Return the top-level packages that a script needs."""
    nodes = list(ast.walk(ast.parse(code)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    found = {name.partition(".")[0] for name in names}
    return found | {ALSO_NEEDED[name] for name in found if name in ALSO_NEEDED}


def name_of(code):
    return "-".join(sorted(packages(code) - {"soulslab", "gymnasium", "os", "pathlib"}))


SCRIPTS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
RUNNABLE = [code for code in SCRIPTS if all(find_spec(name) for name in packages(code))]


def test_the_page_has_scripts():
    assert len(SCRIPTS) >= 7
    assert len(RUNNABLE) >= 4


def marks(code):
    """Ray starts its processes for half a minute; `test_rllib.py` has the short form."""
    return [pytest.mark.long] if "ray" in packages(code) else []


@pytest.mark.parametrize("code", [pytest.param(code, id=name_of(code), marks=marks(code)) for code in RUNNABLE])
def test_a_script_runs(code, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(code, encoding="utf-8")
    command = [sys.executable, str(script)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
