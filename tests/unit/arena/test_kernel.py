import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import soulslab.arena.kernel as kernel_module
from soulslab.arena.duel_rules import begin
from support.waiting import PATIENCE_S

SOURCE = Path(kernel_module.__file__)


def cache_dir(**environment):
    """Return the cache folder of a new process."""
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
    """numba alone does not detect a change of a rule that a kernel of another file inlines."""
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


#: Resets a fight when three processes are ready; prints how many times it compiled the kernel of the reset.
WORKER = """
import logging, sys, time
from pathlib import Path
import numpy as np
from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.simulator import FightOptions, Simulator, reset_duels
logging.basicConfig(level=logging.INFO, format="%(message)s")
folder = Path(sys.argv[1])
(folder / f"ready{sys.argv[2]}").touch()
while len(list(folder.glob("ready*"))) < 3:
    time.sleep(0.001)
simulator = Simulator(load_boss("judge", list(load_knight().knock_backs)), 1, FightOptions())
simulator.reset(np.ones(1, np.bool_))
print(sum(reset_duels.stats.cache_misses.values()))
"""


def test_processes_that_start_together_compile_once(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path), str(number)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    ends = [worker.communicate(timeout=PATIENCE_S) for worker in workers]
    assert sorted(out.strip() for out, _ in ends) == ["0", "0", "1"], ends
    assert "".join(said for _, said in ends).count("compiling the rules of the fight, once per machine") == 1


#: Compiles a kernel of 22 functions, in a process whose logging is configured by the code before it.
FUNCTIONS = """
from soulslab.arena.kernel import kernel, rule
@rule
def rule_0(x):
    return x
{rules}
@kernel
def run(x):
    return rule_20(x)
print("result", run(0))
"""
RULES = "".join(f"@rule\ndef rule_{n}(x):\n    return rule_{n - 1}(x) + 1\n" for n in range(1, 21))
ANNOUNCED = "compiling the rules of the fight, once per machine; this takes about 10 s"


def compiling(tmp_path, logging_setup):
    """Return a command that compiles, and its environment, with an empty cache in a folder."""
    program = tmp_path / "program.py"
    program.write_text(f"import logging\n{logging_setup}{FUNCTIONS.format(rules=RULES)}")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "200"}
    return [sys.executable, str(program)], {**environment, "NUMBA_DISABLE_JIT": "0"}


@pytest.mark.parametrize(
    ("logging_setup", "lines"),
    [
        ("", [f"soulslab: {ANNOUNCED}", "soulslab: 20 functions compiled"]),
        ("logging.basicConfig(level=logging.INFO, format='%(message)s')", [ANNOUNCED]),
        ("logging.basicConfig()", []),  # only warnings
    ],
)
def test_a_compilation_is_announced_once(tmp_path, logging_setup, lines):
    command, environment = compiling(tmp_path, logging_setup)
    for expected in (lines, []):  # the second process loads the functions from the cache
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "result 20\n"
        assert done.stderr.splitlines() == expected


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("logging_setup", ["", "from soulslab.log import configure; configure()"])
def test_a_terminal_shows_the_number_of_compiled_functions(tmp_path, logging_setup):
    from support.pty import Pty  # noqa: PLC0415 - only on POSIX

    command, environment = compiling(tmp_path, logging_setup)
    terminal = Pty(columns=200)
    subprocess.run(command, env=environment, stderr=terminal.slave, stdout=subprocess.DEVNULL, check=True)
    terminal.wait_for(r"functions compiled: 22\r +\r")
    shown = terminal.output()
    assert shown.count("compiling the rules of the fight") == 1
    assert re.findall(r"\rfunctions compiled: (\d+)", shown) == [str(n) for n in range(1, 23)]
    end = terminal.position()
    subprocess.run(command, env=environment, stderr=terminal.slave, stdout=terminal.slave, check=True)
    terminal.wait_for("result 20", after=end)
    assert terminal.output()[end:].strip() == "result 20"
    terminal.close()


def test_a_rule_that_python_calls_is_an_error_and_no_crash():
    if kernel_module.config.DISABLE_JIT:
        pytest.skip("without numba a rule is a plain function")
    with pytest.raises(TypeError, match="begin is a rule, which only kernels can call"):
        begin(np.zeros(1), np.zeros(1))
