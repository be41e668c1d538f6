"""Tables and JSON rows of evaluations."""

import json

import msgspec
from rich.console import Console

from soulslab.learn.evaluate import AttackRow, BossRow, Evaluation, PoseRow, wilson_interval
from soulslab.report import N_BOSSES, evaluation_rows, evaluation_tables

FULL = Evaluation(
    n_fights=10,
    mean_return=1.234,
    mean_decisions=300.0,
    n_wins=9,
    win_rate=0.9,
    interval=wilson_interval(9, 10),
    mean_time_s=30.0,
    mean_damage_taken=120.4,
    by_attack=(
        AttackRow(name="thrust", mean_damage=100.0, mean_damage_in_losses=300.0, n_kills=0),
        AttackRow(name="grab", mean_damage=20.4, mean_damage_in_losses=None, n_kills=1),
    ),
    by_pose=(
        PoseRow(pose=0, n_fights=6, n_wins=6, interval=wilson_interval(6, 6)),
        PoseRow(pose=3, n_fights=4, n_wins=3, interval=wilson_interval(3, 4)),
    ),
)
BARE = Evaluation(n_fights=5, mean_return=21.0, mean_decisions=21.0)


def lines(evaluations):
    console = Console(width=120)
    with console.capture() as capture:
        for table in evaluation_tables(evaluations):
            console.print(table)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_overview_of_greedy_and_sampled_actions():
    text = lines({"greedy": FULL, "sampled": BARE})
    assert "greedy 10 90.0 % 59.6 to 98.2 % 30.0 120 1.23" in text
    assert "sampled 5 - - - - 21.00" in text


def test_the_deadliest_attack_comes_first():
    text = lines({"greedy": FULL})
    assert text.index("grab 20.4 - 1") < text.index("thrust 100.0 300.0 0")


def test_start_poses():
    text = lines({"greedy": FULL})
    assert "0 6 100.0 % 61.0 to 100.0 %" in text
    assert "3 4 75.0 % 30.1 to 95.4 %" in text


def test_the_hardest_bosses_come_first():
    wins = [4] * (N_BOSSES - 1) + [1, 0]
    rows = [
        BossRow(boss_seed=seed, n_fights=4, n_wins=won, interval=wilson_interval(won, 4))
        for seed, won in enumerate(wins)
    ]
    text = lines({"greedy": msgspec.structs.replace(FULL, by_boss=tuple(rows))})
    first = text.index(f"generated:{N_BOSSES} 4 0.0 % 0.0 to 49.0 %")
    assert f"bosses with the fewest wins, of {N_BOSSES + 1} (greedy)" in text
    assert text[first + 1].startswith(f"generated:{N_BOSSES - 1} 4 25.0 %")
    assert sum(line.startswith("generated:") for line in text) == N_BOSSES


def test_without_a_fight_report_only_the_overview_is_shown():
    assert len(evaluation_tables({"greedy": BARE})) == 1


def test_evaluation_rows():
    rows = json.loads(msgspec.json.encode(evaluation_rows({"greedy": FULL, "sampled": BARE}, {"seed": 3})))
    assert [(row["actions"], row["seed"], row["n_fights"]) for row in rows] == [("greedy", 3, 10), ("sampled", 3, 5)]
    assert rows[0]["by_attack"][1]["name"] == "grab"
