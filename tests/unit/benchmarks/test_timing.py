"""Interleaved measurements."""

from benchmarks.timing import interleaved, seconds


def test_measurements_are_interleaved():
    order = []

    def measure(name):
        order.append(name)
        return float(len(order))

    found = interleaved({"a": lambda: measure("a"), "b": lambda: measure("b")}, 3)
    assert order == ["a", "b"] * 3
    assert found == {"a": [1.0, 3.0, 5.0], "b": [2.0, 4.0, 6.0]}


def test_seconds_calls_once():
    calls = []
    assert seconds(lambda: calls.append(1)) >= 0.0
    assert calls == [1]
