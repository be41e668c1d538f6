import os
import shutil
import subprocess
import sys
from pathlib import Path

import soulslab.arena.kernel as kernel_module

SOURCE = Path(kernel_module.__file__)


def cache_dir(**environment):
    """Return what a fresh process would use as its cache folder."""
    code = "from soulslab.arena.kernel import CACHE_DIR; print(CACHE_DIR)"
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | environment
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_compiled_kernels_are_kept_per_user(tmp_path):
    assert Path(cache_dir(XDG_CACHE_HOME=str(tmp_path))).parent == tmp_path / "soulslab"
    assert Path(cache_dir(NUMBA_CACHE_DIR=str(tmp_path / "own"))).parent == tmp_path / "own"


def test_without_a_writable_folder_nothing_is_cached(tmp_path):
    (tmp_path / "file").touch()
    assert cache_dir(XDG_CACHE_HOME=str(tmp_path / "file")) == "None"


def test_any_change_of_the_rules_changes_the_folder(tmp_path, monkeypatch):
    """numba itself would not notice a change in a rule that another file's kernel inlines."""
    copy = tmp_path / "arena"
    copy.mkdir()
    for source in SOURCE.parent.glob("*.py"):
        shutil.copy(source, copy)
    monkeypatch.setattr(kernel_module, "__file__", str(copy / "kernel.py"))
    monkeypatch.setattr(kernel_module.config, "CACHE_DIR", str(tmp_path / "cache"))
    before = kernel_module._cache_dir()
    assert before == kernel_module._cache_dir()
    with (copy / "boss.py").open("a") as file:
        file.write("# another rule\n")
    assert kernel_module._cache_dir() != before
