"""Facts on single pages equal those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soulslab.cli import fleet
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings
from soulslab.learn.settings import PPOSettings

DOCS = Path(__file__).parents[2] / "docs"


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def rows(text, heading):
    """Return the cells of the rows of a table, found by the first cell of its header."""
    (table,) = re.findall(rf"^\| {re.escape(heading)} \|.*\n\|[ |-]*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]


@pytest.mark.parametrize("place", ["page", "help"])
def test_settings_that_may_change_have_their_paths(place):
    cells = [row[1] for row in rows(page("fleet"), "command") if "fleet set" in row[0]]
    text = cells[0] if place == "page" else fleet.change.__doc__
    rainbow, _, ppo = text.partition("Rainbow")[2].partition("PPO")
    for part, kind in ((rainbow, QLearningSettings), (ppo.partition("both")[0], PPOSettings)):
        assert set(re.findall(r"\blearner\.\w+", part)) == {f"learner.{name}" for name in kind.adjustable}


@pytest.mark.parametrize("kind", ["ClusterSettings", "WorkerSettings"])
def test_fleet_page_lists_the_settings_of_a_cluster(kind):
    assert f"<!-- settings: soulslab.fleet.ray_cluster:{kind} -->\n" in page("fleet")
