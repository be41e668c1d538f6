"""The table of scripted players."""

import pytest

from benchmarks.fights import FightsBenchSettings, measure_fights
from benchmarks.scripted_players import PLAYERS
from soulslab.arena.boss_file import boss_names


def test_measures_every_player_boss_and_phase():
    (result,) = measure_fights(FightsBenchSettings(n_fights=3))
    met = {(row["boss"], row["phase"], row["player"]) for row in result.rows}
    assert met == {(boss, phase, player) for boss in boss_names() for phase in ("1", "2", "full") for player in PLAYERS}
    assert len(result.rows) == len(met)
    for row in result.rows:
        assert row["won (%)"] + row["lost (%)"] + row["time out (%)"] == pytest.approx(100.0)
    assert all(row["fights"] == 3 for row in result.rows)
