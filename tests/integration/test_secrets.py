"""The token of a server is in no file that a command writes, in no output and in no list of processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from soulslab import cli
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.testing.fake_arena import FakeArenaSession

TOKEN = "q7Zt-not-to-be-written-anywhere"  # noqa: S105  (of a server that lives for one test)
#: Runs several commands in one process, and prints their exit codes.
MAIN = (
    "import json, sys; from soulslab.cli import run; print('codes', [run(words) for words in json.loads(sys.argv[1])])"
)
LIVE = ["--env", "soulslab/ArenaLive-v0", "--set", "env.n_envs=1", "--set", "env.options.phase=1"]
SMALL = [
    *("--set", "run.total_steps=48", "--set", "learner.n_steps=16"),
    *("--set", "learner.minibatch_size=16", "--set", "network.widths=[8]"),
]
EVALUATE = ["evaluate", "run", "--fights", "1", "--greedy"]
RAINBOW = [
    *("--set", "algorithm=rainbow", "--set", "run.total_steps=48", "--set", "learner.batch_size=8"),
    *("--set", "learner.learning_starts=16", "--set", "network.widths=[8]", "--set", "run.evaluate_every=0"),
]


@pytest.fixture
def server():
    """A server of the built-in fight; it has a token."""
    running = serve(FakeArenaSession, ServerOptions(address="127.0.0.1:0", token=TOKEN))
    yield running.address
    running.stop()


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "secret" / "token"
    path.parent.mkdir(mode=0o700)
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


def command_lines():
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes())
        except OSError:  # the process has ended
            continue
    return lines


def soulslab(folder, *commands, stdin="", codes=None):
    """Run commands in a folder; check their output, and meanwhile the command lines of all processes."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, words],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "SOULSLAB_TOKEN"},
    )
    try:
        process.stdin.write(stdin)
        process.stdin.close()
        process.stdin = None
        said, is_done = "", False
        while not is_done:
            assert not any(TOKEN.encode() in line for line in command_lines())
            try:
                said, is_done = process.communicate(timeout=0.1)[0], True
            except subprocess.TimeoutExpired:
                continue
    finally:
        process.kill()
        process.communicate()
    assert f"codes {codes or [0] * len(commands)}" in said, said
    assert TOKEN not in said
    return said


def check_files(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []


def test_no_command_writes_the_token(tmp_path, server, token_file):
    work = tmp_path / "work"
    work.mkdir()
    at = ["--set", f"env.options.server={server}"]
    given = ["--token-file", os.path.relpath(token_file, work)]
    settings = ["--set", "env.id=soulslab/ArenaLive-v0", *LIVE[2:], *SMALL, *at]
    search = ["--search", "learner.lr=1e-4..1e-3:log", "--objective", "return", "--trials", "1"]
    said = soulslab(
        work,
        ["train", *LIVE, *SMALL, *at, "--run-dir", "none"],
        ["train", *LIVE, *SMALL, *at, *given, "--run-dir", "run"],
        ["train", "--resume", "run", "--trust", "--set", "run.total_steps=64"],
        [*EVALUATE, "--option", f"server={server}", "--json", "report.json", *given],
        ["fights", "record", "recorded", "--config", "run/config.toml", "--policy", "run", "--fights", "1", *given],
        ["train", *LIVE, *RAINBOW, "--set", "run.actor=apart", *at, "--run-dir", "apart", "--token-file", "-"],
        ["tune", "--study", "study", *settings, *search, "--token-file", token_file],
        stdin=f"{TOKEN}\n",
        codes=[1, 0, 0, 0, 0, 0, 1],
    )
    assert "token is missing" in said
    assert "nothing was measured in 48 decisions" in " ".join(said.split())  # the candidate has played on the server
    check_files(work)


def test_a_token_on_the_command_line_is_refused(tmp_path, server, capsys):
    words = ["train", *LIVE, *SMALL, "--set", f"env.options.server={server}", "--run-dir", str(tmp_path / "run")]
    assert cli.run([*words, "--set", "env.options.token=another"]) == 2
    said = capsys.readouterr()
    assert "--token-file" in said.err
    assert "another" not in said.err + said.out
    assert not (tmp_path / "run").exists()
