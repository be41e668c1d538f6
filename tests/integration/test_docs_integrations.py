"""Every script on the integrations page runs in an empty folder; the set-up installs all libraries."""

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
#: The library that each script shows.
LIBRARIES = ("sb3_contrib", "stable_baselines3", "torch", "ray", "torchrl", "minari", "soulslab.report")


def test_the_page_has_a_script_for_each_library_and_all_are_installed():
    assert len(SCRIPTS) == len(LIBRARIES)
    assert all(library in code for library, code in zip(LIBRARIES, SCRIPTS, strict=True))
    assert {name for code in SCRIPTS for name in packages(code) if not find_spec(name)} == set()


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


COLLECT = """
import gymnasium
import minari
import numpy as np

import soulslab
from soulslab.envs.wrappers import UniformInfo

env = gymnasium.make("soulslab/Arena-v0", max_episode_steps=40)
env = minari.DataCollector(UniformInfo(env), record_infos=True)
for seed in range(2):
    _, info = env.reset(seed=seed)
    is_over = False
    while not is_over:
        *_, terminated, truncated, info = env.step(19)
        is_over = terminated or truncated
data = env.create_dataset("arena/nothing-v0")
assert data.total_episodes == 2
for episode in data:
    n_steps = len(episode.actions)
    assert episode.infos["action_mask"].shape == (n_steps + 1, 20)
    np.testing.assert_array_equal(episode.infos["fight"]["n_decisions"], [0] * n_steps + [n_steps])
"""


def test_the_collector_of_minari_records_all_infos(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    run([COLLECT], tmp_path)


def uses_ray(code):
    return "ray" in packages(code)


def test_the_scripts_run(tmp_path):
    run([code for code in SCRIPTS if not uses_ray(code)], tmp_path)


@pytest.mark.long
def test_the_script_with_ray_runs(tmp_path):
    """Ray starts its processes for half a minute; `test_rllib.py` has the short form."""
    run([code for code in SCRIPTS if uses_ray(code)], tmp_path)
