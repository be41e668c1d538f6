"""Facts on single pages equal those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from soulslab import cli
from soulslab.arena.vocabulary import NOTHING
from soulslab.cli import fleet, siphon
from soulslab.envs import wrappers
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings
from soulslab.learn.settings import PPOSettings
from soulslab.siphon.recording.recorder import RecordingOptions
from support.live_env import live_env

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


def test_live_page_lists_the_keys_of_info():
    names = [(when, re.findall(r"`(\w+)`", keys)) for keys, when, _ in rows(page("live"), "key")]
    documented = {key for _, keys in names for key in keys}
    of_end = {key for when, keys in names for key in keys if when == "last step"}
    of_failure = {key for when, keys in names for key in keys if when == "failed step"}
    env = live_env(on_failure="truncate")
    assert set(env.reset(seed=0)[1]) == documented - of_end - of_failure
    is_over = False
    while not is_over:
        _, _, terminated, truncated, info = env.step(NOTHING)
        is_over = terminated or truncated
    assert set(info) == documented - of_failure
    (report,) = [meaning for keys, _, meaning in rows(page("live"), "key") if keys == "`fight`"]
    assert set(info["fight"]) == set(re.findall(r"`(\w+)`", report))
    env.reset()
    env.fights.arena.is_alive = False
    assert set(env.step(NOTHING)[4]) == documented - of_end
    env.close()


def test_recording_page_lists_the_choices_of_the_command():
    choices = get_args(get_type_hints(siphon.record)["frames"])
    assert choices == get_args(get_type_hints(RecordingOptions)["frames"])
    of_table = {row[0].split("`")[1] for row in rows(page("recording"), "frames")}
    assert {*of_table, "none"} == set(choices)


def test_arena_page_states_the_most_wins_of_a_naive_player():
    results = msgspec.json.decode((DOCS / "results" / "fights.json").read_bytes())
    most = max(row["won (%)"] for row in results if row["player"] != "reference")
    assert f"None of them wins more than {most:g} % of its fights." in page("arena")


def commands_with(condition, app=cli.app, words=()):
    """Yield the names of the commands whose arguments fulfil a condition."""
    for name in (each for each in app if not each.startswith("-")):
        yield from commands_with(condition, app[name], (*words, name))
    if app.default_command is not None and condition(app.assemble_argument_collection()):
        yield " ".join(words)


def is_trusting(arguments):
    return any("--trust" in each.names for each in arguments)


def takes_token_of_environment(arguments):
    text = "File with the token of the environment's server"
    return any((each.parameter.help or "").startswith(text) for each in arguments)


@pytest.mark.parametrize(
    ("name", "words", "has_flag"),
    [("training", "`--trust`", is_trusting), ("remote", "`--token-file -`", takes_token_of_environment)],
)
def test_pages_name_the_commands_that_have_a_flag(name, words, has_flag):
    existing = set(commands_with(lambda _: True))
    (paragraph,) = [text for text in page(name).split("\n\n") if words in text]
    named = {" ".join(code.split()).partition(" --")[0] for code in re.findall(r"`([^`]+)`", paragraph)}
    assert named & existing == set(commands_with(has_flag))


def test_reference_of_wrappers_is_complete():
    reference = page("wrappers").partition("::: soulslab.envs.wrappers\n")[2]
    assert sorted(re.findall(r"^ +- (\w+)$", reference, re.MULTILINE)) == sorted(wrappers.__all__)
