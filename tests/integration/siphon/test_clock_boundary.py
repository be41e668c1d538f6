"""Loops without sleep: each step is exactly one tick, also if keys change in each step."""

from __future__ import annotations

import random
from contextlib import contextmanager

import msgspec
import pytest

from soulslab.siphon.local import open_session
from soulslab.siphon.session import Step
from soulslab.siphon.tick_alignment import advance_to_tick_middle
from support.long_form import IS_LONG
from support.loop_program import LOOPS, TICK_MS, compile_loop_program, loop_profile, read_report

TICK_S = TICK_MS / 1000
KEYS = ("A", "B", "C", "SPACE", "LEFT_ARROW", "RIGHT_ARROW", "LEFT_CTRL")
#: Steps of a loop, and of one that computes for long.
N_STEPS, N_LONG_STEPS = (300, 100) if IS_LONG else (80, 40)


@pytest.fixture(scope="module")
def loop_program(tmp_path_factory):
    return compile_loop_program(tmp_path_factory.mktemp("loop_program"))


@contextmanager
def started(program, folder, loop, boundary="auto"):
    """Start a loop in the middle of a tick; the context is its session and a function that reads its report."""
    report = folder / "report"
    profile = loop_profile(program, report, loop)
    clock = msgspec.structs.replace(profile.clock, boundary=boundary)
    with open_session(msgspec.structs.replace(profile, clock=clock)) as session:
        if loop != "sdl_variable":  # a tick of this one is a step, however long
            assert advance_to_tick_middle(lambda seconds: count(session, report, seconds), TICK_S)
        session.clock.advance(TICK_S)
        yield session, lambda: read_report(report)


@pytest.fixture(scope="module")
def running(request, loop_program, tmp_path_factory):
    """A loop that its tests share. The first test releases the keys that it holds."""
    with started(loop_program, tmp_path_factory.mktemp(request.param), request.param) as one:
        yield one


def count(session, report, seconds):
    session.clock.advance(seconds)
    return read_report(report)["n_ticks"]


@pytest.mark.parametrize("running", [*LOOPS, "counting", "computing"], indirect=True)
def test_no_tick_is_lost_when_keys_change_in_each_step(running, request, caplog):
    (session, report), loop = running, request.node.callspec.params["running"]
    draw = random.Random(5)  # noqa: S311 - no secrets
    held, n_pressed, n_ticks = set(), 0, report()["n_ticks"]
    for i in range(1, (N_STEPS if loop in LOOPS else N_LONG_STEPS) + 1):
        before, held = held, set(draw.sample(KEYS, draw.randrange(1, 4)))
        n_pressed += len(held - before)
        session.step(Step(held=tuple(held), advance_s=TICK_S, attributes=()))
        assert report()["n_ticks"] - n_ticks == i
    seen = report()
    assert seen["n_keys"] == n_pressed
    if loop != "x_round_trip":  # it takes its events before it waits for the tick
        assert seen["keys_at_tick"] == n_pressed  # the tick of a step sees the keys of that step
    # Only the duration shows that a loop waits which counts, so it is reported.
    logged = " ".join(one.getMessage() for phase in ("setup", "call") for one in caplog.get_records(phase))
    assert ("ran for long without a call" in logged) == (loop == "counting")
    session.input.set_held(())


def test_a_loop_that_computes_for_long_is_not_held_with_the_boundary_sleep(loop_program, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("COMPUTED_MS", "300")
    with started(loop_program, tmp_path, "computing", "sleep") as (session, report):
        first = report()["n_ticks"]
        for i in range(1, 31):
            session.clock.advance(TICK_S)
            assert report()["n_ticks"] - first == i
    assert "ran for long without a call" not in caplog.text


@pytest.mark.parametrize("running", LOOPS, indirect=True)
def test_a_paused_loop_makes_no_progress(running):
    session, report = running
    session.clock.pause()
    before = report()
    for _ in range(50):
        session.capture()
        session.clock.pause()
    assert report() == before


@pytest.mark.parametrize("running", LOOPS, indirect=True)
def test_the_loop_makes_the_same_turns_in_each_step(running):
    session, report = running
    turns = []
    for _ in range(40):
        before = report()["n_turns"]
        session.clock.advance(TICK_S)
        turns.append(report()["n_turns"] - before)
    assert len(set(turns[10:])) == 1
    assert 1 <= turns[-1] <= 10
