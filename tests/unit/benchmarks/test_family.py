"""The table of policies against generated bosses that were never used."""

import pytest

from benchmarks.family import REFERENCE, FamilyBenchSettings, measure_family


def test_measures_every_player_by_both_rules():
    (result,) = measure_family(FamilyBenchSettings(n_fights=8))
    assert [(row["held-out rules"], row["player"]) for row in result.rows] == [
        (rules, player) for rules in ("none", "development") for player in ("generated", "judge", REFERENCE)
    ]
    for row in result.rows:
        assert row["from (%)"] <= row["won (%)"] <= row["to (%)"]
        assert row["won (%)"] * 8 / 100 == pytest.approx(round(row["won (%)"] * 8 / 100))
    # The rules differ, so the fights do.
    assert result.rows[2]["game time (s)"] != result.rows[5]["game time (s)"]
