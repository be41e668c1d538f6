"""The output of the console sink on a terminal of 80 columns."""

import io
import re

import msgspec
import pytest
from rich.console import Console

from soulslab.learn.sinks import ConsoleSink
from soulslab.learn.sinks.metric_names import MESSAGES
from soulslab.learn.telemetry import ActorStats, EvaluationProgress, TrainFinished, TrainStarted
from support.messages import EVALUATED, LEARNING, PROGRESS, example, unknown

STARTED = TrainStarted(env_id="toys/Corridor-v0", total_steps=1_000_000, env_steps=0, seed=0, is_resumed=False)
FINISHED = TrainFinished(env_steps=1_000_000, seconds=10.0, reason="completed")
SLOW = msgspec.structs.replace(
    PROGRESS, env_steps=123_400, total_steps=200_000, steps_per_second=1987.3, n_fights=12_345, win_rate=1.0
)
ACTOR = ActorStats(env_steps=1, staleness_updates=1, n_dropped=0, n_late=0, lateness_p99_ms=None, n_restarts=0)


def frames(messages, width=80):
    """Return all lines that were on the screen after the messages, the bar and the time left out."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    sink = ConsoleSink(console)
    for message in messages:
        sink.write(message)
    sink.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue()).replace("\r", "\n")
    lines = [line for line in plain.split("\n") if line.strip()]
    assert all(len(line) <= width for line in lines)
    return [re.sub(r"[━╸╺]|\d:\d\d:\d\d|-:--:--", "", line).strip() for line in lines]


def test_ppo_has_one_line():
    *_, last = frames([STARTED, PROGRESS, FINISHED])
    assert last == "0.50 M steps  100 k/s  2000 fights  won 25.0 %"


def test_evaluations_alone():
    *_, last = frames([EvaluationProgress(n_done=30, n_fights=30, n_wins=27)])
    assert last == "30 of 30 fights  won 90.0 %"


def test_a_slow_run_has_small_units_before_it_learns():
    progress = msgspec.structs.replace(SLOW, env_steps=900, steps_per_second=9.7, n_fights=4, win_rate=None)
    *_, last = frames([STARTED, msgspec.structs.replace(progress, mean_return=None), FINISHED])
    assert last == "0.9 k steps  10/s  4 fights  won -"


def test_the_lines_of_a_rainbow_run_fit_into_80_columns():
    """The widest numbers that there are."""
    actor = msgspec.structs.replace(ACTOR, n_dropped=1234, n_late=5678)
    judged = msgspec.structs.replace(EVALUATED, win_rate=1.0, low=0.98, high=1.0)
    *_, first, second = frames([STARTED, SLOW, LEARNING, judged, actor, FINISHED])
    assert first == "123.4 k steps  1987/s  12345 fights  won 100.0 %"
    assert second == "3988 updates/s  evaluated 100.0 % (98 to 100 %)  1234 lost  5678 late"


def test_what_did_not_happen_is_not_told():
    *_, second = frames([SLOW, LEARNING, ACTOR])
    assert second == "3988 updates/s"


def test_where_nobody_can_win_the_return_is_told():
    progress = msgspec.structs.replace(SLOW, win_rate=None, mean_return=-12.345)
    *_, first, second = frames([progress, msgspec.structs.replace(EVALUATED, win_rate=None, low=None, high=None)])
    assert first.endswith("return -12.35") or first.endswith("return -12.34")
    assert second == "evaluated return 1.50"
    *_, last = frames([EvaluationProgress(n_done=30, n_fights=30, n_wins=None)])
    assert last == "30 of 30 fights"


def test_an_evaluation_in_the_middle_has_a_bar_of_its_own():
    """It comes and goes below the run's."""
    lines = frames([SLOW, LEARNING, *(EvaluationProgress(n_done=n, n_fights=20, n_wins=n // 2) for n in (0, 10, 20))])
    assert "20 of 20 fights  won 50.0 %" not in lines[-2:]
    assert lines[-2:] == ["123.4 k steps  1987/s  12345 fights  won 100.0 %", "3988 updates/s"]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_it_takes_every_message_at_any_time(kind):
    frames([example(kind), unknown(example(kind)), SLOW, example(kind), FINISHED, example(kind)], width=200)


def test_a_file_gets_a_line_a_minute_and_one_at_each_evaluation():
    console = Console(file=io.StringIO(), force_terminal=False, width=80)
    sink = ConsoleSink(console)
    sink.write(STARTED)
    counts = []
    for message in (
        msgspec.structs.replace(SLOW, seconds=1.0),
        msgspec.structs.replace(SLOW, seconds=60.9),
        msgspec.structs.replace(SLOW, seconds=61.0),
        EVALUATED,
    ):
        sink.write(message)
        counts.append(console.file.getvalue().count("\n"))
    assert counts == [1, 1, 2, 3]
    last = console.file.getvalue().splitlines()[-1]
    assert last == "123.4 k steps  1987/s  12345 fights  won 100.0 %  evaluated 61.5 % (55 to 68 %)"
    sink.close()
