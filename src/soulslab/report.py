"""Evaluations for people and for programs: tables for the terminal, rows for a JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from rich.table import Table

from soulslab.learn.evaluate import AttackRow, Evaluation
from soulslab.learn.wilson_interval import Interval

UNKNOWN = "-"


def evaluation_tables(evaluations: Mapping[str, Evaluation]) -> list[Table]:
    """Return tables that tell how often a policy wins, from where, and what kills it.

    Args:
        evaluations: Each way of choosing actions ("greedy", "sampled") and what it achieved.

    Returns:
        An overview of all, then for each its table of boss attacks and of start poses, as far as the environment
        tells of them.
    """
    overview = _table("", "actions", "fights", "won", "95 % interval", "game time (s)", "damage taken (HP)", "return")
    tables = [overview]
    for way, result in evaluations.items():
        overview.add_row(
            way,
            str(result.n_fights),
            _percent(result.win_rate),
            _range(result.interval),
            _number(result.mean_time_s),
            _number(result.mean_damage_taken, digits=0),
            _number(result.mean_return, digits=2),
        )
        if result.by_attack:
            tables.append(_attacks(way, result))
        if len(result.by_pose) > 1:
            tables.append(_poses(way, result))
    return tables


def evaluation_rows(evaluations: Mapping[str, Evaluation], about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row per evaluation for a JSON file.

    Args:
        evaluations: Each way of choosing actions and what it achieved.
        about: What is the same for all: the environment, the seed; part of each row.
    """
    return [{"actions": way, **about, **msgspec.to_builtins(evaluation)} for way, evaluation in evaluations.items()]


def _attacks(way: str, result: Evaluation) -> Table:
    """Return the attacks of the boss, the deadliest first."""
    rows = _table(
        f"what hits the player ({way})", "attack", "damage per fight (HP)", "in lost fights (HP)", "killing blows"
    )
    for attack in sorted(result.by_attack, key=_deadliness, reverse=True):
        rows.add_row(
            attack.name,
            _number(attack.mean_damage),
            _number(attack.mean_damage_in_losses),
            UNKNOWN if attack.n_kills is None else str(attack.n_kills),
        )
    return rows


def _deadliness(attack: AttackRow) -> tuple[int, float]:
    return attack.n_kills or 0, attack.mean_damage


def _poses(way: str, result: Evaluation) -> Table:
    rows = _table(f"by start pose ({way})", "pose", "fights", "won", "95 % interval")
    for pose in result.by_pose:
        won = _percent(pose.n_wins / pose.n_fights)
        rows.add_row(str(pose.pose), str(pose.n_fights), won, _range(pose.interval))
    return rows


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _number(value: float | None, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def _range(interval: Interval | None) -> str:
    return UNKNOWN if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"
