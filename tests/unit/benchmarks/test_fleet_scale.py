"""Needs of large fleets, computed from the measured numbers of small ones."""

import json
from pathlib import Path

import pytest

from benchmarks.fleet_scale import ScaleSettings, compute_scale
from benchmarks.result import as_rows
from soulslab.errors import ConfigError

RESULTS = Path(__file__).parents[3] / "docs" / "results"

MEASURED = [
    {"table": "a learner", "games": "the learner alone", "updates/s": 200},
    {"table": "processor time", "games": "the learner alone", "updates": 50},
    {
        "table": "many games at 10 steps per second each",
        "games": 200,
        "messages/s": 2000,
        "server, % of a core": 10,
        "learner, % of a core": 20,
    },
]


def test_needs_grow_with_the_number_of_games(tmp_path):
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(MEASURED))
    one, hundred, many = compute_scale(ScaleSettings(results=path)).rows
    assert [row["steps/s"] for row in (one, hundred, many)] == [10, 1000, 100_000]
    assert hundred["server, cores"] == pytest.approx(0.05)  # 50 us for each message
    assert many["server, cores"] == pytest.approx(5.0)
    assert hundred["taking, cores"] == pytest.approx(0.1)
    assert one["updates for each step"] == 2.0
    assert hundred["updates for each step"] == 0.4  # 400 updates/s of a whole core
    name = "parts that need more than their core"
    assert [row[name] for row in (one, hundred, many)] == ["-", "updates", "updates, taking, server"]
    # All games together fetch weights at a bounded rate.
    assert many["weights out, Mbit/s"] <= 800.0 < many["games"] * one["weights out, Mbit/s"]


def test_a_file_of_another_benchmark_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not a result of the benchmark fleet"):
        compute_scale(ScaleSettings(results=tmp_path / "missing.json"))


def test_the_table_of_the_documentation_belongs_to_the_measurements_beside_it():
    computed = as_rows([compute_scale(ScaleSettings(results=RESULTS / "fleet.json"))])
    stored = json.loads((RESULTS / "fleet-scale.json").read_text())
    command = "python -m benchmarks fleet-scale --json docs/results/fleet-scale.json"
    assert [row | {"machine": None} for row in stored] == [row | {"machine": None} for row in computed], command
