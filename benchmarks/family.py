"""``python -m benchmarks family``: policies and the reference player against generated bosses that were never used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from benchmarks.result import Result, Row
from benchmarks.scripted_players import measure
from soulslab.arena.boss_catalog import find_bosses
from soulslab.arena.held_out_rules import HeldOutRules
from soulslab.learn.environment import EVALUATION, environment_seed
from soulslab.learn.evaluate import EvaluationSettings, evaluate, wilson_interval
from soulslab.learn.players import load_player
from soulslab.learn.policies import POLICY_DIR, shipped_policies

#: The policy of the family, whose card has the bosses and the seed.
FAMILY = "generated"
REFERENCE = "reference player, which knows the bosses"


#: Sets of rules; the set for reports is used for fitted bosses only.
_RULES: Final[tuple[HeldOutRules, ...]] = ("none", "development")


class FamilyBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        policies: Names of shipped policies.
        n_fights: Greedy fights of each player; those of the card by default.
    """

    policies: tuple[str, ...] = (FAMILY, "judge")
    n_fights: int = msgspec.field(default_factory=lambda: shipped_policies()[FAMILY].fights)

    @classmethod
    def quick(cls) -> FamilyBenchSettings:
        """Return settings that take some seconds."""
        return cls(n_fights=50)


def measure_family(settings: FamilyBenchSettings) -> Iterator[Result]:
    """Play the same fights with each player, by the simulator's rules and by those of the set ``development``."""
    rows = [
        _row(settings, player, held_out_rules=held_out_rules)
        for held_out_rules in _RULES
        for player in (*settings.policies, REFERENCE)
    ]
    bosses = shipped_policies()[FAMILY].evaluation_boss
    yield Result(title=f"the same fights against {bosses}, from random start poses (95 % interval)", rows=rows)


def _row(settings: FamilyBenchSettings, player: str, *, held_out_rules: HeldOutRules) -> Row:
    card = shipped_policies()[FAMILY]
    if player == REFERENCE:
        seed = environment_seed(card.evaluation_seed, EVALUATION)
        score = measure(
            find_bosses(card.evaluation_boss),
            "full",
            "reference",
            n_fights=settings.n_fights,
            seed=seed,
            held_out_rules=held_out_rules,
        )
        n_wins, time_s = round(score.win_rate * score.fights), score.time_s
    else:
        policy = load_player(POLICY_DIR / f"{player}.safetensors")
        options = {**policy.header.env_options, "boss": card.evaluation_boss, "held_out_rules": held_out_rules}
        found = evaluate(
            policy,
            EvaluationSettings(
                env_id=policy.header.env_id,
                env_options=options,
                n_fights=settings.n_fights,
                n_envs=settings.n_fights,
                seed=card.evaluation_seed,
            ),
        )
        n_wins, time_s = found.n_wins or 0, found.mean_time_s or 0.0
    interval = wilson_interval(n_wins, settings.n_fights)
    return {
        "held-out rules": held_out_rules,
        "player": player,
        "fights": settings.n_fights,
        "won (%)": 100 * n_wins / settings.n_fights,
        "from (%)": 100 * interval.low,
        "to (%)": 100 * interval.high,
        "game time (s)": time_s,
    }
