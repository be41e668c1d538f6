"""Starting programs and ending them, with all that they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from soulslab.errors import ConfigError, LaunchError
from soulslab.siphon.process import launch as launch_module
from soulslab.siphon.process import private_scores
from soulslab.siphon.process.launch import MARK, find_program
from soulslab.siphon.process.process_tree import living, marked, process_ids
from soulslab.siphon.profile import Process
from support.counts import check_released, held, segments_of
from support.launching import launch
from support.waiting import wait_for

SLEEPER = Process(executable="sleep", command=("sleep", "600"))


def program(script, *, executable=Path(sys.executable).name, **fields):
    return Process(executable=executable, command=(sys.executable, "-c", script), **fields)


def shell(script, executable="sleep", **fields):
    return Process(executable=executable, command=("sh", "-c", script), **fields)


def variables_of(pid):
    """Return the environment of a process; it is empty shortly after the start."""
    path = Path(f"/proc/{pid}/environ")
    wait_for(path.read_bytes, "the environment")
    return dict(word.split("=", 1) for word in path.read_text().split("\0") if word)


def mark_of(pid):
    return variables_of(pid)[MARK]


def alive(mark):
    return living(marked(MARK, mark, process_ids()))


@pytest.fixture
def started():
    games = []

    def start(process, **options):
        games.append(launch(process, **options))
        return games[-1]

    yield start
    for game in games:
        game.kill(grace_s=0.0)


def test_a_program_beside_this_python_needs_no_path(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert Path(find_program("soulslab")).parent == Path(sysconfig.get_path("scripts"))
    assert find_program("no-such-game") == ""


def test_a_program_is_started_in_a_new_group_and_folder(started):
    game = started(SLEEPER)
    assert game.status() is None
    assert not game.has_ended
    assert os.getpgid(game.pid) == os.getsid(game.pid) == game.pid
    assert Path(f"/proc/{game.pid}/cwd").readlink() == game.directory
    assert list(game.directory.iterdir()) == []
    game.kill()
    game.kill()
    assert game.status() == -signal.SIGTERM
    assert game.has_ended
    assert not game.directory.exists()


@pytest.mark.parametrize(
    ("own", "extra", "expected"),
    [
        ({}, {}, {"DISPLAY": ":7", "WAYLAND_DISPLAY": None, "LD_PRELOAD": None}),
        ({"A": "{skill}", "B": '{"a": {}}'}, {"C": "{skill}"}, {"A": "4", "B": '{"a": {}}', "C": "{skill}"}),
        ({"A": "own"}, {"A": "extra"}, {"A": "extra"}),
        ({"DISPLAY": ":8"}, {}, {"DISPLAY": ":8"}),
        ({"LD_PRELOAD": "own.so"}, {"LD_PRELOAD": "clock.so"}, {"LD_PRELOAD": "clock.so:own.so"}),
        ({"LD_PRELOAD": "own.so"}, {"LD_PRELOAD": "clock.so:own.so"}, {"LD_PRELOAD": "clock.so:own.so"}),
    ],
)
def test_the_environment_is_that_of_the_profile_with_additions(started, monkeypatch, own, extra, expected):
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    process = Process(executable="sleep", command=("sleep", "600"), environment=own, options={"skill": "4"})
    game = started(process, display=":7", extra_environment=extra)
    found = variables_of(game.pid)
    assert {name: found.get(name) for name in expected} == expected


def test_the_private_folder_has_a_name_also_where_the_profile_names_another(started, tmp_path):
    game = started(shell("sleep 600", environment={"HOME": "{directory}"}, directory=str(tmp_path)))
    assert Path(f"/proc/{game.pid}/cwd").readlink() == tmp_path
    assert variables_of(game.pid)["HOME"] == str(game.directory)


def test_options_override_those_of_the_profile(started):
    process = Process(executable="sleep", command=("sleep", "{time}", "{more}"), options={"time": "600", "more": "0"})
    game = started(process, options={"time": "500"})
    command = Path(f"/proc/{game.pid}/cmdline")
    wait_for(command.read_bytes, "the command line")
    assert command.read_text().split("\0")[1:3] == ["500", "0"]


def test_unknown_options_are_errors_with_their_place():
    with pytest.raises(ConfigError, match="did you mean 'skill'") as caught:
        launch(Process(executable="sleep", command=("sleep", "{skil}"), options={"skill": "4"}))
    assert caught.value.path == "process.command[1]"
    with pytest.raises(ConfigError, match="did you mean 'skill'") as caught:
        launch(Process(executable="sleep", command=("sleep",), options={"skill": "4"}), options={"skil": "1"})
    assert caught.value.path == "options.skil"
    with pytest.raises(ConfigError) as caught:
        launch(Process(executable="sleep", command=("sleep",), environment={"A": "{b}"}))
    assert caught.value.path == "process.environment.A"
    with pytest.raises(ConfigError, match="start it yourself"):
        launch(Process(executable="sleep"))


@pytest.mark.parametrize(
    ("process", "says"),
    [
        (Process(executable="nothing", command=("no-such-game",)), "apt-get install no-such-game"),
        (Process(executable="sleep", command=("sleep", "9"), directory="/no/such/folder"), "No such file"),
        (Process(executable="game", command=("sh", "-c", "echo my last words; exit 3")), "(?s)status 3.*my last words"),
        (Process(executable="game", command=("sh", "-c", "kill -9 $$")), "signal 9"),
        (Process(executable="game", command=("true",)), "printed nothing"),
    ],
)
def test_a_failed_start_is_an_error_with_the_reason(process, says):
    before = held()
    with pytest.raises(LaunchError, match=says):
        launch(process)
    check_released(before)


def test_a_name_that_never_appears_times_out_and_leaves_no_state():
    before = held()
    with pytest.raises(LaunchError, match=r"process.executable"):
        launch(shell("echo waiting; sleep 600", executable="game"), deadline_s=0.2)
    check_released(before)


def test_the_game_is_found_behind_a_script(started):
    game = started(shell("sleep 600; exit 7"))
    assert Path(f"/proc/{game.pid}/comm").read_text() == "sleep\n"
    assert game.status() is None
    os.kill(game.pid, signal.SIGKILL)
    wait_for(lambda: game.has_ended, "the end of the game")
    assert game.status() == 7


def test_the_status_is_unknown_if_a_script_outlives_the_game(started, monkeypatch):
    monkeypatch.setattr(launch_module, "GRACE_S", 0.05)
    game = started(shell("sleep 600; tail -f /dev/null"))
    os.kill(game.pid, signal.SIGKILL)
    wait_for(lambda: game.has_ended, "the end of the game")
    assert game.status() is None


def test_a_game_that_cut_itself_loose_is_found_and_ended(started):
    game = started(shell("setsid -f sleep 600; tail -f /dev/null & wait"))
    mark = mark_of(game.pid)
    assert os.getsid(game.pid) == game.pid
    wait_for(lambda: len(alive(mark)) == 3, "three processes")
    game.kill()
    assert alive(mark) == set()


def test_a_process_that_does_not_exit_is_killed(started):
    game = started(shell("trap '' TERM; echo ready; sleep 600 & while true; do wait; done"))
    wait_for(lambda: "ready" in game.output_tail(), "the trap")
    mark = mark_of(game.pid)
    game.kill(grace_s=0.05)
    assert alive(mark) == set()


def test_a_stopped_game_is_killed_too(started):
    game = started(SLEEPER)
    os.kill(game.pid, signal.SIGSTOP)
    stat = Path(f"/proc/{game.pid}/stat")
    wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the stop")
    game.kill(grace_s=0.05)
    assert game.status() == -signal.SIGKILL


@pytest.mark.parametrize("wrapper", [(), ("sh", "-c", '"$0" "$@"; true')])
def test_shared_memory_of_a_killed_game_is_removed(started, wrapper):
    started_s = time.time()
    script = "import ctypes, time; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600), flush=True); time.sleep(600)"
    command = (*wrapper, sys.executable, "-c", script)
    game = started(Process(executable=Path(sys.executable).name, command=command))
    wait_for(lambda: game.output_tail().strip(), "the segment")
    assert segments_of([game.pid], started_s) == [int(game.output_tail())]
    game.kill(grace_s=0.0)
    assert segments_of([game.pid], started_s) == []


def test_the_end_of_the_output_is_kept(started):
    game = started(program("import time\nfor i in range(9999): print('line', i, flush=True)\ntime.sleep(600)"))
    wait_for(lambda: game.output_tail().endswith("line 9998"), "the last line")
    assert len(game.output_tail()) <= 2000


@pytest.mark.parametrize("ends_with_us", [True, False])
def test_a_game_ends_with_us_or_lives_on(ends_with_us):
    script = (
        "import sys, time; from soulslab.siphon.process.launch import start_command;"
        "from soulslab.siphon.profile import Process;"
        f"game = start_command(Process(executable='sleep', command=('sleep', '600')), ends_with_us={ends_with_us});"
        "game.find_game('sleep', 20.0);"
        "print(game.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
        pid = int(owner.stdout.readline())
        owner.kill()
        owner.wait()
    if ends_with_us:
        wait_for(lambda: not living([pid]), "the end of the game")
    else:
        assert living([pid])
        os.kill(pid, signal.SIGKILL)


def test_fifty_starts_leave_no_resources():
    launch(SLEEPER).kill()
    before = held()
    for _ in range(50):
        launch(SLEEPER).kill()
    check_released(before)


def test_a_game_changes_only_its_own_copy_of_the_score_files(started, caplog):
    name = f"soulslab-test-{os.getpid()}"
    script = f"export LC_ALL=C; cd /var/games; ls; mkdir {name}; ls; echo end; exec sleep 600"
    outputs = []
    for _ in range(2):
        game = started(shell(script))
        outputs.append(wait_for(lambda game=game: "end" in game.output_tail() and game.output_tail(), "the output"))
    try:
        before = sorted(path.name for path in private_scores.SCORES.iterdir())
        assert before
        if "CAP_SYS_ADMIN" in caplog.text:  # a user without this right
            assert name in before
            return
        assert name not in before
        if os.access(private_scores.SCORES, os.W_OK):  # other users need no copy
            assert outputs[0] == outputs[1]
            assert outputs[0].split() == [*before, *sorted([*before, name]), "end"]
    finally:
        if (private_scores.SCORES / name).exists():
            (private_scores.SCORES / name).rmdir()


def test_without_the_right_to_mount_a_game_starts_with_the_score_files_themselves():
    """A program of root without CAP_SYS_ADMIN; other users without it cannot change the files."""
    script = (
        "from soulslab.siphon.process.private_scores import SCORES, with_private_scores; own = SCORES.stat().st_dev;"
        "assert with_private_scores(lambda: SCORES.stat().st_dev) == own"
    )
    is_root = os.geteuid() == 0
    command = [*(["setpriv", "--bounding-set=-sys_admin"] if is_root else []), sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not is_root or "CAP_SYS_ADMIN" in ended.stderr
