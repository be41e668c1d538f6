"""Output of evaluations and data sets: tables for the terminal, and rows for a JSON file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from rich.table import Table

from soulslab.learn.demonstrations.data_set_metadata import Description
from soulslab.learn.evaluate import Evaluation, Interval

UNKNOWN = "-"
#: Of more bosses, those with the fewest wins are shown.
N_BOSSES = 16


def evaluation_tables(evaluations: Mapping[str, Evaluation]) -> list[Table]:
    """Return tables with the win rate of a policy by its way of choosing actions, and with the causes of its losses.

    The first one is an overview. For each result there are also tables of boss attacks, of start poses and of bosses,
    if the environment reports them.
    """
    overview = _table("", "actions", "fights", "won", "95 % interval", "game time (s)", "damage taken (HP)", "return")
    tables = [overview]
    for mode, result in evaluations.items():
        overview.add_row(
            mode,
            str(result.n_fights),
            _percent(result.win_rate),
            _range(result.interval),
            _number(result.mean_time_s),
            _number(result.mean_damage_taken, digits=0),
            _number(result.mean_return, digits=2),
        )
        if result.by_attack:
            tables.append(_attacks(mode, result))
        if len(result.by_pose) > 1:
            tables.append(_poses(mode, result))
        if result.by_boss:
            tables.append(_bosses(mode, result))
    return tables


def evaluation_rows(evaluations: Mapping[str, Evaluation], about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per evaluation for a JSON file, with common fields of all rows such as environment and seed."""
    return [{"actions": mode, **about, **msgspec.to_builtins(evaluation)} for mode, evaluation in evaluations.items()]


def data_set_tables(description: Description, outcomes: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return a table with the properties of a data set of fights, and one with the options of its environment.

    The outcomes are those of :func:`soulslab.learn.demonstrations.reading.read_outcomes`.
    """
    wins = [bool(outcome["is_won"]) for outcome in outcomes if "is_won" in outcome]
    returns = [float(outcome["total_reward"]) for outcome in outcomes if "total_reward" in outcome]
    overview = Table("", "", show_header=False, box=None, pad_edge=False)
    for name, value in (
        ("environment", description.env_id),
        ("player", description.player or UNKNOWN),
        ("fights", str(description.n_episodes)),
        ("won", f"{sum(wins)} of {len(wins)}" if wins else UNKNOWN),
        ("mean return", f"{np.mean(returns):.3f}" if returns else UNKNOWN),
        ("steps", str(description.n_steps)),
        ("written by", f"soulslab {description.origin.soulslab}" if description.origin.soulslab else UNKNOWN),
    ):
        overview.add_row(name, value)
    options = Table("option", "value", box=None, pad_edge=False)
    for name, value in sorted({**description.origin.defaults, **description.options}.items()):
        options.add_row(name, str(value))
    return [overview, options] if options.row_count else [overview]


def _attacks(mode: str, result: Evaluation) -> Table:
    """Return a table of the boss's attacks, those with the most kills first."""
    rows = _table(f"attacks ({mode})", "attack", "damage per fight (HP)", "in lost fights (HP)", "killing blows")
    for attack in sorted(result.by_attack, key=lambda row: (row.n_kills or 0, row.mean_damage), reverse=True):
        rows.add_row(
            attack.name,
            _number(attack.mean_damage),
            _number(attack.mean_damage_in_losses),
            str(attack.n_kills) if attack.n_kills is not None else UNKNOWN,
        )
    return rows


def _poses(mode: str, result: Evaluation) -> Table:
    rows = _table(f"by start pose ({mode})", "pose", "fights", "won", "95 % interval")
    for pose in result.by_pose:
        won = _percent(pose.n_wins / pose.n_fights)
        rows.add_row(str(pose.pose), str(pose.n_fights), won, _range(pose.interval))
    return rows


def _bosses(mode: str, result: Evaluation) -> Table:
    """Return a table of the bosses, those with the fewest wins first."""
    title = f"bosses with the fewest wins, of {len(result.by_boss)} ({mode})"
    rows = _table(title, "boss", "fights", "won", "95 % interval")
    # By the upper end of the interval, because one lost fight says little about a boss.
    for boss in sorted(result.by_boss, key=lambda row: row.interval.high)[:N_BOSSES]:
        won = _percent(boss.n_wins / boss.n_fights)
        rows.add_row(f"generated:{boss.boss_seed}", str(boss.n_fights), won, _range(boss.interval))
    return rows


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _number(value: float | None, digits: int = 1) -> str:
    return f"{value:.{digits}f}" if value is not None else UNKNOWN


def _percent(share: float | None) -> str:
    return f"{100 * share:.1f} %" if share is not None else UNKNOWN


def _range(interval: Interval | None) -> str:
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %" if interval is not None else UNKNOWN
