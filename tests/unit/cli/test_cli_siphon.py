"""``soulslab siphon``: help, and errors before a game is opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from soulslab import cli
from soulslab.cli import siphon_serve
from soulslab.cli.game_session import AttachFlags
from soulslab.cli.siphon_serve import ServeFlags
from soulslab.games import profile_path
from soulslab.siphon.profile import load_profile

NAMES = ("attach", "watch", "read", "write", "scan", "capture", "record", "serve", "verify", "compare")
NAMES += ("tap", "hold", "toggle", "move", "stream", "shell")


@pytest.fixture
def file(tmp_path):
    """A profile of a game that is not running."""
    file = tmp_path / "my_game.toml"
    file.write_text('name = "My game"\n[process]\nexecutable = "no_such_game_runs"\n')
    return file


def said(capsys):
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return " ".join(captured.err.replace("│", " ").split())


def test_help_names_every_command(capsys):
    assert cli.run(["siphon", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_flag_of_every_command_has_a_help_text(capsys, name):
    assert cli.run(["siphon", name, "--help"]) == 0
    rows = [row.strip("│ ") for row in capsys.readouterr().out.splitlines() if row.startswith("│")]
    flags = [row for row in rows if row.startswith(("--", "*"))]
    # A flag whose meaning is not told leaves nothing but its name, its type and its default.
    assert flags
    assert all(len(row.replace("*", "").split()) > 2 for row in flags)


def test_help_imports_no_large_packages():
    code = (
        "import sys; sys.argv = ['soulslab']; from soulslab.cli import run;"
        f"[run(['siphon', name, '--help']) for name in {NAMES}];"
        "heavy = ('numpy', 'cv2', 'grpc', 'h5py', 'hyperscan', 'xcffib', 'psutil', 'gymnasium', 'av');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["wacth", "doom"], 'Did you mean "watch"?'),
        (["attach"], "requires an argument"),
        (["tap", "doom", "W", "--hold-ms", "-1"], "Must be >= 0"),
        (["hold", "doom", "W", "--seconds", "0"], "Must be > 0"),
        (["move", "doom", "5"], "requires an argument"),
        (["move", "no_such_game", "-5", "-7"], "nor the name of a game"),
        (["stream", "doom", "frames", "--rate-hz", "0"], "Must be > 0"),
        (["attach", "no_such_game"], "nor the name of a game"),
        (["attach", "dom"], "did you mean 'doom'?"),
        (["attach", "doom", "--pid", "7", "--start"], "either names a running game or starts one"),
        (["attach", "doom", "--private"], "add --start"),
        (["attach", "doom", "--pid", "-7"], "Must be >= 0"),
        (["attach", "doom", "--start", "--option", "skill"], "is not of the form name=value"),
        (["attach", "doom", "--start", "--option", "skil=2"], "did you mean 'skill'"),
        (["attach", "doom", "--clock", "exact"], "Choose from"),
        (["attach", "doom", "--token-file", "token"], "doom is not an address"),
        (["read", "elden_ring", "boss.max_hp", "--boss", "godrik"], "did you mean 'godrick'"),
        (["read", "127.0.0.1:1", "--boss", "vordt"], "--boss: is for a game on this machine"),
        (["watch", "doom", "--rate-hz", "0"], "Must be > 0"),
        (["read", "127.0.0.1:1", "--token-file", "no_such_file"], "no_such_file: cannot be read"),
        (["read", "127.0.0.1:99999"], "neither host:port"),
        (["read", "127.0.0.1:1", "--pid", "5"], "--pid: is for a game on this machine"),
        (["read", "unix:/run/x.sock", "--clock", "realtime"], "--clock: is for a game on this machine"),
        (["write", "doom"], "needs at least one name=value"),
        (["record", "doom", "x.h5", "--rate-hz", "1001"], "Must be <= 1000"),
        (["record", "doom", "x.h5", "--frames", "gif"], "Choose from"),
        (["serve", "doom", "--allow-program", "/bin/ls"], "add --public"),
        (["serve", "doom", "--no-token", "--token-file", "t"], "disables tokens"),
        (["serve", "doom", "--address", "everywhere"], "neither host:port"),
        (["serve", "doom", "--start", "--private", "--address", "0.0.0.0:0"], "TLS is needed"),
        (["verify"], "needs at least one profile"),
        (["verify", "dom"], "did you mean 'doom'?"),
        (["verify", "doom", "no_such_game"], "nor the name of a game"),
        (["verify", "doom", "--episodes", "1"], "Must be >= 2"),
        (["verify", "doom", "--steps", "0"], "Must be >= 1"),
        (["verify", "doom", "--load", "-1"], "Must be >= 0"),
        (["verify", "doom", "--option", "skill"], "is not of the form name=value"),
        (["verify", "doom", "--json", "no/such/folder.json"], "the folder no/such does not exist"),
        (["verify", "doom", "--record", "no/such/folder"], "cannot be created"),
        (["verify", "doom", "doom", "--record", "traces"], "have the same name"),
        (["compare", "one.h5"], "requires an argument"),
        (["scan", "my_game"], "must be the TOML file"),
        (["scan", "new.toml"], "does not exist yet; name its game"),
        (["scan", "new.toml", "--pid", "7", "--", "game"], "either names a running game or starts one"),
        (["scan", "new.toml", "--private", "--pid", "7"], "add --start"),
    ],
)
def test_wrong_usage(capsys, arguments, words):
    assert cli.run(["siphon", *arguments]) == 2
    assert words in said(capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["attach"], "no process is called 'no_such_game_runs'"),
        (["scan"], "no process is called 'no_such_game_runs'"),
        (["attach", "--pid", str(2**22 + 1)], "is the game running?"),
    ],
)
def test_a_game_that_is_not_running_is_an_error(capsys, file, arguments, words):
    assert cli.run(["siphon", arguments[0], str(file), *arguments[1:]]) == 1
    assert words in said(capsys)


def test_a_missing_trace_is_an_error(capsys, tmp_path):
    assert cli.run(["siphon", "compare", str(tmp_path / "one.h5"), str(tmp_path / "two.h5")]) == 1
    assert "one.h5: cannot be read as a trace" in said(capsys)


def test_a_profile_without_keys_cannot_be_verified(capsys, file):
    assert cli.run(["siphon", "verify", str(file)]) == 2
    assert "keys: has no key" in said(capsys)


def test_an_unreachable_server_is_an_error(capsys, tmp_path):
    assert cli.run(["siphon", "attach", f"unix:{tmp_path}/nobody.sock"]) == 1
    assert "no server answers" in said(capsys)


def test_flags_of_a_new_profile_are_refused_for_an_existing_one(capsys, file):
    assert cli.run(["siphon", "scan", str(file), "--name", "Another"]) == 2
    assert "exists, so edit that file" in said(capsys)


def test_a_command_that_is_not_a_program_is_an_error(capsys, tmp_path):
    assert cli.run(["siphon", "scan", str(tmp_path / "new.toml"), "--", "no_such_program", "--help"]) == 1
    assert "the program 'no_such_program' is not installed" in said(capsys)
    assert not (tmp_path / "new.toml").exists()


def test_an_error_in_a_profile_is_reported(capsys, file):
    file.write_text(file.read_text() + "[attributes.hp]\ntype = 'i32'\n")
    assert cli.run(["siphon", "attach", str(file)]) == 2
    assert "attributes.hp" in said(capsys)


def test_public_clients_get_the_version_and_input_that_the_operator_chose():
    flags = AttachFlags(allow_unknown_version=True, input="pad")
    options = siphon_serve._public_options(load_profile(profile_path(Path("doom"))), flags, ServeFlags())
    assert (options.session.allow_unknown_version, options.session.input_backend) == (True, "pad")
