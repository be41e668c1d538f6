"""The tables of the benchmark of learning on Doom."""

import numpy as np
import pytest

from benchmarks.doom import player_row


def test_a_row_has_the_mean_return_and_its_interval():
    episodes = {"return": [1.0, 3.0, 5.0], "kills": [0.0, 1.0, 2.0], "died": [1.0, 0.0, 0.0], "left": [0.0, 0.0, 1.0]}
    row = player_row("PPO", {name: np.array(values) for name, values in episodes.items()}, 640, 1.5)
    margin = 1.96 * 2.0 / np.sqrt(3)
    assert (row["player"], row["decisions"], row["training (s)"], row["episodes"]) == ("PPO", 640, 1.5, 3)
    assert [row["from"], row["mean return"], row["to"]] == pytest.approx([3.0 - margin, 3.0, 3.0 + margin], abs=1e-3)
    assert row["kills"] == 1.0
    assert row["died (%)"] == row["reached the exit (%)"] == pytest.approx(100 / 3)
