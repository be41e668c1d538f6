import io
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from soulslab.errors import CheckpointError
from soulslab.learn.settings import RunSettings, TrainSettings
from soulslab.learn.tuning.running import StudyProgress, StudyResult
from soulslab.learn.tuning.settings import load_tune_settings
from soulslab.learn.tuning.study_plot import _draw_history, draw_study
from soulslab.learn.tuning.study_report import StudyBar, format_param, format_value, short_names, study_report, summary
from soulslab.learn.tuning.trial import TrialOutcome, TrialStatus
from soulslab.learn.tuning.trial_store import TrialRow

SEARCH = ("learner.lr=1e-4..1e-2:log", "network.widths=[[128,128],[256,256]]")
TOTAL = 200_000


def row(number, state, value, **fields):
    reason = {"reason": "worse than the median at 30 %"} if state is TrialStatus.PRUNED else {}
    outcome = TrialOutcome(number=number, state=state, env_steps=84_000, seconds=12.0, win_rate=0.5, **reason)
    defaults = {
        "params": {"learner.lr": 1.23e-3 * (number + 1), "network.widths": "[256, 256]"},
        "outcome": outcome,
        "is_base": number == 0,
        "is_retried": False,
    }
    return TrialRow(number=number, state=state, value=value, **{**defaults, **fields})


def result(rows, importances=None, **study):
    return StudyResult(
        folder=Path("study"),
        tuning=load_tune_settings(None, SEARCH, {"n_trials": 20, **study}),
        settings=TrainSettings(run=RunSettings(total_steps=TOTAL)),
        rows=rows,
        importances=importances or {},
        is_interrupted=False,
    )


def shown(renderable, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("value", "objective", "words"),
    [
        (None, "win_rate", "-"),
        (0.625, "win_rate", "62.5 %"),
        (-1.23456, "return", "-1.235"),
        (84_000.0, "decisions_to_80", "84.0 k"),
        (1_200_000.0, "decisions_to_80", "never (best 0 %)"),
        (300_000.0, "decisions_to_80", "never (best 40 %)"),
        (250_000.0, "decisions_to_50", "never (best 38 %)"),
        (900.0, "decisions_to_50", "900"),
    ],
)
def test_values_are_said_in_words(value, objective, words):
    value = min(value, 2.0 * TOTAL) if value is not None and objective.startswith("decisions") else value
    assert format_value(value, objective, TOTAL) == words


def test_names_and_values_are_as_short_as_they_can_be():
    assert short_names(["learner.lr", "network.widths"]) == {"learner.lr": "lr", "network.widths": "widths"}
    assert short_names(["a.lr", "b.lr"]) == {"a.lr": "a.lr", "b.lr": "b.lr"}
    assert [format_param(value) for value in (1.234e-5, 7, "[64, 64]", None)] == ["1.2e-05", "7", "[64,64]", "-"]


def test_the_tables_say_what_was_best_what_ended_and_what_mattered():
    rows = [
        row(0, TrialStatus.COMPLETE, 0.25),
        row(1, TrialStatus.COMPLETE, 0.75),
        row(2, TrialStatus.PRUNED, 0.125),
        row(3, TrialStatus.INTERRUPTED, None, is_retried=True),
        row(4, TrialStatus.KILLED, None, outcome=None, is_retried=True),
        row(5, None, None, outcome=None),
    ]
    found = result(rows, {"network.widths": 0.75, "learner.lr": 0.25})
    text = shown(study_report(found))
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines)
    best, config = (next(i for i, line in enumerate(lines) if words in line) for words in ("75.0 %", "0 (config)"))
    assert best < config
    assert "84.0 k" in lines[best]
    for words in (
        "pruned: worse than the median at 30 %",
        "killed, tried again: the study's own",
        "network.widths    75 %",
    ):
        assert words in text
    assert "interrupted" not in text
    assert summary(found) == "3 of 20 candidates tried: 2 complete, 1 pruned"
    assert found.best.number == 1


def test_each_seed_is_shown_where_there_are_several():
    outcome = TrialOutcome(number=0, state=TrialStatus.COMPLETE, value=0.5, values=(0.25, 0.75))
    text = shown(study_report(result([row(0, TrialStatus.COMPLETE, 0.5, outcome=outcome)], seeds=[1, 2])), 120)
    assert "mean of 2 seeds" in text
    assert "25.0 %  75.0 %" in text


def test_a_study_without_a_best_candidate_is_reported():
    text = shown(study_report(result([row(0, TrialStatus.PRUNED, 0.1)])))
    assert "No candidate was trained to the end." in text
    assert "pruned" in text


@pytest.mark.parametrize(
    ("objective", "importances"),
    [
        ("win_rate", {}),
        ("return", {"network.widths": 0.75, "learner.lr": 0.25}),
        ("decisions_to_50", {}),
        ("decisions_to_80", {"network.widths": 0.75, "learner.lr": 0.25}),
    ],
)
def test_the_picture_is_drawn(tmp_path, objective, importances):
    rows = [row(0, TrialStatus.COMPLETE, 0.25), row(1, TrialStatus.PRUNED, 0.1), row(2, TrialStatus.COMPLETE, 0.75)]
    picture = tmp_path / "study.png"
    draw_study(rows, result(rows, objective=objective).tuning, importances, picture)
    assert picture.stat().st_size > 10_000


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path):
    rows = [row(0, TrialStatus.COMPLETE, 0.25)]
    with pytest.raises(CheckpointError, match=r"could not be written"):
        draw_study(rows, result(rows).tuning, {}, tmp_path / "nowhere" / "study.png")


def test_the_legend_of_the_picture_covers_no_point():
    values = [0.02, 0.98, 0.5] * 20  # points everywhere
    rows = [row(n, TrialStatus.PRUNED if n % 2 else TrialStatus.COMPLETE, value) for n, value in enumerate(values)]
    figure = Figure(figsize=(10.0, 7.0), layout="constrained")
    axes = figure.add_subplot(2, 2, 1)
    _draw_history(axes, rows, result(rows).tuning.study)
    figure.draw_without_rendering()
    legend = axes.get_legend().get_window_extent()
    assert not legend.overlaps(axes.get_window_extent())
    assert figure.bbox.containsx(legend.x1)
    assert figure.bbox.containsy(legend.y1)


def test_the_bar_shows_where_the_study_stands():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with StudyBar("decisions_to_80", TOTAL, console) as bar:
        bar.show(StudyProgress(n_trials=20, n_done=7, under_way=0.5, n_pruned=3, n_failed=1, best=84_000.0))
    assert "7 of 20 candidates  3 pruned  1 failed  best 84.0 k" in console.file.getvalue()
