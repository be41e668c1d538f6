"""The charts of a run: which measurements are shown together, and their lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from soulslab.dashboard.charts import Line, Theme, bar_options, chart_options
from soulslab.dashboard.run_log import RunLog, Series
from soulslab.learn.telemetry import FightStats


class ChartSpec(NamedTuple):
    """A chart: measurements by their name, or all whose name starts with ``prefix``, in the unit after scaling.

    ``label`` precedes the name of each line.
    """

    title: str
    unit: str
    tags: tuple[str, ...] = ()
    prefix: str = ""
    scale: float = 1.0
    label: str = ""


WIN_RATE: Final = ChartSpec("Win rate", "%")
AVOIDED: Final = ChartSpec("Avoided attacks", "%", prefix="fight/attack_uses/")
"""Share of the uses of each attack that did not hit the player."""

_HITS: Final = "fight/attack_hits/"
CHARTS: Final = (
    WIN_RATE,
    ChartSpec("Return", "per fight", ("train/mean_return", "evaluation/mean_return")),
    ChartSpec("Fight length", "decisions", ("train/mean_decisions",)),
    ChartSpec("Damage", "hit points per fight", ("fight/damage_dealt", "fight/damage_taken")),
    ChartSpec("Damage taken by attack", "hit points per fight", prefix="fight/damage/"),
    ChartSpec("Attacks used", "per fight", prefix="fight/attack_uses/"),
    AVOIDED,
    ChartSpec("Fights ended by attack", "% of fights", prefix="fight/kills/", scale=100.0),
    ChartSpec("Wins by start pose", "%", prefix="fight/wins/", scale=100.0, label="pose "),
    ChartSpec("Return by term", "per fight", prefix="fight/reward/"),
    ChartSpec("Action values", "return", ("update/q_mean", "update/q_max")),
    ChartSpec("Loss", "", ("update/loss", "update/policy_loss", "update/value_loss", "update/teacher_loss")),
    ChartSpec("Temporal-difference error", "return", ("update/td_error",)),
    ChartSpec("Entropy", "nats", ("update/entropy",)),
    ChartSpec("Random actions", "% of decisions", ("update/epsilon",), scale=100.0),
    ChartSpec("Change per update", "", ("update/approx_kl", "update/clip_fraction")),
    ChartSpec("Explained variance", "share", ("update/explained_variance",)),
    ChartSpec("Gradient norm", "", ("update/grad_norm",)),
    ChartSpec("Learning rate", "", ("update/lr",)),
    ChartSpec("Speed", "decisions/s", ("train/steps_per_second",)),
    ChartSpec("Updates", "per second", ("update/updates_per_second",)),
    ChartSpec("Replay buffer", "steps", ("update/n_replay",)),
    ChartSpec("Late and lost steps", "steps", ("actor/n_late", "actor/n_dropped")),
    ChartSpec("Lateness, 99th percentile", "ms", ("actor/lateness_p99_ms",)),
    ChartSpec("Age of the actor's weights", "updates", ("actor/staleness_updates",)),
)
_NAMES: Final = {
    "train/mean_return": "last training fights",
    "train/mean_decisions": "last training fights",
    "train/steps_per_second": "game decisions",
    "evaluation/mean_return": "evaluation",
    "fight/damage_dealt": "dealt",
    "fight/damage_taken": "taken",
    "update/q_mean": "taken actions",
    "update/q_max": "best actions",
    "update/td_error": "mean absolute error",
    "update/epsilon": "random actions",
    "update/grad_norm": "norm before clipping",
    "update/lr": "learning rate",
    "update/updates_per_second": "updates",
    "update/n_replay": "steps in the buffer",
    "actor/n_late": "late steps",
    "actor/n_dropped": "lost steps",
    "actor/lateness_p99_ms": "lateness",
    "actor/staleness_updates": "age of the weights",
    "update/policy_loss": "policy loss",
    "update/value_loss": "value loss",
    "update/approx_kl": "KL divergence (nats)",
    "update/clip_fraction": "clipped share",
}
_MAX_LINES: Final = 8


def shown_tags(spec: ChartSpec, log: RunLog) -> list[str]:
    """Return the measurements of a chart that the run has; of many, those with the largest last values."""
    tags = log.tags
    if not spec.prefix:
        return [tag for tag in spec.tags if tag in tags and len(log.series(tag).values)]
    series = {tag: log.series(tag).values for tag in tags if tag.startswith(spec.prefix)}
    last = {tag: abs(float(values[-1])) for tag, values in series.items() if len(values)}
    return sorted((tag for tag, size in last.items() if size > 0.0), key=lambda tag: -last[tag])[:_MAX_LINES]


def run_lines(spec: ChartSpec, log: RunLog, axis: str, decision_s: float) -> list[Line]:
    """Return the lines of a chart of one run."""
    if spec is WIN_RATE:
        return _win_rate_lines(log, axis, decision_s)
    lines = []
    for tag in shown_tags(spec, log):
        series = log.series(tag)
        if spec is AVOIDED:
            series = _avoided(log, tag)
        name = _NAMES.get(tag, spec.label + tag.rpartition("/")[2].replace("_", " "))
        is_rare = tag.startswith("evaluation/")
        lines.append(Line(name, log.axis(axis, series, decision_s), spec.scale * series.values, has_marks=is_rare))
    return lines


def _avoided(log: RunLog, tag: str) -> Series:
    """Return the share of the uses of an attack that did not hit, in %, where the attack was used."""
    uses, hits = log.series(tag), log.series(_HITS + tag.removeprefix(AVOIDED.prefix))
    if len(uses.values) != len(hits.values):
        return Series(*(part[:0] for part in uses))
    known = uses.values > 0.0
    return Series(uses.env_steps[known], uses.wall_s[known], 100.0 * (1.0 - hits.values[known] / uses.values[known]))


def _win_rate_lines(log: RunLog, axis: str, decision_s: float) -> list[Line]:
    """Return the evaluated win rate and that of the last training fights, with their intervals, if they are known."""
    lines = []
    for label, band in (("evaluation", log.evaluated_win_rate()), ("last training fights", log.moving_win_rate())):
        if len(band.series.values):
            x = log.axis(axis, band.series, decision_s)
            lines.append(Line(label, x, band.series.values, band.low, band.high, has_marks=label == "evaluation"))
    return lines


def run_chart(spec: ChartSpec, log: RunLog, axis: str, decision_s: float, theme: Theme) -> dict[str, Any] | None:
    """Return the options of a chart of one run; None if the run has none of its measurements."""
    lines = run_lines(spec, log, axis, decision_s)
    return chart_options(spec.title, spec.unit, axis, lines, theme) if lines else None


def action_chart(log: RunLog, names: Sequence[str], theme: Theme) -> dict[str, Any] | None:
    """Return the options of the chart of chosen actions, the most frequent first; None without them."""
    stats = log.last.get(FightStats)
    if not isinstance(stats, FightStats) or not stats.action_shares:
        return None
    known = len(names) == len(stats.action_shares)
    labels = names if known else [str(i) for i in range(len(stats.action_shares))]
    order = sorted(range(len(labels)), key=lambda i: -stats.action_shares[i])
    shares = [100.0 * stats.action_shares[i] for i in order]
    return bar_options("Actions in the last fights", "%", [labels[i] for i in order], shares, theme)
