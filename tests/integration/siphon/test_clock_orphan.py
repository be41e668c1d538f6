"""Behaviour of a game whose controller is killed."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from soulslab.siphon.clock.lockstep import attach_lockstep
from soulslab.siphon.clock.lockstep_page import native_library, open_page_of
from soulslab.siphon.process.discovery import has_ended
from soulslab.siphon.profile import ClockFacts
from support import clock_controller
from support.clock_program import ClockProgram, compile_clock_program, speed_of
from support.waiting import wait_for


@pytest.fixture(scope="module")
def clock_program(tmp_path_factory):
    return compile_clock_program(tmp_path_factory.mktemp("clock_program"))


class Orphan(ClockProgram):
    """The program whose controller is another process."""

    def __init__(self, controller, pid, report):
        super().__init__(controller, report)
        self.pid = pid

    def lose_controller(self):
        self.process.kill()
        self.process.wait()

    def has_noticed(self):
        """Whether the program has reacted to the death, without becoming its controller."""
        native, address = native_library(), ctypes.c_void_p()
        fd = open_page_of(self.pid)
        assert native.map(fd, ctypes.byref(address)) == 0
        owner = native.owner(address)
        native.unmap(address)
        os.close(fd)
        return owner == 0


@contextmanager
def controlled(program, folder: Path, way, on_orphan, speed):
    path = folder / "report"
    path.write_bytes(bytes(4096))
    command = [program, path, way, "5", "0"]
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as report:
        controller = subprocess.Popen(
            [sys.executable, clock_controller.__file__, on_orphan, str(speed), *command],
            stdout=subprocess.PIPE,
            text=True,
        )
        with controller:
            pid = None
            try:
                pid = int(controller.stdout.readline())
                yield Orphan(controller, pid, report)
            finally:
                controller.kill()
                if pid is not None and not has_ended(pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


WAYS = ("nanosleep", "poll", "cond_timedwait", "sem_timedwait", "spin")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("speed", [0, 3])
def test_end(clock_program, tmp_path, way, speed):
    with controlled(clock_program, tmp_path, way, "end", speed) as orphan:
        orphan.lose_controller()
        wait_for(lambda: has_ended(orphan.pid))


@pytest.mark.parametrize("way", WAYS)
def test_run(clock_program, tmp_path, way):
    with controlled(clock_program, tmp_path, way, "run", 0) as orphan:
        before = orphan.n_waits
        orphan.lose_controller()
        wait_for(lambda: orphan.n_waits > before + 2)
        clock = attach_lockstep(orphan.pid)
        assert clock.speed == 1.0
        clock.advance(0.01)
        clock.close()
        assert orphan.n_backwards == 0


@pytest.mark.parametrize("way", WAYS)
def test_paused(clock_program, tmp_path, way):
    with controlled(clock_program, tmp_path, way, "paused", 3) as orphan:
        orphan.lose_controller()
        wait_for(orphan.has_noticed)
        wait_for(lambda: speed_of(orphan.pid) == 0)
        clock = attach_lockstep(orphan.pid, ClockFacts(tick_hz=100.0))
        clock.pause()
        before, held_s = orphan.n_waits, clock.game_time_s
        clock.advance(0.01)
        assert orphan.n_waits in (before + 1, before + 2)
        assert clock.game_time_s == pytest.approx(held_s + 0.01, abs=2e-9)
        clock.close()
        assert orphan.n_backwards == 0


def test_a_released_controller_does_not_count_as_dead(clock_program, tmp_path):
    with controlled(clock_program, tmp_path, "nanosleep", "run", 0) as orphan:
        first = orphan.n_waits
        orphan.lose_controller()
        wait_for(lambda: orphan.n_waits > first)  # it runs on, so it has noticed
        clock = attach_lockstep(orphan.pid, on_orphan="end")
        clock.close()
        before = orphan.n_waits
        wait_for(lambda: orphan.n_waits > before + 30)  # it looks several times
