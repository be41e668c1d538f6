"""Every number has a name in Prometheus, one of its own unless it is the same number."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from soulslab.learn.sinks.metric_names import MESSAGES, NAME_TAGS, numbers, values
from soulslab.learn.telemetry import Evaluated, FightStats, TrainProgress
from support.messages import example, unknown

PAGE = Path(__file__).parents[4] / "docs" / "telemetry.md"
BY_NAME = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)


@BY_NAME
def test_every_field_is_a_number_or_a_name(kind):
    named = NAME_TAGS.get(kind).fields if NAME_TAGS.get(kind) else ()
    fields = [*named, *(number.field for number in numbers(kind))]
    assert sorted(fields) == sorted(set(msgspec.structs.asdict(example(kind))) - {"path", "actions_by_situation"})


@BY_NAME
def test_every_number_is_explained(kind):
    """The tables of the documentation and Prometheus' HELP lines come from the docstrings."""
    assert all(number.doc for number in numbers(kind))


@BY_NAME
def test_the_page_has_its_table(kind):
    assert f"### {kind.__name__}\n" in PAGE.read_text(encoding="utf-8")
    assert f"<!-- messages: {kind.__name__} -->" in PAGE.read_text(encoding="utf-8")


def test_the_page_names_metrics_that_exist():
    known = {number.metric for kind in MESSAGES for number in numbers(kind)} | {
        "soulslab_last_message_timestamp_seconds"
    }
    assert set(re.findall(r"soulslab_\w+", PAGE.read_text(encoding="utf-8"))) <= known


def test_names_are_of_the_field_and_follow_the_conventions():
    for kind in MESSAGES:
        for number in numbers(kind):
            assert re.fullmatch(r"soulslab(_[a-z0-9]+)+", number.metric), number
            assert not number.metric.endswith(("_ms", "_rate", "_share", "_percent", "_count", "_sum", "_bucket"))


def test_only_the_same_number_shares_a_name():
    """A number that several messages contain has the same field in each."""
    fields = {}
    for kind in MESSAGES:
        metrics = [number.metric for number in numbers(kind)]
        assert len(set(metrics)) == len(metrics)
        for number in numbers(kind):
            assert fields.setdefault(number.metric, number.field) == number.field
    drawn = [number.tag for kind in MESSAGES for number in numbers(kind) if number.tag]
    shared = {tag for tag in drawn if drawn.count(tag) > 1}
    assert shared == {"update/grad_norm", "update/lr", "update/updates_per_second"}


def test_what_is_unknown_has_no_value():
    by_field = {number.field: number for number in numbers(TrainProgress)}
    message = unknown(example(TrainProgress))
    assert values(by_field["win_rate"], message) == []
    assert values(by_field["n_fights"], message) == [("", message.n_fights)]


def test_spread_numbers_have_a_value_per_label():
    message = FightStats(
        env_steps=1, n_fights=1, reward_terms={"win": 1.0}, damage_by_attack={}, action_shares=(0.25, 0.75)
    )
    found = {number.field: values(number, message) for number in numbers(FightStats)}
    assert found["reward_terms"] == [("win", 1.0)]
    assert found["damage_by_attack"] == []
    assert found["action_shares"] == [("0", 0.25), ("1", 0.75)]


def test_evaluations_have_their_own_place():
    assert {number.tag for number in numbers(Evaluated) if number.tag} == {
        "evaluation/n_fights",
        "evaluation/mean_return",
        "evaluation/win_rate",
        "evaluation/low",
        "evaluation/high",
        "evaluation/damage",
        "evaluation/kills",
        "evaluation/wins",
        "evaluation/attack_uses",
        "evaluation/attack_hits",
    }


def test_queries_of_the_grafana_dashboard_use_numbers_that_exist():
    dashboard = json.loads((Path(__file__).parents[4] / "docs" / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for query in queries for name in re.findall(r"soulslab_\w+", query)}
    known = {number.metric for kind in MESSAGES for number in numbers(kind)}
    assert used - known == {"soulslab_last_message_timestamp_seconds"}
    assert len(queries) == 11
