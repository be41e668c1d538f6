"""The command line of the benchmarks."""

import json
from pathlib import Path

import pytest

import soulslab
from benchmarks.commands import BENCHMARKS, app, run
from benchmarks.result import Result
from soulslab.errors import FleetError, SoulslabError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "Unknown command"),
        (["arena", "--seeds", "1"], "Unknown option"),
        (["arena", "--steps", "0"], "Must be >= 1"),
        (["train", "--boss", "judge"], "Unknown option"),
        (["train", "--seeds", "1", "-1"], "Must be >= 0"),
        (["learner", "--components", "masks"], "Unknown option"),
        (["pixels", "--set", "learner.shift=4"], "learner.shift: unknown setting"),
    ],
)
def test_wrong_usage(capsys, arguments, words):
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err


def test_prints_a_table_and_writes_a_file(capsys):
    assert run(["fights", "--fights", "2", "--json", "fights.json"]) == 0
    assert "frost_beast" in capsys.readouterr().out
    rows = json.loads(Path("fights.json").read_text())
    assert {row["boss"] for row in rows} == {"frost_beast", "judge", "trickster"}
    assert all(row["fights"] == 2 and row["machine"]["cores"] for row in rows)


def test_a_failure_leaves_the_results_of_the_parts_before_it(monkeypatch, capsys):
    def measure(_):
        yield Result(title="chaos", rows=[{"games": 3}])
        raise FleetError("second part", "failed")

    monkeypatch.setattr("benchmarks.fleet_faults.measure_faults", measure)
    assert run(["fleet-faults", "--json", "faults.json"]) == 1
    captured = capsys.readouterr()
    assert "chaos" in captured.out
    assert "second part: failed" in captured.err
    assert [(row["table"], row["games"]) for row in json.loads(Path("faults.json").read_text())] == [("chaos", 3)]


def test_takes_the_path_of_a_boss_file(tmp_path, capsys):
    shipped = Path(soulslab.__file__).parent / "arena" / "bosses" / "judge.toml"
    own = tmp_path / "own.toml"
    own.write_bytes(shipped.read_bytes())
    assert run(["fights", "--fights", "2", "--boss", "own.toml", "--json", "fights.json"]) == 0
    assert {row["boss"] for row in json.loads(Path("fights.json").read_text())} == {"own.toml"}
    assert run(["fights", "--boss", "jugde"]) == 2
    assert "did you mean 'judge'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "words"),
    [("absent/x.json", "the folder absent does not exist"), ("folder", "it is a folder; name a file")],
)
def test_checks_the_json_file_before_the_measurement(capsys, path, words):
    Path("folder").mkdir()
    assert run(["fights", "--json", path]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"benchmarks: {path}: cannot be written: {words}\n"
    assert captured.out == ""


def test_all_runs_every_benchmark_with_a_json_file(monkeypatch):
    calls = {}
    for name in BENCHMARKS:
        monkeypatch.setitem(BENCHMARKS, name, lambda name=name, **options: calls.update({name: options}))
    assert run(["all", "--quick"]) == 0
    assert calls == {name: {"quick": True, "json": Path(f"bench-results/{name}.json")} for name in BENCHMARKS}


def test_all_checks_its_folder_first(capsys):
    Path("bench-results").touch()
    assert run(["all"]) == 2
    assert "bench-results: cannot be created: File exists" in capsys.readouterr().err


def test_benchmarks_continue_after_a_failure(monkeypatch, caplog):
    ran = []

    def fails(**_):
        raise SoulslabError("the machine has no such game")

    for name in BENCHMARKS:
        monkeypatch.setitem(BENCHMARKS, name, fails if name == "doom" else lambda name=name, **_: ran.append(name))
    assert run(["all", "--quick"]) == 1
    assert ran == [name for name in BENCHMARKS if name != "doom"]
    assert "doom: the machine has no such game" in caplog.text


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_a_command_with_quick_and_json(name):
    command, bound, *_ = app.parse_args([name, "--quick", "--json", "x.json"], exit_on_error=False)
    assert command is BENCHMARKS[name]
    assert bound.kwargs["quick"] is True
    assert bound.kwargs["json"] == Path("x.json")
