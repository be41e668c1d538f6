"""``python -m benchmarks fights``: win rates of scripted players against each boss."""

from __future__ import annotations

from itertools import product

import msgspec

from benchmarks.result import Result, Row
from benchmarks.scripted_players import PLAYERS, measure
from benchmarks.timing import with_progress
from soulslab.arena.boss_catalog import find_bosses
from soulslab.arena.boss_file import boss_names
from soulslab.arena.records import PHASES


class FightsBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        bosses: Names (`find_bosses`); by default all shipped bosses.
        n_fights: Fights per boss, phase and player.
        seed: Seed of the first fight; the others follow.
    """

    bosses: tuple[str, ...] = msgspec.field(default_factory=boss_names)
    n_fights: int = 1000
    seed: int = 0

    @classmethod
    def quick(cls) -> FightsBenchSettings:
        """Return settings that take some seconds."""
        return cls(n_fights=50)


def measure_fights(settings: FightsBenchSettings) -> list[Result]:
    """Measure every scripted player against every boss in every phase."""
    bosses = {name: find_bosses(name) for name in settings.bosses}
    rows: list[Row] = []
    for boss, phase, player in with_progress(list(product(bosses, PHASES, PLAYERS)), "fighting"):
        score = measure(bosses[boss], phase, player, n_fights=settings.n_fights, seed=settings.seed)
        rows.append(
            {
                "boss": boss,
                "phase": phase,
                "player": player,
                "fights": score.fights,
                "won (%)": 100 * score.win_rate,
                "lost (%)": 100 * score.loss_rate,
                "time out (%)": 100 * score.timeout_rate,
                "game time (s)": score.time_s,
                "damage taken (HP)": score.damage_taken,
            }
        )
    return [Result(title="scripted players, from random start poses", rows=rows)]
