"""What the report of a fit advises to record next."""

import re

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.simulated import record_simulated
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.fights.fit_report import advice

GROUPS = ("no change of phase", "never hit", "was seen", "step back", "off its facing", "roll into it late")


def test_the_most_useful_advice_is_first():
    probe = ProbePlayer(1, 1)
    fights = list(record_simulated(find_boss("judge"), lambda _: probe, seed=1, minutes=2.0, top_up=False))
    fit = fit_boss(fights, load_knight())
    n_seen = {move.animation: move.n_seen for move in fit.moves}
    ranks = []
    for line in advice(fit):
        group = next(number for number, words in enumerate(GROUPS) if words in line)
        ranks.append((group, -n_seen[re.match(r"Attack\d+", line)[0]] if group else 0))
    assert ranks == sorted(ranks)
    assert {group for group, _ in ranks} == set(range(len(GROUPS)))
    never_hit = {move.animation for move in fit.moves if not move.is_explained}
    assert {line.split()[0] for line in advice(fit) if "never hit" in line} == never_hit
