"""What TensorBoard and Prometheus call each number of a message; the documentation's tables are made from it.

TensorBoard has ``group/field``. Prometheus has ``soulslab_group_field`` in its own manner: base units (seconds, shares
from 0 to 1 as ``_ratio``) and ``_total`` behind what only grows. Source: https://prometheus.io/docs/practices/naming/.
A number that is added to a message gets both names by these rules, unless it has a better one below.
"""

from __future__ import annotations

from functools import cache
from typing import Final, get_args

import msgspec

from soulslab.config import describe_settings
from soulslab.learn.telemetry import (
    ActorStats,
    CheckpointSaved,
    Evaluated,
    EvaluationProgress,
    FightStats,
    LearningStats,
    Message,
    TrainFinished,
    TrainProgress,
    TrainStarted,
    UpdateStats,
)

MESSAGES: Final[tuple[type[Message], ...]] = get_args(Message)
"""Every kind of message."""

PREFIX: Final = "soulslab_"
_MS_PER_S: Final = 1000.0

_GROUPS: Final[dict[type[Message], str]] = {
    TrainStarted: "run",
    TrainProgress: "train",
    UpdateStats: "update",
    LearningStats: "update",
    ActorStats: "actor",
    FightStats: "fight",
    Evaluated: "evaluation",
    CheckpointSaved: "checkpoint",
    TrainFinished: "run",
    EvaluationProgress: "evaluation",
}
#: Messages that have a place on TensorBoard's axis and something to draw there.
_DRAWN: Final = frozenset({TrainProgress, UpdateStats, LearningStats, ActorStats, FightStats, Evaluated})
#: They are the axis, or its end.
_AXIS: Final = frozenset({"env_steps", "total_steps"})
#: Numbers with a value per term, attack or action: TensorBoard's folder, Prometheus' label.
_SPREAD: Final = {
    "reward_terms": ("reward", "term"),
    "damage_by_attack": ("damage", "attack"),
    "action_shares": ("actions", "action"),
}
#: Twenty charts of one action each say less than one picture of all; the folder is the picture's tag.
_HISTOGRAMS: Final = frozenset({"action_shares"})
#: What names a run or its end; Prometheus has it as labels of a metric that is 1.
_NAMING: Final[dict[type[Message], tuple[str, tuple[str, ...]]]] = {
    TrainStarted: ("run_info", ("env_id", "seed", "is_resumed")),
    TrainFinished: ("run_end_info", ("reason",)),
}
_METRICS: Final[dict[str, str]] = {
    "env_steps": "train_decisions_total",
    "total_steps": "train_planned_decisions",
    "seconds": "train_seconds_total",
    "TrainProgress.steps_per_second": "train_decisions_per_second",
    "TrainProgress.n_fights": "train_fights_total",
    "TrainProgress.win_rate": "train_win_ratio",
    "TrainProgress.mean_decisions": "train_mean_fight_decisions",
    "UpdateStats.entropy": "update_entropy_nats",
    "UpdateStats.approx_kl": "update_approx_kl_nats",
    "UpdateStats.clip_fraction": "update_clip_ratio",
    "LearningStats.n_updates": "updates_total",
    "LearningStats.updates_per_second": "updates_per_second",
    "LearningStats.n_replay": "replay_steps",
    "LearningStats.n_resets": "network_resets_total",
    "ActorStats.n_dropped": "actor_dropped_steps_total",
    "ActorStats.n_late": "actor_late_steps_total",
    "ActorStats.n_restarts": "actor_restarts_total",
    "FightStats.n_fights": "fight_averaged_fights",
    "FightStats.reward_terms": "fight_reward",
    "FightStats.damage_by_attack": "fight_damage_hit_points",
    "FightStats.action_shares": "fight_action_ratio",
    "Evaluated.env_steps": "evaluation_decisions",
    "Evaluated.n_fights": "evaluation_fights",
    "Evaluated.win_rate": "evaluation_win_ratio",
    "Evaluated.low": "evaluation_win_low_ratio",
    "Evaluated.high": "evaluation_win_high_ratio",
    "CheckpointSaved.env_steps": "checkpoint_decisions",
    "EvaluationProgress.n_done": "evaluation_progress_fights",
    "EvaluationProgress.n_fights": "evaluation_planned_fights",
    "EvaluationProgress.n_wins": "evaluation_progress_wins",
}


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """A number of a message, and its names.

    Attributes:
        field: Its field in the message.
        doc: What it means, from the message's docstring.
        tag: TensorBoard's tag; where there is a label, the folder of a tag per value. "" where it is not drawn.
        is_histogram: Whether TensorBoard shows all its values as one histogram under that tag.
        metric: Prometheus' name.
        scale: Prometheus' value for 1 in the message.
        label: Prometheus' label, and so what there is a value for; "" for a plain number.
    """

    field: str
    doc: str
    tag: str
    is_histogram: bool
    metric: str
    scale: float
    label: str


class NameTag(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of Prometheus that says something in words.

    Attributes:
        metric: Its name; the value is 1.
        fields: The message's fields that are its labels.
    """

    metric: str
    fields: tuple[str, ...]


@cache
def numbers(kind: type[Message]) -> tuple[Number, ...]:
    """Return the numbers of a kind of message, in the order of its fields; what only names things is left out."""
    tag = name_tag(kind)
    words = {"path"} if tag is None else {"path", *tag.fields}
    rows = describe_settings(kind)
    return tuple(_number(kind, row.path, row.doc) for row in rows if row.path not in words)


def name_tag(kind: type[Message]) -> NameTag | None:
    """Return what names a run or its end; None for messages that only count."""
    if kind not in _NAMING:
        return None
    metric, fields = _NAMING[kind]
    return NameTag(metric=PREFIX + metric, fields=fields)


def values(number: Number, message: Message) -> list[tuple[str, float]]:
    """Return a number of a message with the value of its label; several, one, or none if it is unknown.

    Args:
        number: Which, one of ``numbers(type(message))``.
        message: The message.

    Returns:
        Pairs of label ("" for a plain number) and number, in the message's units.
    """
    value = getattr(message, number.field)
    match value:
        case None:
            return []
        case dict():
            return [(str(key), float(part)) for key, part in value.items()]
        case tuple():
            return [(str(place), float(part)) for place, part in enumerate(value)]
        case _:
            return [("", float(value))]


def _number(kind: type[Message], field: str, doc: str) -> Number:
    group = _GROUPS[kind]
    folder, label = _SPREAD.get(field, (field, ""))
    metric = _METRICS.get(f"{kind.__name__}.{field}") or _METRICS.get(field) or f"{group}_{field}"
    scale = 1.0
    if metric.endswith("_ms"):
        metric, scale = f"{metric.removesuffix('_ms')}_seconds", 1.0 / _MS_PER_S
    is_drawn = kind in _DRAWN and field not in _AXIS
    return Number(
        field=field,
        doc=doc,
        tag=f"{group}/{folder}" if is_drawn else "",
        is_histogram=field in _HISTOGRAMS,
        metric=PREFIX + metric,
        scale=scale,
        label=label,
    )
