"""The clock library in a program that uses every kind of timed wait."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from soulslab.errors import (
    ClockError,
    ClockStalledError,
    ClockUnavailableError,
    ConfigError,
    ProcessExitedError,
    SessionStateError,
)
from soulslab.siphon.clock import lockstep_page
from soulslab.siphon.clock.lockstep import LockstepClock, attach_lockstep
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.profile import ClockFacts
from soulslab.siphon.tick_alignment import advance_to_tick_middle
from support.clock_contract import ClockContract
from support.clock_program import compile_clock_program, running_clock_program
from support.sleeper import sleeping_process
from support.waiting import wait_for

PERIOD_MS = 10
PERIOD_S = PERIOD_MS / 1000
SLEEPS = ("nanosleep", "usleep", "clock_nanosleep", "clock_nanosleep_until", "sdl_delay")
FILES = (
    "poll", "ppoll", "poll_nothing", "select", "select_nothing", "pselect", "epoll_wait", "epoll_pwait",
    "epoll_pwait2",
)  # fmt: skip
LOCKS = (
    "cond_timedwait", "cond_timedwait_monotonic", "cond_clockwait", "sem_timedwait", "sem_clockwait",
    "mutex_timedlock", "mutex_clocklock", "sdl_cond", "sdl_semaphore",
)  # fmt: skip
SIGNALLED = ("nanosleep", "ppoll", "clock_nanosleep", "select", "epoll_pwait")
SPINS = ("spin", "spin_for_events", "spin_and_yield")
SAMPLE_SIGNAL = 62  # CLOCK_SAMPLE_SIGNAL in clock_page.h
GENERATION_AT = 16  # in struct clock_page


@pytest.fixture(scope="module")
def clock_program(tmp_path_factory):
    return compile_clock_program(tmp_path_factory.mktemp("clock_program"))


@pytest.fixture
def start(clock_program, tmp_path):
    """Starts the program and returns it with its clock."""
    undo = []

    def start(
        way, period_ms=PERIOD_MS, *, n_watchers=0, on_orphan="end", tick_hz=1 / PERIOD_S, servers=(), **environment
    ):
        own = LockstepPage.create(on_orphan)
        running = running_clock_program(
            clock_program, tmp_path, way, period_ms, {**own.environment(), **environment}, n_watchers
        )
        undo.append(lambda: running.__exit__(None, None, None))
        program = running.__enter__()
        clock = LockstepClock(own, program.pid, ClockFacts(tick_hz=tick_hz), servers=servers)
        undo.append(clock.close)
        clock.run(50.0)  # not to wait long for long waits
        wait_for(lambda: program.n_waits > 1)
        clock.run(1.0)
        return program, clock

    yield start
    for close in reversed(undo):
        close()


@pytest.mark.parametrize("way", SLEEPS + FILES + LOCKS + SPINS)
def test_every_wait_takes_game_time_and_exactly_that(start, way):
    program, clock = start(way)
    clock.pause()
    first = program.n_waits
    counts = []
    for _ in range(12):
        clock.advance(PERIOD_S)
        counts.append(program.n_waits - first)
    assert counts == list(range(1, 13))
    clock.advance(10 * PERIOD_S)
    assert program.n_waits - first == 22
    check(program)
    assert program.is_different == 0


def check(program):
    assert program.n_short == 0
    assert program.n_backwards == 0


@pytest.mark.parametrize("way", ["spin_for_events", "spin_and_yield"])
def test_a_loop_that_never_sleeps_makes_the_same_rounds_in_every_step(start, way):
    program, clock = start(way)
    clock.pause()
    rounds = []
    for _ in range(12):
        before = program.n_wakes
        clock.advance(PERIOD_S)
        rounds.append(program.n_wakes - before)
    assert len(set(rounds[2:])) == 1
    assert 1 <= rounds[-1] <= 65  # the limit of polls of a file that is not an event queue


def test_sdl_waits_for_events_in_game_time(start):
    with PrivateDisplay((100, 100)) as display:
        environment = {"SDL_VIDEODRIVER": "x11", "SDL_RENDER_DRIVER": "software", "SDL_FRAMEBUFFER_ACCELERATION": "0"}
        program, clock = start("sdl_event", **environment, **display.environment())
        clock.pause()
        first = program.n_waits
        for i in range(1, 11):
            clock.advance(PERIOD_S)
            assert program.n_waits - first == i
        check(program)


def test_sleep_takes_whole_seconds(start):
    program, clock = start("sleep", 1000, tick_hz=4.0)
    clock.pause()
    first = program.n_waits
    while program.n_waits == first:
        clock.advance(0.05)
    clock.advance(0.75)
    assert program.n_waits - first == 1
    clock.advance(2.0)
    assert program.n_waits - first == 3


@pytest.mark.parametrize("way", ["nanosleep", "poll", "cond_timedwait", "sem_timedwait", "mutex_timedlock"])
def test_a_long_wait_ends_at_its_time_and_not_before(start, way):
    program, clock = start(way, 300, tick_hz=0.0)
    clock.pause()
    first = program.n_waits
    clock.advance(0.0)
    for i in range(1, 31):
        clock.advance(0.01)
        assert program.n_waits - first <= (i + 29) // 30 + (i == 30)
    assert program.n_waits - first == 1
    check(program)


@pytest.mark.parametrize("way", ["nanosleep", "poll", "cond_timedwait", "sem_timedwait", "spin_for_events"])
def test_time_can_flow_to_the_limit(start, way):
    program, clock = start(way)
    clock.pause()
    first, before_s = program.n_waits, clock.game_time_s
    clock.advance(0.5, speed=20.0)
    assert clock.game_time_s - before_s == pytest.approx(0.5, abs=1e-9)
    assert clock.speed == 0
    # Each wait may end late, as the kernel wakes late, so there may be fewer than 50.
    assert 1 <= program.n_waits - first <= 50
    assert program.n_backwards == 0


@pytest.mark.parametrize(
    ("way", "event"),
    [("poll", b"x"), ("select", b"x"), ("epoll_wait", b"x"), ("cond_timedwait", b"x"), ("sem_timedwait", b"p")],
)
def test_events_during_a_pause_have_the_paused_time(start, way, event):
    program, clock = start(way)
    clock.pause()
    first = program.n_waits
    seen_ns = []
    for _ in range(3):
        wakes = program.n_wakes
        program.send(event)
        wait_for(lambda wakes=wakes: program.n_wakes > wakes)
        clock.pause()  # it waits again
        seen_ns.append(program.now_ns)
    assert program.n_waits == first
    assert len(set(seen_ns)) == 1
    clock.advance(10 * PERIOD_S)
    assert 9 <= program.n_waits - first <= 10
    check(program)


@pytest.mark.parametrize("way", SIGNALLED)
def test_a_signal_ends_a_wait(start, way):
    program, clock = start(way, 1000)
    for _ in range(3):
        clock.pause()  # it waits, again
        wakes = program.n_wakes
        program.send(b"s")
        wait_for(lambda wakes=wakes: program.n_wakes > wakes, "a signal to end the wait")
    clock.advance(0.01)


@pytest.mark.parametrize("way", SIGNALLED)
def test_a_signal_ends_a_wait_in_which_the_clock_changes(start, way):
    # Each change takes the program's thread out of the kernel, into our library, though it is in one wait all along.
    program, clock = start(way, 10_000)
    for _ in range(30):
        clock.pause()
        wakes = program.n_wakes
        program.send(b"s")
        for _ in range(10):
            clock.run(1.0)
            clock.run(0.5)
        clock.pause()
        wait_for(lambda wakes=wakes: program.n_wakes > wakes, "a signal to end the wait")


def test_a_child_and_a_thread_keep_to_the_clock(start):
    program, clock = start("nanosleep", FORK_FIRST="1")
    # The parent only waits for the child, which no clock can see: it counts as idle when it has been so for a while.
    first = program.n_waits
    clock.pause()
    clock.advance(3 * PERIOD_S)
    wait_for(lambda: program.n_waits - first >= 3)
    check(program)


def test_a_thread_that_simulates_is_waited_for(start):
    program, clock = start("nanosleep", IN_A_THREAD="1")
    clock.pause()
    first = program.n_waits
    for i in range(1, 4):
        clock.advance(PERIOD_S)
        assert program.n_waits - first == i
    check(program)


@pytest.mark.parametrize("way", [*SLEEPS, *FILES, *LOCKS])
def test_a_sample_ends_no_wait(start, way):
    program, clock = start(way, servers=())
    clock.pause()
    first = program.n_waits
    for i in range(1, 21):
        os.kill(program.pid, SAMPLE_SIGNAL)
        clock.advance(PERIOD_S)
        assert program.n_waits - first == i
    check(program)


@pytest.mark.parametrize("where", ["FORK_FIRST", "IN_A_THREAD"])
@pytest.mark.parametrize("way", ["nanosleep", "poll", "cond_timedwait", "sem_timedwait"])
def test_working_processes_are_waited_for_where_all_are_known(start, way, where):
    program, clock = start(way, servers=(), **{where: "1"})
    clock.pause()
    first = program.n_waits
    for i in range(1, 51):
        clock.advance(PERIOD_S)
        assert program.n_waits - first == i
    check(program)


@pytest.mark.parametrize("speed", [0.5, 1.0, 3.0, 10.0, 50.0])
def test_it_runs_at_every_speed(start, speed):
    program, clock = start("nanosleep")
    clock.pause()
    first, before_s = program.n_waits, clock.game_time_s
    outer_s = time.monotonic()
    clock.run(speed)
    inner_s = time.monotonic()
    wait_for(lambda: program.n_waits > first + 3)
    inner_s = time.monotonic() - inner_s
    clock.pause()
    outer_s = time.monotonic() - outer_s
    passed_s = clock.game_time_s - before_s
    # No tolerance but that of the clock's own unit of speed.
    assert speed * inner_s * (1 - 1e-9) <= passed_s <= speed * outer_s * (1 + 1e-9)
    assert program.n_waits - first <= passed_s / PERIOD_S + 1
    assert program.n_backwards == program.n_short == 0


def test_parts_of_a_nanosecond_are_not_lost(start):
    _, clock = start("nanosleep", 1000, tick_hz=0.0)
    clock.pause()
    before_s = clock.game_time_s
    elapsed_s = sum(clock.advance(1 / 3000).elapsed_s for _ in range(300))  # without the parts, 100 ns less
    assert clock.game_time_s - before_s == pytest.approx(0.1, abs=2e-9)
    assert elapsed_s == pytest.approx(0.1, abs=1e-8)


class TestLockstepClock(ClockContract):
    is_exact = True

    @pytest.fixture
    def game(self, start):
        return start("nanosleep")

    @pytest.fixture
    def clock(self, game):
        return game[1]

    @pytest.fixture
    def end_game(self, game):
        def end_game():
            game[0].process.kill()
            game[0].process.wait()

        return end_game


def test_steps_from_the_middle_of_a_tick_have_half_a_tick_to_spare(start):
    program, clock = start("clock_nanosleep_until")

    def n_waits(seconds):
        clock.advance(seconds)
        return program.n_waits

    assert advance_to_tick_middle(n_waits, PERIOD_S)
    first = program.n_waits
    for i in range(1, 5):
        clock.advance(0.4 * PERIOD_S)
        assert program.n_waits == first + i - 1
        clock.advance(0.6 * PERIOD_S)
        assert program.n_waits == first + i


# --- what goes wrong --------------------------------------------------------------------------------------------


def test_a_game_that_dies_during_a_step_is_noticed(start):
    program, clock = start("nanosleep")
    clock.pause()
    os.kill(program.pid, 19)  # SIGSTOP: it does not come to rest, so the step would last
    with pytest.raises(ClockStalledError, match="did not come to rest within"):
        clock.advance(PERIOD_S, deadline_s=0.2)
    killer = threading.Timer(0.1, os.kill, (program.pid, 9))
    killer.start()
    with pytest.raises(ProcessExitedError):
        clock.advance(PERIOD_S, deadline_s=300.0)
    killer.join()


def test_a_game_that_stalled_may_come_back(start):
    program, clock = start("nanosleep")
    clock.pause()
    first = program.n_waits
    os.kill(program.pid, 19)
    with pytest.raises(ClockStalledError):
        clock.advance(PERIOD_S, deadline_s=0.1)
    os.kill(program.pid, 18)
    clock.advance(PERIOD_S)
    assert first + 1 <= program.n_waits <= first + 2
    assert program.n_backwards == 0


def test_only_one_controller_at_a_time(start):
    program, clock = start("nanosleep")
    with pytest.raises(ClockError, match=f"process {os.getpid()} controls the time of this game"):
        attach_lockstep(program.pid)
    clock.advance(PERIOD_S)
    clock.close()
    other = attach_lockstep(program.pid, ClockFacts(tick_hz=100.0))
    with pytest.raises(SessionStateError):
        clock.advance(PERIOD_S)
    other.close()


def test_a_new_controller_finds_time_as_it_was_left(start):
    program, clock = start("nanosleep")
    clock.pause()
    held_s = clock.game_time_s
    # A controller that dies leaves it so; this one goes without a word, too.
    clock._page.close()
    other = attach_lockstep(program.pid, ClockFacts(tick_hz=100.0))
    assert (other.speed, other.game_time_s) == (0.0, held_s)
    first = program.n_waits
    other.advance(PERIOD_S)
    assert program.n_waits == first + 1
    other.close()  # it was held when we came
    third = attach_lockstep(program.pid)
    assert (third.speed, third.game_time_s) == (0.0, pytest.approx(held_s + PERIOD_S, abs=2e-9))
    third.run()
    third.close()
    assert program.n_backwards == 0


def test_a_controller_that_dies_in_the_middle_of_a_change_leaves_no_trap(start):
    program, clock = start("nanosleep")
    generation = ctypes.c_uint32.from_address(clock._page.address + GENERATION_AT)
    assert generation.value % 2 == 0
    generation.value += 1  # the sign that a change is under way
    first = program.n_waits
    wait_for(lambda: program.n_waits > first + 2)
    assert generation.value % 2 == 0
    clock.advance(PERIOD_S)
    assert program.n_backwards == 0


def test_a_process_waiting_for_a_child_stops_after_the_child():
    # The child has not the library, as one that has not loaded it yet.
    shell = 'LD_PRELOAD= sh -c "echo busy; while :; do :; done"; sleep 1000'
    own = LockstepPage.create()
    environment = {**os.environ, **own.environment()}
    command = ["/bin/sh", "-c", shell]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as game:
        clock = LockstepClock(own, game.pid, ClockFacts(tick_hz=100), servers=())
        try:
            assert game.stdout.readline() == b"busy\n"
            with pytest.raises(ClockStalledError):
                clock.pause(deadline_s=0.3)
            (child,) = Path(f"/proc/{game.pid}/task/{game.pid}/children").read_text().split()
            os.kill(int(child), signal.SIGKILL)
            clock.pause()
        finally:
            clock.close()
            os.killpg(game.pid, signal.SIGKILL)


def test_close_resumes_the_game(start):
    program, clock = start("nanosleep")
    clock.pause()
    first = program.n_waits
    clock.close()
    wait_for(lambda: program.n_waits > first + 2)


def test_a_game_without_the_library_is_refused():
    with sleeping_process() as process, pytest.raises(ClockUnavailableError, match="was not started with the clock"):
        attach_lockstep(process.pid)


def test_a_game_that_does_not_load_the_library_is_reported(monkeypatch):
    monkeypatch.setattr("soulslab.siphon.clock.lockstep._LOAD_DEADLINE_S", 0.05)
    own = LockstepPage.create()
    with sleeping_process() as process, pytest.raises(ClockUnavailableError, match="has not loaded the clock library"):
        LockstepClock(own, process.pid)
    own.close()


def test_a_process_that_has_ended_is_reported():
    with sleeping_process() as process:
        process.kill()
        process.wait()
        with pytest.raises(ProcessExitedError):
            attach_lockstep(process.pid)


def test_invalid_arguments_are_refused(start):
    _, clock = start("nanosleep")
    for speed in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(ConfigError, match="speed"):
            clock.run(speed)
        with pytest.raises(ConfigError, match="speed"):
            clock.advance(0.1, speed=speed)
    with pytest.raises(ConfigError, match="on_orphan"):
        LockstepPage.create("panic")


def test_the_library_loads_from_a_folder_with_a_space(monkeypatch, tmp_path, clock_program):
    folder = tmp_path / "my programs"
    folder.mkdir()
    shutil.copy(lockstep_page.library_path("_preload"), folder / "_preload.so")
    monkeypatch.setattr(lockstep_page, "library_path", lambda name: folder / f"{name}.so")
    one = LockstepPage.create()
    with running_clock_program(clock_program, tmp_path, "nanosleep", PERIOD_MS, one.environment()) as program:
        clock = LockstepClock(one, program.pid)
        clock.advance(PERIOD_S)
        clock.close()


def test_no_resources_remain(start, clock_program, tmp_path):
    def n_open():
        maps = Path("/proc/self/maps").read_text()
        return len(list(Path("/proc/self/fd").iterdir())), maps.count("soulslab-clock")

    def use():
        own = LockstepPage.create()
        with running_clock_program(clock_program, tmp_path, "nanosleep", PERIOD_MS, own.environment()) as program:
            clock = LockstepClock(own, program.pid)
            clock.advance(PERIOD_S)
            clock.close()

    use()
    before = n_open()
    for _ in range(3):
        use()
    assert n_open() == before
