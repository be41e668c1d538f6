"""Texts and scripts of pages, without a browser."""

import json

import cv2
import numpy as np
import pytest

from soulslab.dashboard.charts import DARK, LIGHT, Line, chart_options
from soulslab.dashboard.pages.fleet_page import games_html
from soulslab.dashboard.pages.frame import short
from soulslab.dashboard.pages.run_charts import CHARTS, run_lines, shown_tags
from soulslab.dashboard.run_log import AXES, DECISION_S, RunLog, last_evaluation
from soulslab.fleet.messages import Lease
from soulslab.learn.telemetry import FightStats
from support.run_folders import evaluated, line, progress, started


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (0.0, "0"),
        (0.12345, "0.123"),
        (999.6, "1,000"),
        (1234.5, "1,234"),
        (9999.7, "10 k"),
        (12_345.0, "12.3 k"),
        (999_700.0, "1 M"),
        (4.56e6, "4.56 M"),
        (-2.5e9, "-2.5 G"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_for_people(value, text):
    assert short(value) == text


def test_name_of_an_axis_is_no_script():
    name = "x'+alert(1)+'\"</script>"
    options = chart_options("t", "", name, [Line("l", np.arange(2.0), np.arange(2.0))], LIGHT)
    script = options["tooltip"]["axisPointer"]["label"][":formatter"]
    assert script.endswith(json.dumps(f" {name}"))


def test_lines_of_the_same_colour_have_different_dashes():
    points = np.arange(2.0)
    series = chart_options("t", "", "x", [Line(str(i), points, points) for i in range(20)], LIGHT)["series"]
    styles = [(each["lineStyle"]["color"], each["lineStyle"]["type"]) for each in series]
    assert len(set(styles)) == 20


#: How people without one type of cone see linear RGB: Machado, Oliveira & Fernandes 2009, severity 1.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def linear(colours):
    """Return sRGB colours, ``#rrggbb``, as linear RGB, (N, 3)."""
    srgb = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in colours])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_can_be_distinguished_with_a_colour_deficiency(theme):
    lines = linear(theme.lines)
    for vision, matrix in VISIONS.items():
        seen = np.clip(lines @ np.array(matrix).T, 0.0, 1.0)
        srgb = np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055).astype(np.float32)
        lab = cv2.cvtColor(srgb[None], cv2.COLOR_RGB2LAB)[0]
        distances = np.linalg.norm(lab[:, None] - lab, axis=2)[np.triu_indices(len(lab), 1)]
        assert distances.min() > 10.0, vision
    brightness = linear([*theme.lines, theme.surface]) @ [0.2126, 0.7152, 0.0722] + 0.05
    contrast = np.maximum(brightness / brightness[-1], brightness[-1] / brightness)[:-1]
    assert contrast.min() > 3.0  # WCAG 2.1 for graphical objects


def test_measurement_that_a_resume_cut_is_left_out(tmp_path):
    path = tmp_path / "progress.jsonl"
    late = FightStats(env_steps=200, n_fights=1, reward_terms={}, damage_by_attack={}, wins_by_pose={"3": 1.0})
    path.write_bytes(line(started()) + line(progress(100)) + line(late))
    log = RunLog(path)
    log.update()
    [spec] = [each for each in CHARTS if each.title == "Wins by start pose"]
    assert shown_tags(spec, log) == ["fight/wins/3"]
    assert [each.name for each in run_lines(spec, log, AXES[0], DECISION_S)] == ["pose 3"]
    with path.open("ab") as file:
        file.write(line(started(100, is_resumed=True)))
    log.update()
    assert shown_tags(spec, log) == []
    assert FightStats not in log.last


def test_last_evaluation_is_found_behind_many_reports_unless_a_resume_repeats_it(tmp_path):
    path = tmp_path / "progress.jsonl"
    assert last_evaluation(path) is None
    reports = b"".join(line(progress(step)) for step in range(300, 2000))
    path.write_bytes(line(started()) + line(evaluated(100, 0.1)) + line(evaluated(200, 0.2)) + reports)
    assert last_evaluation(path).win_rate == 0.2
    with path.open("ab") as file:
        file.write(line(started(150, is_resumed=True)) + line(progress(160)))
    assert last_evaluation(path).win_rate == 0.1


def test_all_games_of_this_machine_have_a_link_and_the_first_ones_a_picture(tmp_path):
    fields = {"incarnation": "a", "host": "pc", "state": "playing", "n_envs": 1, "soulslab": "x"}
    games = tuple(Lease(worker=f"pc/{i}", **fields) for i in range(4))
    html = games_html(games, tmp_path, "pack", {"pc/0": b"jpeg", "pc/1": b"", "pc/2": None})
    rows = html.split("<tr>")[2:]
    assert [row.count("/live/pack?game=pc%2F") for row in rows] == [1, 1, 1, 0]
    assert [row.count("<img") for row in rows] == [1, 0, 0, 0]
    assert [row.count('class="blank"') for row in rows] == [0, 1, 0, 0]


def test_fleet_without_games_says_how_to_start_one(tmp_path):
    assert f"soulslab fleet play {tmp_path / 'join.toml'}" in games_html((), tmp_path, "pack", {})
