"""A benchmark that is ended leaves no process behind."""

import subprocess
import sys

import psutil

from benchmarks.child_process import child_environment
from soulslab.cli import EXIT_INTERRUPTED
from support.waiting import PATIENCE_S, wait_for


def test_sigterm_ends_the_runs_of_a_benchmark(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "learner", "--only", "soulslab", "--seeds", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=child_environment(), stderr=subprocess.PIPE, text=True) as process:
        parent = psutil.Process(process.pid)
        [worker] = wait_for(
            lambda: [child for child in parent.children() if child.cpu_times().user > 0.1], "the process of a run"
        )
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == EXIT_INTERRUPTED, said
    psutil.wait_procs([worker], timeout=PATIENCE_S)
    assert not worker.is_running()
