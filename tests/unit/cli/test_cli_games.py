"""``soulslab games``: its list, its errors, and a check of a served toy game."""

import json

import pytest

from soulslab import cli
from soulslab.games import known_games
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.testing.fake_session import FakeSession
from support.broken_output import broken_output


@pytest.fixture
def toys():
    with FakeSession() as session:
        yield session


@pytest.fixture
def address(toys, tmp_path):
    with serve(toys, ServerOptions(address=f"unix:{tmp_path}/s", needs_token=False)) as server:
        yield server.address


def test_the_games_are_listed(capsys):
    assert cli.run(["games", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(known_games())
    assert any("eldenring.exe" in line and "2.6.2.0" in line for line in lines)


def test_every_flag_has_a_help_text(capsys):
    assert cli.run(["games", "check", "--help"]) == 0
    rows = [row.strip("│ ") for row in capsys.readouterr().out.splitlines() if row.startswith("│")]
    flags = [row for row in rows if row.startswith(("--", "*"))]
    assert flags
    assert all(len(row.replace("*", "").split()) > 2 for row in flags)


def test_check_passes_for_a_matching_game(capsys, address, tmp_path):
    file = tmp_path / "check.json"
    assert cli.run(["games", "check", address, "--seconds", "0.1", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "all needed attributes are ok" in out
    rows = json.loads(file.read_text())
    assert {row["verdict"] for row in rows} == {"ok"}
    assert [row["attribute"] for row in rows][:2] == ["hp", "x"]


def test_the_file_is_written_before_the_table(address, tmp_path):
    file = tmp_path / "check.json"
    with broken_output(), pytest.raises(SystemExit, match="1"):
        cli.run(["games", "check", address, "--seconds", "0.1", "--json", str(file)])
    assert {row["verdict"] for row in json.loads(file.read_text())} == {"ok"}


def test_check_fails_for_needed_attributes_of_a_game_that_is_not_loaded(capsys, toys, address):
    toys.toy.is_loading = True
    assert cli.run(["games", "check", address, "--need", "hp"]) == 1
    out = capsys.readouterr().out
    assert "needed and not ok: hp" in out
    assert "load a character" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check"], "requires an argument"),
        (["check", "eldenring"], "did you mean 'elden_ring'"),
        (["check", "doom", "--looks", "1"], "Must be >= 2"),
        (["check", "doom", "--seconds", "0"], "Must be > 0"),
        (["check", "doom", "--json", "no/such/folder/x.json"], "the folder no/such/folder does not exist"),
        (["check", "127.0.0.1:1", "--pid", "5"], "--pid: is for a game on this machine"),
    ],
)
def test_wrong_usage(capsys, arguments, words):
    assert cli.run(["games", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in " ".join((captured.err + captured.out).replace("│", " ").split())
