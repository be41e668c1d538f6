import pytest

from soulslab.errors import ReadOnlyError
from soulslab.siphon import read_only
from soulslab.siphon.pad import Pad
from soulslab.siphon.read_only import ObservedSession
from soulslab.siphon.session import Step
from soulslab.testing.fake_session import FakeSession
from support.windows_time import WindowsTime


def test_a_step_takes_and_reports_its_length_where_time_monotonic_has_ticks(monkeypatch):
    time = WindowsTime()
    monkeypatch.setattr(read_only, "time", time)
    with ObservedSession(FakeSession()) as session:
        for _ in range(10):
            started_s = time.perf_counter()
            advance = session.step(Step(attributes=(), advance_s=0.1)).advance
            assert time.perf_counter() - started_s == pytest.approx(0.1)
            assert advance.elapsed_s == pytest.approx(0.1)
            assert advance.late_s < 1e-6


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (Step(held=("W",)), "cannot hold W: the session is read-only"),
        (Step(pad=Pad(buttons=("A",))), "cannot set the gamepad: the session is read-only"),
        (Step(mouse_px=(1, 0)), "cannot move the mouse: the session is read-only"),
    ],
)
def test_a_step_that_acts_is_refused(step, problem):
    with FakeSession() as toys, ObservedSession(toys) as session:
        with pytest.raises(ReadOnlyError, match=problem):
            session.step(step)
        session.step(Step(held=(), pad=Pad()))


@pytest.mark.parametrize(
    ("late_s", "ends_s"),
    [
        (0.03, [0.13, 0.2, 0.3]),
        (0.09, [0.19, 0.2, 0.3]),
        (0.11, [0.31, 0.41, 0.51]),
        (0.2, [0.4, 0.5, 0.6]),
    ],
)
def test_a_step_that_is_late_by_its_length_is_not_caught_up(monkeypatch, late_s, ends_s):
    time = WindowsTime()
    monkeypatch.setattr(read_only, "time", time)
    with ObservedSession(FakeSession()) as session:
        step = Step(attributes=(), advance_s=0.1)
        session.step(step)
        started_s = time.perf_counter()
        time.sleep(0.1 + late_s)
        for end_s in ends_s:
            session.step(step)
            assert time.perf_counter() - started_s == pytest.approx(end_s)
