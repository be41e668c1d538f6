"""A session has a lockstep clock only if the program can be paused; one program for each time source."""

from __future__ import annotations

import pytest

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import ClockFacts, Process, Profile
from soulslab.siphon.session import SessionOptions
from support.clock_program import compile_clock_program

PERIOD_MS = "5"
#: Sources that the library cannot hold, and what the reason names.
UNHELD = {
    "nanosleep": "nanosleep", "clock_nanosleep": "nanosleep", "futex": "futex", "poll": "poll", "ppoll": "ppoll",
    "epoll_wait": "epoll_wait", "timerfd": "timerfd", "timer_create": "timer_create", "setitimer": "runs",
    "rdtsc": "rdtsc",
}  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clock_proof")
    return {name: compile_clock_program(folder, name) for name in ("clock_bypass", "clock_sources")}


@pytest.fixture
def start(compiled, tmp_path):
    sessions = []

    def start(name, source, **options):
        program = compiled[name]
        (tmp_path / "report").write_bytes(bytes(4096))
        command = (str(program), str(tmp_path / "report"), source, PERIOD_MS, "0")
        profile = Profile(
            name=source,
            process=Process(executable=program.name, command=command),
            clock=ClockFacts(grade="lockstep", tick_hz=200),
        )
        sessions.append(open_session(profile, SessionOptions(with_window=False, **options)))
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


@pytest.mark.parametrize("source", UNHELD)
def test_a_program_that_cannot_be_paused_gets_no_lockstep_clock(start, source, caplog):
    info = start("clock_bypass", source).info
    assert info.clock_grade == "realtime"
    assert UNHELD[source] in info.clock_reason
    assert info.clock_reason in caplog.text


def test_lockstep_that_was_asked_for_is_refused(start):
    with pytest.raises(ClockUnavailableError, match=r"does not hold nanosleep: while time stands.*docs/clock\.md"):
        start("clock_bypass", "nanosleep", clock="lockstep")


@pytest.mark.parametrize("source", ["usleep"])
def test_a_program_that_can_be_paused_gets_a_lockstep_clock(start, source):
    info = start("clock_bypass", source).info
    assert (info.clock_grade, info.clock_reason) == ("lockstep", "")
