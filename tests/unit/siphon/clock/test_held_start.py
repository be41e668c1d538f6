"""Start of a held game: whether its processes wait, and the ticks that it gets."""

import os
import subprocess
import sys
from contextlib import closing

from soulslab.siphon.clock.held_start import HeldStart, _is_asleep, _times_of
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.profile import ClockFacts
from support.waiting import wait_for


def test_a_process_that_waits_or_has_ended_is_asleep_and_one_that_runs_is_not():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        wait_for(lambda: _is_asleep(waiting.pid), "the process to wait")
        assert len(_times_of([waiting.pid])) == 1
        waiting.kill()
    assert _is_asleep(waiting.pid)
    assert _times_of([waiting.pid]) == {}
    assert not _is_asleep(os.getpid())
    assert _times_of([os.getpid()]) is None


GAME = """
import time
started = time.monotonic()
while True:
    time.sleep(0.02)
    print(round(50 * (time.monotonic() - started)), flush=True)
"""


def test_a_standing_game_gets_a_tick_with_each_wait_unless_the_caller_keeps_it():
    with closing(LockstepPage.create(is_held=True)) as page:
        environment = os.environ | page.environment()
        start = HeldStart(page, ClockFacts(tick_hz=50.0), ())
        with subprocess.Popen([sys.executable, "-c", GAME], env=environment, stdout=subprocess.PIPE) as game:
            start.pid, start.processes = game.pid, lambda: (game.pid,)
            n_ticks = []
            try:
                for is_kept in (False, False, False, True, False):
                    if is_kept:
                        start.keep_tick()
                    wait_for(start.wait, "the game to stand")
                    n_ticks.append(start.n_ticks)
            finally:
                game.kill()
            assert game.stdout.read().split() == [b"1", b"2", b"3"]
    assert n_ticks == [0, 1, 2, 2, 3]
