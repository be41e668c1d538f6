"""The lockstep clock on Windows: a real program is started with the clock library and advanced by ticks."""

import ctypes
import re
import struct
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from ctypes import wintypes
from functools import partial

import pytest

from soulslab.errors import ClockError, ClockUnavailableError, ProcessExitedError, SessionStateError
from soulslab.siphon.clock.lockstep import LockstepClock, attach_lockstep
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.clock.windows_start import start_with_clock
from soulslab.siphon.clock_selection import find_lockstep_fault
from soulslab.siphon.memory.windows import WindowsMemory, read_function
from soulslab.siphon.memory.windows_regions import ranges
from soulslab.siphon.process.windows import running
from soulslab.siphon.tick_alignment import advance_to_tick_middle
from soulslab.siphon.win32 import function
from soulslab.siphon.win32.process_handle import (
    PROCESS_QUERY_LIMITED_INFORMATION,
    SYNCHRONIZE,
    close_handle,
    open_process,
    wait_for_end,
)
from support.clock_contract import ClockContract
from support.long_form import IS_LONG
from support.waiting import PATIENCE_S, wait_for

TICK_S = 1 / 60
#: A spin, a sleep with the multimedia clock, an event, a sleep with the tick count; then timers and threads. In the
#: short form, `test_session_contract.py` plays the loop sleep, and `test_install.py` the loops with threads.
LOOPS = ("spin", "coarse", "event", "tick_count")
OTHER_LOOPS = (
    "timer",
    "multimedia",
    "window_timer",
    "condition",
    "address",
    "conditions",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("sleep", "thread", "workers")),
)
#: mov rax, [rip + world]; cmp dword [rax + 10h], 42; mov rax, [rax + 8]
PATTERN = re.compile(rb"\x48\x8b\x05(....)\x83\x78\x10\x2a\x48\x8b\x40\x08", re.DOTALL)
PROGRAM_AT, CODE_AT, CODE_SIZE = 0x140000000, 0x1000, 0x1000
TICKS_AT, ELAPSED_AT, N_WRONG_AT = 0x4, 0x38, 0x3C
SMTO_ABORTIFHUNG, PROCESS_TERMINATE = 0x2, 0x1
ANSWER_MS = 2000


class Player:
    """Values of the small Windows game."""

    def __init__(self, pid):
        self._memory = WindowsMemory(pid)
        self._read_process = partial(read_function(), self._memory.handle)
        self._player = self._find_player()

    @property
    def ticks(self):
        return self._number(self._player + TICKS_AT)

    @property
    def elapsed_s(self):
        """Time since its start by the source of time of its loop."""
        return self._number(self._player + ELAPSED_AT) / 1000

    @property
    def n_wrong(self):
        """Number of sources of time that differed in a tick, in all ticks."""
        return self._number(self._player + N_WRONG_AT)

    def close(self):
        self._memory.close()

    def _number(self, address):
        return struct.unpack("<I", self._read(address, 4))[0]

    def _pointer(self, address):
        return struct.unpack("<Q", self._read(address, 8))[0]

    def _read(self, address, size):
        """Read as on Windows. Under Wine `WindowsMemory.read` also asks the game for the protection of the page."""
        buffer = ctypes.create_string_buffer(size)
        if self._read_process(address, buffer, size, None):
            return buffer.raw
        return self._memory.read(address, size)  # raises the error

    def _find_player(self):
        code = self._memory.read(PROGRAM_AT + CODE_AT, CODE_SIZE)
        found = PATTERN.search(code)
        world_at = PROGRAM_AT + CODE_AT + found.start() + 7 + struct.unpack("<i", found[1])[0]
        deadline = time.monotonic() + PATIENCE_S
        while self._pointer(world_at) == 0:
            assert time.monotonic() < deadline, "the game has made no world"
            time.sleep(0.01)
        return self._pointer(self._pointer(world_at) + 8)


class Game(Player):
    """The small Windows game with its clock."""

    def __init__(self, process, clock):
        super().__init__(process.pid)
        self.process = process
        self.clock = clock

    @property
    def is_controlled(self):
        """Whether the game runs and its clock is open."""
        with suppress(SessionStateError, ProcessExitedError):
            self.clock.pause()
            return True
        return False

    def advance(self, seconds):
        self.clock.advance(seconds)
        return self.ticks

    def align(self):
        self.clock.pause()
        assert advance_to_tick_middle(self.advance, TICK_S)

    def close(self):
        self.clock.close()
        super().close()


@contextmanager
def started(game_path, loop, on_orphan="end"):
    page = LockstepPage.create(on_orphan)
    try:
        process = start_with_clock([game_path, loop], page)
    except BaseException:
        page.close()
        raise
    with process:
        try:
            game = Game(process, LockstepClock(page, process.pid))
            try:
                await_ticks(game)
                yield game
            finally:
                game.close()
        finally:
            process.kill()


def await_ticks(game):
    deadline = time.monotonic() + PATIENCE_S
    while game.ticks == 0:
        assert time.monotonic() < deadline, "the game makes no ticks"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def running_game(request, game_path):
    """The game with a loop, which the tests that leave it running share."""
    with started(game_path, request.param) as game:
        yield game


def count_ticks(game, n_steps):
    """Return the number of steps that made 0, 1, 2 ... ticks."""
    counts = {}
    last = game.ticks
    for _ in range(n_steps):
        now = game.advance(TICK_S)
        counts[now - last] = counts.get(now - last, 0) + 1
        last = now
    return counts


def window_of(pid):
    """Return the window of the small Windows game."""
    find = function("user32", "FindWindowW", wintypes.HWND, wintypes.LPCWSTR, wintypes.LPCWSTR)
    owner_of = function("user32", "GetWindowThreadProcessId", wintypes.DWORD, wintypes.HWND, ctypes.c_void_p)
    window, owner = find("SmallGame", None), wintypes.DWORD()
    owner_of(window, ctypes.byref(owner))
    assert owner.value == pid
    return window


def answers(pid):
    """Return whether the window of a process answers a message."""
    send = function(
        "user32", "SendMessageTimeoutW", ctypes.c_ssize_t, wintypes.HWND, wintypes.UINT, ctypes.c_size_t,
        ctypes.c_ssize_t, wintypes.UINT, wintypes.UINT, ctypes.c_void_p,
    )  # fmt: skip
    return bool(send(window_of(pid), 0, 0, 0, SMTO_ABORTIFHUNG, ANSWER_MS, None))


def handle_count(process):
    call = function("kernel32", "GetProcessHandleCount", wintypes.BOOL, wintypes.HANDLE, ctypes.c_void_p)
    count = wintypes.DWORD()
    assert call(process, ctypes.byref(count))
    return count.value


def own_handle_count():
    return handle_count(function("kernel32", "GetCurrentProcess", wintypes.HANDLE)())


@pytest.fixture(scope="module")
def shared_games():
    """The games of the contract; its tests share the last one until its clock is closed."""
    with ExitStack() as opened:
        yield opened, []


class TestLockstepClock(ClockContract):
    is_exact = True

    @pytest.fixture
    def game(self, shared_games, game_path):
        opened, games = shared_games
        if not games or not games[-1].is_controlled:
            games.append(opened.enter_context(started(game_path, "event")))
        return games[-1]

    @pytest.fixture
    def clock(self, game):
        return game.clock

    @pytest.fixture
    def end_game(self, game):
        def end_game():
            game.process.kill()
            game.process.wait()

        return end_game


@pytest.mark.parametrize("running_game", LOOPS + OTHER_LOOPS, indirect=True)
def test_the_check_at_the_start_accepts_the_clock(running_game):
    game = running_game
    assert find_lockstep_fault(game.clock, lambda: {"ticks": game.ticks}, TICK_S, "ticks") == ""


@pytest.mark.parametrize("running_game", ["event"], indirect=True)
@pytest.mark.parametrize(("n_messages", "fault"), [(2, ""), (1000, "goes on and reads the time")])
def test_a_game_that_reads_the_time_for_a_message_is_held_and_one_that_continues_is_not(
    running_game, n_messages, fault
):
    game, n_left = running_game, n_messages
    post = function(
        "user32", "PostMessageW", wintypes.BOOL, wintypes.HWND, wintypes.UINT, ctypes.c_size_t, ctypes.c_ssize_t
    )

    def observe():
        nonlocal n_left
        if n_left:
            n_left -= 1
            n_before = game.clock.n_time_reads
            assert post(window_of(game.process.pid), 0, 0, 0)
            wait_for(lambda: game.clock.n_time_reads != n_before, "a read of the time after the message")
        return {"ticks": game.ticks}

    found = find_lockstep_fault(game.clock, observe, TICK_S, "ticks")
    assert fault in found
    assert bool(found) == bool(fault)


@pytest.mark.parametrize("running_game", LOOPS, indirect=True)
def test_each_step_makes_one_tick(running_game):
    running_game.align()
    assert count_ticks(running_game, 600) == {1: 600}


@pytest.mark.parametrize("running_game", OTHER_LOOPS, indirect=True)
def test_each_step_of_other_loops_makes_one_tick(running_game):
    running_game.align()
    n_steps = 600 if IS_LONG else 150
    assert count_ticks(running_game, n_steps) == {1: n_steps}


@pytest.mark.parametrize("running_game", ["sources"], indirect=True)
def test_all_sources_of_time_agree_and_all_functions_wait_exactly(running_game):
    running_game.align()
    count_ticks(running_game, 1)  # in the tick before, time did not stand
    before = running_game.n_wrong
    assert count_ticks(running_game, 180) == {1: 180}
    assert running_game.n_wrong == before


@pytest.mark.parametrize("running_game", LOOPS + OTHER_LOOPS, indirect=True)
def test_no_tick_passes_in_a_pause(running_game):
    running_game.align()
    assert_paused(running_game, 5.0 if IS_LONG else 0.15)


def assert_paused(game, duration_s):
    before = game.ticks
    deadline = time.monotonic() + duration_s
    while time.monotonic() < deadline:
        assert answers(game.process.pid)
        assert game.ticks == before
        time.sleep(0.01)


def measure_speed(game, duration_s):
    """Return the time that passed in the game, divided by the wall time; from one change of its time to another."""
    points = []
    for pause_s in (0.0, duration_s):
        time.sleep(pause_s)
        before = game.elapsed_s
        while (now := game.elapsed_s) == before:
            assert game.process.poll() is None
        points.append((now, time.perf_counter()))
    (start_s, wall_start_s), (end_s, wall_end_s) = points
    return (end_s - start_s) / (wall_end_s - wall_start_s)


@pytest.mark.parametrize("running_game", LOOPS, indirect=True)
def test_time_runs_at_the_speed(running_game, request):
    loop = request.node.callspec.params["running_game"]
    for speed in (0.1, 0.5, 2.0, 10.0) if IS_LONG or loop == "spin" else (2.0,):
        running_game.clock.run(speed)
        # On a busy machine a change may be seen late, which counts less in a longer time. A wrong speed is never
        # measured to be right.
        measured = []
        while measured[-1:] != [pytest.approx(speed, rel=0.01)]:
            assert len(measured) < 10, f"at speed {speed}, measured {measured}"
            measured.append(measure_speed(running_game, 0.3 * 1.5 ** len(measured)))


@pytest.mark.parametrize("n_ticks", [2000, pytest.param(100_000, marks=pytest.mark.long)])
def test_time_does_not_drift(game_path, n_ticks):
    with started(game_path, "tick_count") as game:
        game.align()
        before, game_time_s = game.ticks, game.clock.game_time_s
        game.clock.advance(n_ticks * TICK_S, deadline_s=600.0)
        assert game.ticks - before == n_ticks
        assert game.clock.game_time_s - game_time_s == pytest.approx(n_ticks * TICK_S, abs=1e-8)


@pytest.mark.parametrize("running_game", LOOPS, indirect=True)
def test_a_step_can_last_as_long_as_in_real_time(running_game):
    game = running_game
    game.align()
    before, elapsed_s, started_s = game.ticks, game.elapsed_s, time.perf_counter()
    game.clock.advance(0.5, speed=2.0)
    assert time.perf_counter() - started_s >= 0.25
    assert game.elapsed_s - elapsed_s == pytest.approx(0.5, abs=TICK_S)
    assert 0 < game.ticks - before <= 30


def test_a_game_beside_the_folder_of_windows_is_no_library_of_windows(game_beside_windows):
    with started(game_beside_windows, "event") as game:
        game.align()
        assert count_ticks(game, 20) == {1: 20}


def test_the_game_runs_in_real_time_after_the_clock_is_closed(game_path):
    with started(game_path, "spin") as game:
        game.align()
        before = game.ticks
        game.clock.close()
        await_change(game, before)


def await_change(game, before):
    deadline = time.monotonic() + PATIENCE_S
    while game.ticks == before:
        assert time.monotonic() < deadline, "the game stands"
        time.sleep(0.01)


def test_controlling_again_and_again_leaves_no_handles(game_path):
    with started(game_path, "event", on_orphan="run") as game:
        game.clock.close()
        counts = []
        for _ in range(20):
            clock = attach_lockstep(game.process.pid)
            clock.pause()
            before = game.ticks
            clock.advance(4 * TICK_S)
            assert game.ticks - before in (3, 4, 5)
            clock.close()
            counts.append((own_handle_count(), handle_count(game.process._handle)))
        assert counts[1] == counts[-1]


def n_mapped_views():
    """Return the number of mapped files and shared memories in this process."""
    mapped = 0x40000  # MEM_MAPPED
    return len({one.allocation for one in ranges(-1) if one.kind == mapped})


@pytest.mark.parametrize("n_starts", [4, pytest.param(50, marks=pytest.mark.long)])
def test_starting_again_and_again_leaves_nothing(game_path, n_starts):
    counts, before = [], processes_of(game_path)
    for _ in range(n_starts):
        with started(game_path, "spin") as game:
            game.align()
            assert processes_of(game_path) == before | {game.process.pid}
        counts.append((own_handle_count(), n_mapped_views()))
    assert counts[1] == counts[-1]
    assert processes_of(game_path) == before


def processes_of(program):
    """Return the processes that run a program."""
    return {one.pid for one in running() if one.program == program.name}


def test_a_second_controller_is_refused(game_path):
    with started(game_path, "spin") as game, pytest.raises(ClockError, match=r"controls the time of this game"):
        attach_lockstep(game.process.pid)


def test_attaching_to_a_game_without_the_library_is_refused(game):
    with pytest.raises(ClockUnavailableError, match=r"cannot be loaded into a running game.*grade scaled or realtime"):
        attach_lockstep(game.pid)


def test_a_game_that_ends_is_reported(game_path):
    with started(game_path, "spin") as game:
        game.process.kill()
        game.process.wait()
        with pytest.raises(ProcessExitedError):
            game.clock.advance(TICK_S)


#: Starts a game for each behaviour without a controller, holds them, writes their process ids, and waits.
CONTROLLER = """
import sys
from soulslab.siphon.clock.lockstep import LockstepClock
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.clock.windows_start import start_with_clock

games = []
for on_orphan in sys.argv[2:]:
    page = LockstepPage.create(on_orphan)
    game = start_with_clock([sys.argv[1], "coarse"], page)
    clock = LockstepClock(page, game.pid)
    clock.pause()
    games.append((game, clock))
print(*(game.pid for game, _ in games), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def orphans(game_path):
    """Games whose controller was killed while it held them: process id and handle by their behaviour."""
    behaviours = ("end", "run", "paused")
    command = [sys.executable, "-c", CONTROLLER, str(game_path), *behaviours]
    with ExitStack() as opened:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as controller:
            found = {}
            for on_orphan, word in zip(behaviours, controller.stdout.readline().split(), strict=True):
                handle = open_process(int(word), PROCESS_TERMINATE | PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE)
                opened.callback(end, handle)
                found[on_orphan] = int(word), handle
            controller.kill()
        yield found


def end(process):
    """End a process and close its handle."""
    function("kernel32", "TerminateProcess", wintypes.BOOL, wintypes.HANDLE, wintypes.UINT)(process, 1)
    close_handle(process)


def test_a_game_ends_with_its_controller(orphans):
    _, handle = orphans["end"]
    assert wait_for_end(handle, int(PATIENCE_S * 1000))


def test_a_game_runs_on_after_its_controller(orphans):
    pid, _ = orphans["run"]
    with closing(Player(pid)) as player:
        await_change(player, player.ticks)
    with closing(attach_lockstep(pid)) as clock:
        assert clock.speed == 1.0


def test_a_game_stays_paused_after_its_controller(orphans):
    pid, _ = orphans["paused"]
    with closing(Player(pid)) as player:
        before = player.ticks
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            assert player.ticks == before
            time.sleep(0.01)
        with closing(attach_lockstep(pid)) as clock:
            assert clock.speed == 0.0
            clock.advance(4 * TICK_S)
            assert player.ticks > before
