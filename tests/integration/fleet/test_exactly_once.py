"""Processes that are killed at random: nothing acknowledged is lost, and nothing is taken twice."""

import sys

import pytest

from benchmarks.fleet_chaos import ChaosSettings, run_chaos

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def test_kills_and_interruptions_lose_and_repeat_nothing(tmp_path):
    report = run_chaos(tmp_path, ChaosSettings(n_kills=15, n_freezes=1))
    assert sum(report.n_kills.values()) == 15
    assert report.n_rows > 0
    assert (report.n_acknowledged_lost, report.n_repeated, report.n_gaps) == (0, 0, 0)
