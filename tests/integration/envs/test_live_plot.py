"""The live plot: its pictures, steps that do not wait for it, and its end."""

import logging
import os
import signal
import subprocess
import sys
import threading

import cv2
import gymnasium
import numpy as np
import psutil
import pytest

import soulslab  # noqa: F401 (registers the ids)
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.envs.wrappers import LivePlot
from soulslab.envs.wrappers.live_plot import SCRIPT
from soulslab.errors import EnvironmentUsageError
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.testing.fake_arena import FakeArenaSession
from support.waiting import wait_for

ID = "soulslab/Arena-v0"


@pytest.fixture(autouse=True)
def check_that_threads_and_processes_end():
    threads, children = set(threading.enumerate()), set(psutil.Process().children())
    yield
    assert set(threading.enumerate()) <= threads
    assert set(psutil.Process().children()) <= children


def play(env, n):
    """Take random actions, in several fights."""
    rng = np.random.default_rng(0)
    for _ in range(n):
        *_, terminated, truncated, _ = env.step(int(rng.integers(20)))
        if terminated or truncated:
            env.reset()


def plot_process():
    """Return the process that draws; other tests may have left a process that reads HDF5 files."""
    (process,) = (one for one in psutil.Process().children() if str(SCRIPT) in one.cmdline())
    return process


def test_a_picture_of_the_fights(tmp_path):
    path = tmp_path / "fight.png"
    env = LivePlot(gymnasium.make(ID), path, every_steps=100, interval_s=0.0)
    empty = cv2.imread(str(path))  # the file exists from the start
    env.reset(seed=0)
    play(env, 300)
    env.close()
    env.close()
    drawn = cv2.imread(str(path))
    assert drawn.shape == empty.shape
    ink = np.abs(drawn.astype(int) - np.array([0x65, 0x49, 0x1B])).sum(axis=-1) < 30
    thirds = np.array_split(ink, 3, axis=1)
    assert all(third.sum() > 100 for third in thirds)  # health, reward and actions
    assert [file.name for file in tmp_path.iterdir()] == ["fight.png"]


def test_a_page_that_reloads_itself_and_counts_buttons(tmp_path):
    path = tmp_path / "fight.html"
    env = LivePlot(ArenaLiveEnv(session=FakeArenaSession(), action_mode="multi_binary"), path, interval_s=3.0)
    env.reset(seed=0)
    for _ in range(12):
        env.step(env.action_space.sample())
    env.close()
    page = path.read_text()
    assert '<meta http-equiv="refresh" content="3">' in page
    assert "data:image/png;base64,iVBOR" in page


def test_a_process_whose_lines_end_as_on_windows(tmp_path, monkeypatch):
    """On Windows, the standard output of Python ends a line with a carriage return and a line feed."""
    from soulslab.envs.wrappers import live_plot  # noqa: PLC0415

    script = tmp_path / "plot_of_windows.py"
    script.write_text(
        "import runpy, sys\n"
        "sys.stdout.reconfigure(newline='\\r\\n')\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
    )
    monkeypatch.setattr(live_plot, "SCRIPT", script)
    env = LivePlot(gymnasium.make(ID), tmp_path / "a.png", interval_s=0.0)
    assert env.is_drawing
    env.close()


def test_no_step_waits_for_a_plot_that_hangs(tmp_path, caplog, monkeypatch):
    from soulslab.envs.wrappers import live_plot  # noqa: PLC0415

    monkeypatch.setattr(live_plot, "_END_TIMEOUT_S", 0.2)
    env = LivePlot(gymnasium.make(ID), tmp_path / "a.png", every_steps=1, interval_s=0.0)
    env.reset(seed=0)
    plot_process().send_signal(signal.SIGSTOP)
    play(env, 3000)  # far more than a pipe holds
    assert env.is_drawing
    with caplog.at_level(logging.WARNING):
        env.close()
    assert "did not end" in caplog.text


def test_the_fight_continues_without_a_killed_plot(tmp_path, caplog):
    env = LivePlot(gymnasium.make(ID), tmp_path / "a.png", every_steps=1, interval_s=0.0)
    env.reset(seed=0)
    plot_process().kill()

    def has_noticed():
        play(env, 1)
        return not env.is_drawing

    with caplog.at_level(logging.WARNING):
        wait_for(has_noticed, "the environment to notice")
    play(env, 50)
    assert "continues without it" in caplog.text
    env.close()


def test_a_window(monkeypatch):
    pytest.importorskip("tkinter", reason="matplotlib's window needs a toolkit")
    with PrivateDisplay() as display:
        for name, value in display.environment().items():
            monkeypatch.setenv(name, value)
        env = LivePlot(gymnasium.make(ID), interval_s=0.0)
        find = ["xdotool", "search", "--name", ID]
        wait_for(lambda: subprocess.run(find, capture_output=True, check=False).stdout, "the window")
        env.reset(seed=0)
        play(env, 50)
        assert env.is_drawing
        env.close()


def test_no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EnvironmentUsageError, match=r"no display .*target='fight.html'"):
        LivePlot(gymnasium.make(ID))
    monkeypatch.setenv("DISPLAY", ":987")
    with pytest.raises(EnvironmentUsageError, match="LivePlot cannot draw to window: "):
        LivePlot(gymnasium.make(ID))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"target": "a.gif"}, "end in .png or .html"),
        ({"target": "/no/such/folder/a.png"}, "create it first"),
        ({"every_steps": 0}, "every_steps"),
        ({"n_steps": True}, "n_steps"),
        ({"interval_s": -1.0}, "interval_s"),
    ],
)
def test_wrong_options(options, problem):
    with pytest.raises(EnvironmentUsageError, match=problem):
        LivePlot(gymnasium.make(ID), **{"target": "a.png", **options})


def test_the_plot_process_ends_with_a_killed_program(tmp_path):
    code = (
        "import gymnasium, soulslab, os, psutil, sys\n"
        "from soulslab.envs.wrappers import LivePlot\n"
        "env = LivePlot(gymnasium.make('soulslab/Arena-v0'), sys.argv[1])\n"
        "print(psutil.Process().children()[0].pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.png")], stdout=subprocess.PIPE, check=False)
    wait_for(lambda: not os.path.exists(f"/proc/{int(run.stdout)}"), "the plot to end")  # noqa: PTH110
