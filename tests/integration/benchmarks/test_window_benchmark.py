"""The benchmark of the window."""

import pytest

from benchmarks.window import PARTS, WindowBenchSettings, measure_window


@pytest.mark.long
def test_pictures_and_steps_are_measured():
    pictures, steps = measure_window(WindowBenchSettings(n_pictures=20, n_steps=5, n_rounds=1))
    assert [row["window"] for row in pictures.rows] == ["800x450", "320x180"]
    for row in pictures.rows:
        assert all(row[part] > 0 for part in PARTS)
        assert abs(sum(row[part] for part in PARTS) - row["all"]) < 1e-6
    assert [row["window"] for row in steps.rows] == [
        "800x450",
        "800x450, 84x84 grey",
        "320x180",
        "320x180, 84x84 grey",
    ]
    assert all(row["steps/s"] > 0 for row in steps.rows)
