"""Names of the numbers of telemetry messages in TensorBoard and Prometheus; the documentation's tables use them.

TensorBoard names are ``group/field``. Prometheus names are ``soulslab_group_field`` with its conventions: base units
(seconds, shares from 0 to 1 as ``_ratio``) and the suffix ``_total`` for counters. Source:
https://prometheus.io/docs/practices/naming/. A new number of a message gets both names by these rules, unless a table
below defines another.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple, get_args

import msgspec

from soulslab.config import describe_settings
from soulslab.learn import telemetry

MESSAGES: Final[tuple[type[telemetry.Message], ...]] = get_args(telemetry.Message)
"""All types of messages."""

PREFIX: Final = "soulslab_"


class NameTag(NamedTuple):
    """A metric of Prometheus whose value is 1 and whose labels are texts of a message."""

    metric: str
    fields: tuple[str, ...]


_GROUPS: Final[dict[type[telemetry.Message], str]] = {
    telemetry.TrainStarted: "run",
    telemetry.TrainProgress: "train",
    telemetry.UpdateStats: "update",
    telemetry.LearningStats: "update",
    telemetry.ActorStats: "actor",
    telemetry.FightStats: "fight",
    telemetry.Evaluated: "evaluation",
    telemetry.CheckpointSaved: "checkpoint",
    telemetry.TrainFinished: "run",
    telemetry.EvaluationProgress: "evaluation",
}
#: Messages that TensorBoard shows.
_DRAWN: Final = frozenset(
    {
        telemetry.TrainProgress,
        telemetry.UpdateStats,
        telemetry.LearningStats,
        telemetry.ActorStats,
        telemetry.FightStats,
        telemetry.Evaluated,
    }
)
#: Fields that are the horizontal axis, or its end.
_AXIS: Final = frozenset({"env_steps", "total_steps"})
#: Fields with a value per term, attack or action: the folder in TensorBoard and the label in Prometheus.
_SPREAD: Final = {
    "reward_terms": ("reward", "term"),
    "damage_by_attack": ("damage", "attack"),
    "kills_by_attack": ("kills", "attack"),
    "wins_by_pose": ("wins", "pose"),
    "action_shares": ("actions", "action"),
    "uses_by_attack": ("attack_uses", "attack"),
    "hits_by_attack": ("attack_hits", "attack"),
    "decisions_by_phase": ("phase_decisions", "phase"),
    "damage_dealt_by_phase": ("phase_damage_dealt", "phase"),
    "damage_taken_by_phase": ("phase_damage_taken", "phase"),
}
#: Fields that only the dashboard shows: a table for each value.
_TABLES: Final = frozenset({"actions_by_situation"})
#: Fields that TensorBoard shows as one histogram instead of one chart per action.
_HISTOGRAMS: Final = frozenset({"action_shares"})
#: Messages with texts that describe the run; in Prometheus they are labels of a metric whose value is 1.
NAME_TAGS: Final[dict[type[telemetry.Message], NameTag]] = {
    telemetry.TrainStarted: NameTag(f"{PREFIX}run_info", ("env_id", "seed", "is_resumed")),
    telemetry.TrainFinished: NameTag(f"{PREFIX}run_end_info", ("reason",)),
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
    "UpdateStats.updates_per_second": "updates_per_second",
    "UpdateStats.teacher_loss": "update_teacher_loss_nats",
    "LearningStats.n_updates": "updates_total",
    "LearningStats.updates_per_second": "updates_per_second",
    "LearningStats.n_replay": "replay_steps",
    "ActorStats.n_dropped": "actor_dropped_steps_total",
    "ActorStats.n_late": "actor_late_steps_total",
    "ActorStats.n_restarts": "actor_restarts_total",
    "FightStats.n_fights": "fight_averaged_fights",
    "FightStats.reward_terms": "fight_reward",
    "FightStats.damage_by_attack": "fight_damage_hit_points",
    "FightStats.kills_by_attack": "fight_killed_ratio",
    "FightStats.wins_by_pose": "fight_pose_win_ratio",
    "FightStats.action_shares": "fight_action_ratio",
    "FightStats.uses_by_attack": "fight_attack_uses",
    "FightStats.hits_by_attack": "fight_attack_hits",
    "FightStats.damage_dealt": "fight_damage_dealt_hit_points",
    "FightStats.damage_taken": "fight_damage_taken_hit_points",
    "FightStats.decisions_by_phase": "fight_phase_decisions",
    "FightStats.damage_dealt_by_phase": "fight_phase_damage_dealt_hit_points",
    "FightStats.damage_taken_by_phase": "fight_phase_damage_taken_hit_points",
    "Evaluated.env_steps": "evaluation_decisions",
    "Evaluated.n_fights": "evaluation_fights",
    "Evaluated.win_rate": "evaluation_win_ratio",
    "Evaluated.low": "evaluation_win_low_ratio",
    "Evaluated.high": "evaluation_win_high_ratio",
    "Evaluated.damage_by_attack": "evaluation_damage_hit_points",
    "Evaluated.kills_by_attack": "evaluation_killed_ratio",
    "Evaluated.wins_by_pose": "evaluation_pose_win_ratio",
    "Evaluated.uses_by_attack": "evaluation_attack_uses",
    "Evaluated.hits_by_attack": "evaluation_attack_hits",
    "CheckpointSaved.env_steps": "checkpoint_decisions",
    "EvaluationProgress.n_done": "evaluation_progress_fights",
    "EvaluationProgress.n_fights": "evaluation_planned_fights",
    "EvaluationProgress.n_wins": "evaluation_progress_wins",
}


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """A number of a message and its names; ``doc`` is from the docstring of the message.

    ``tag`` is the tag in TensorBoard, with a label the folder of the tags, and "" if TensorBoard does not show it.
    ``scale`` converts the unit of the message to the unit in Prometheus; ``label`` is "" for a single value.
    """

    field: str
    doc: str
    tag: str
    is_histogram: bool
    metric: str
    scale: float
    label: str


@cache
def numbers(kind: type[telemetry.Message]) -> tuple[Number, ...]:
    """Return the numbers of a type of message, in the order of its fields."""
    tag = NAME_TAGS.get(kind)
    left_out = {"path", *_TABLES, *(tag.fields if tag is not None else ())}
    rows = describe_settings(kind)
    return tuple(_number(kind, row.path, row.doc) for row in rows if row.path not in left_out)


def values(number: Number, message: telemetry.Message) -> list[tuple[str, float]]:
    """Return pairs of label ("" for a single value) and value of a number; empty if it is unknown."""
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


def tagged_values(message: telemetry.Message) -> dict[str, float]:
    """Return the known numbers of a message that TensorBoard shows, by tag."""
    return {
        f"{number.tag}/{label}" if label else number.tag: value
        for number in numbers(type(message))
        if number.tag
        for label, value in values(number, message)
    }


def _number(kind: type[telemetry.Message], field: str, doc: str) -> Number:
    group = _GROUPS[kind]
    folder, label = _SPREAD.get(field, (field, ""))
    metric = _METRICS.get(f"{kind.__name__}.{field}") or _METRICS.get(field) or f"{group}_{field}"
    scale = 1.0
    if metric.endswith("_ms"):
        metric, scale = f"{metric.removesuffix('_ms')}_seconds", 1.0 / 1000.0
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
