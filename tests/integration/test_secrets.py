"""The token of a server is in no file that a command writes, in no output and in no list of processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from soulslab.games.arena.fake import FakeArenaSession
from soulslab.siphon.rpc.server import ServerOptions, serve

TOKEN = "q7Zt-not-to-be-written-anywhere"  # noqa: S105  (of a server that lives for one test)
MAIN = "from soulslab.cli import main; main()"
LIVE = ["--env", "soulslab/ArenaLive-v0", "--set", "env.n_envs=1", "--set", "env.options.phase=1"]
SMALL = [
    *("--set", "run.total_steps=48", "--set", "learner.n_steps=16"),
    *("--set", "learner.minibatch_size=16", "--set", "network.widths=[8]"),
]
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


def soulslab(folder, *words, stdin="", code=0):
    """Run a command in a folder; check its output, and meanwhile the command lines of all processes."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, words)],
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
    assert process.returncode == code, said
    assert TOKEN not in said
    return said


def check_files(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []


def test_train_resume_evaluate_and_record(tmp_path, server, token_file):
    work = tmp_path / "work"
    work.mkdir()
    at = ["--set", f"env.options.server={server}"]
    given = ["--token-file", os.path.relpath(token_file, work)]
    assert "token is missing" in soulslab(work, "train", *LIVE, *SMALL, *at, "--run-dir", "none", code=1)
    soulslab(work, "train", *LIVE, *SMALL, *at, *given, "--run-dir", "run")
    soulslab(work, "train", "--resume", "run", "--trust", "--set", "run.total_steps=64")
    evaluate = ["evaluate", "run", "--fights", "1", "--greedy", "--option", f"server={server}", "--json", "report.json"]
    soulslab(work, *evaluate, *given)
    record = ["fights", "record", "recorded", "--config", "run/config.toml", "--policy", "run", "--fights", "1"]
    soulslab(work, *record, *given)
    check_files(work)


def test_an_actor_apart_and_a_study(tmp_path, server, token_file):
    work = tmp_path / "work"
    work.mkdir()
    at = ["--set", f"env.options.server={server}"]
    apart = ["--set", "run.actor=apart"]
    soulslab(work, "train", *LIVE, *RAINBOW, *apart, *at, "--run-dir", "run", "--token-file", "-", stdin=f"{TOKEN}\n")
    settings = ["--set", "env.id=soulslab/ArenaLive-v0", *LIVE[2:], *SMALL, *at]
    search = ["--search", "learner.lr=1e-4..1e-3:log", "--objective", "return", "--trials", "1"]
    said = soulslab(work, "tune", "--study", "study", *settings, *search, "--token-file", token_file, code=1)
    assert "nothing was measured in 48 decisions" in " ".join(said.split())  # the candidate has played on the server
    check_files(work)


def test_a_token_on_the_command_line_is_refused(tmp_path, server):
    words = ["train", *LIVE, *SMALL, "--set", f"env.options.server={server}", "--run-dir", "run"]
    said = soulslab(tmp_path, *words, "--set", "env.options.token=another", code=2)
    assert "--token-file" in said
    assert not (tmp_path / "run").exists()
