"""The report and the picture of a fit."""

import math
import re

import pytest
from matplotlib.patches import Wedge

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.hit_windows import HitWindow
from soulslab.arena.fitting.simulated import record_simulated
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.fights.fit_picture import draw_fit
from soulslab.fights.fit_report import advice

GROUPS = ("no change of phase", "never hit", "was seen", "step back", "off its facing", "roll into it late")


@pytest.fixture(scope="module")
def fit():
    probe = ProbePlayer(1, 1)
    fights = list(record_simulated(find_boss("judge"), lambda _: probe, seed=1, minutes=2.0, top_up=False))
    return fit_boss(fights, load_knight())


def test_the_most_useful_advice_is_first(fit):
    n_seen = {move.animation: move.n_seen for move in fit.moves}
    ranks = []
    for line in advice(fit):
        group = next(number for number, words in enumerate(GROUPS) if words in line)
        ranks.append((group, -n_seen[re.match(r"Attack\d+", line)[0]] if group else 0))
    assert ranks == sorted(ranks)
    assert {group for group, _ in ranks} == set(range(len(GROUPS)))
    never_hit = {move.animation for move in fit.moves if not move.is_explained}
    assert {line.split()[0] for line in advice(fit) if "never hit" in line} == never_hit


def test_the_picture_has_the_intervals_of_reach_and_arc_and_a_legend(fit):
    figure = draw_fit(fit)
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[:4] == ["hit", "near miss", "least and greatest area (90 %)", "hits in 0.05 s, below"]
    assert "window 1: area, and time below" in labels
    above = figure.axes[0::2]
    n_intervals = 0
    for panel, fitted in zip(above, fit.moves, strict=True):
        dashed = [patch for patch in panel.patches if patch.get_linestyle() == "--"]
        drawn = [(patch.r, patch.theta2 - patch.theta1) for patch in dashed if isinstance(patch, Wedge)]
        for found in fitted.windows:
            if fitted.is_explained and isinstance(found, HitWindow) and found.area.arc_rad.high < math.tau - 0.01:
                for end in ("low", "high"):
                    reach, arc = (getattr(interval, end) for interval in (found.area.reach_m, found.area.arc_rad))
                    expected = pytest.approx((fit.boss.radius_m + reach, math.degrees(arc)))
                    assert any(sector == expected for sector in drawn)
                    n_intervals += 1
    assert n_intervals > 0
