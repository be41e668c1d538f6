"""Every script on the integrations page whose libraries are installed runs in an empty folder."""

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


SCRIPTS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
RUNNABLE = [code for code in SCRIPTS if all(find_spec(name) for name in packages(code))]


def test_the_page_has_scripts():
    assert len(SCRIPTS) >= 7
    assert len(RUNNABLE) >= 4


#: Runs scripts one after the other, because most of their time is that of their imports; prints the name of each.
RUN = """
import os, runpy, sys
for script in sys.argv[1:]:
    print(script, file=sys.stderr, flush=True)
    os.chdir(os.path.dirname(script))
    runpy.run_path(script, run_name="__main__")
"""


def run(scripts, folder):
    """Run scripts in one process, each in a folder of its own."""
    paths = []
    for number, code in enumerate(scripts):
        path = folder / str(number) / f"{'-'.join(sorted(packages(code)))}.py"
        path.parent.mkdir()
        path.write_text(code, encoding="utf-8")
        paths.append(str(path))
    command = [sys.executable, "-c", RUN, *paths]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr


def uses_ray(code):
    return "ray" in packages(code)


def test_the_scripts_run(tmp_path):
    run([code for code in RUNNABLE if not uses_ray(code)], tmp_path)


@pytest.mark.long
def test_the_script_with_ray_runs(tmp_path):
    """Ray starts its processes for half a minute; `test_rllib.py` has the short form."""
    pytest.importorskip("ray")
    run([code for code in RUNNABLE if uses_ray(code)], tmp_path)
