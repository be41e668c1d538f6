"""The benchmarks from the command line."""

import json
from pathlib import Path

import pytest

from soulslab import cli
from soulslab.bench.result import Result
from soulslab.bench.suite import BENCHMARKS, Benchmark, BenchOptions, check_options
from soulslab.errors import ConfigError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("arena", "seeds"),
        ("arena", "fights"),
        ("fights", "limit_s"),
        ("bosses", "steps"),
        ("train", "boss"),
        ("learner", "components"),
    ],
)
def test_an_option_that_would_change_nothing_is_an_error(name, option):
    options = BenchOptions(config=Path("demo.toml"), **{option: (1,) if option == "seeds" else 1})
    with pytest.raises(ConfigError, match=f"--{option.replace('_', '-')}: means nothing to bench {name}"):
        check_options(name, options)


def test_a_table_and_a_file(capsys):
    assert cli.run(["bench", "fights", "--fights", "2", "--json", "fights.json"]) == 0
    assert "frost_beast" in capsys.readouterr().out
    rows = json.loads(Path("fights.json").read_text())
    assert {row["boss"] for row in rows} == {"frost_beast", "judge", "trickster"}
    assert all(row["fights"] == 2 and row["machine"]["cores"] for row in rows)


def test_only_a_boss_of_ones_own(tmp_path, capsys):
    shipped = Path(cli.__file__).parents[1] / "arena" / "bosses" / "judge.toml"
    own = tmp_path / "own.toml"
    own.write_bytes(shipped.read_bytes())
    assert cli.run(["bench", "fights", "--fights", "2", "--boss", "own.toml", "--json", "fights.json"]) == 0
    assert {row["boss"] for row in json.loads(Path("fights.json").read_text())} == {"own.toml"}
    assert cli.run(["bench", "fights", "--boss", "jugde"]) == 2
    assert "did you mean 'judge'" in capsys.readouterr().err


def test_usage(capsys):
    assert cli.run(["bench", "nonsense"]) == 2
    assert cli.run(["bench", "arena", "--seeds", "1", "2"]) == 2
    assert "means nothing to bench arena" in capsys.readouterr().err


def test_all_passes_the_options_on_and_leaves_a_file_of_each(monkeypatch):
    asked = []

    def measure(options):
        asked.append(options)
        return [Result(title="t", rows=[{"x": len(asked)}])]

    for name, benchmark in BENCHMARKS.items():
        monkeypatch.setitem(BENCHMARKS, name, Benchmark(measure, benchmark.takes))
    assert cli.run(["bench", "all", "--quick", "--seeds", "1", "2", "--json", "all.json"]) == 0
    written = [json.loads(Path(f"bench-results/{name}.json").read_text())[0]["x"] for name in BENCHMARKS]
    assert written == list(range(1, len(BENCHMARKS) + 1))
    assert len(json.loads(Path("all.json").read_text())) == len(BENCHMARKS)
    assert all(options.is_quick and options.seeds == (1, 2) for options in asked)
