import pytest

from soulslab.siphon import read_only
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
