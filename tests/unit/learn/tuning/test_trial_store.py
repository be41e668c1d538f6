"""The study on the disk, with candidates that say at once what they are worth."""

import math
import re

import msgspec
import pytest

from soulslab.errors import CheckpointError, StudyError
from soulslab.learn.settings import TrainSettings
from soulslab.learn.tuning.settings import SearchSpace, StudySettings, load_tune_settings
from soulslab.learn.tuning.trial import TrialOutcome, TrialReport, TrialStatus
from soulslab.learn.tuning.trial_store import MAX_ATTEMPTS, TrialStore, best_first, count_states, read_trials
from support.studies import write_study

SEARCH = ("learner.lr=1e-5..1e-1:log", "learner.n_epochs=1..4")
STUDY = StudySettings(startup_trials=4)


def opened(path, study=STUDY, search=SEARCH):
    return TrialStore(
        path, study, SearchSpace(load_tune_settings(None, search).search, TrainSettings(), study.objective)
    )


def ended(store, n_trials, value=lambda params: -abs(math.log10(params["learner.lr"]) + 3.0)):
    """Draw candidates, and end each with a value; return what was drawn."""
    drawn = []
    for _ in range(n_trials):
        number, params = store.draw()
        store.end(TrialOutcome(number=number, state=TrialStatus.COMPLETE, value=value(params)))
        drawn.append(params)
    return drawn


def test_the_sampler_goes_where_it_was_good(tmp_path):
    drawn = ended(opened(tmp_path / "journal"), 40)
    late = [abs(math.log10(params["learner.lr"]) + 3.0) for params in drawn[20:]]
    assert sum(late) / len(late) < 0.7  # at random it would be 1


def test_the_same_seed_draws_the_same_and_another_one_something_else(tmp_path):
    drawn = [
        ended(opened(tmp_path / f"{i}", msgspec.structs.replace(STUDY, sampler_seed=seed)), 8)
        for i, seed in enumerate([0, 0, 1])
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == drawn[2][0]  # the config itself
    assert all(a != b for a, b in zip(drawn[0][1:], drawn[2][1:], strict=True))


def test_a_study_that_is_opened_again_draws_something_new_and_has_forgotten_nothing(tmp_path):
    first = opened(tmp_path / "journal")
    drawn = ended(first, 5)
    again = opened(tmp_path / "journal")
    assert again.rows() == first.rows()
    drawn += ended(again, 5)
    assert len({str(params) for params in drawn}) == 10


def test_fewer_decisions_are_better_and_higher_win_rates(tmp_path):
    for objective, best in (("decisions_to_50", 10.0), ("win_rate", 30.0)):
        store = opened(tmp_path / objective, StudySettings(objective=objective))
        values = iter([20.0, 10.0, 30.0])
        ended(store, 3, lambda _, values=values: next(values))
        assert best_first(store.rows(), StudySettings(objective=objective))[0].value == best


def test_importances_name_what_decides_and_are_always_the_same(tmp_path):
    store = opened(tmp_path / "journal")
    ended(store, 7)
    assert store.importances() == {}
    ended(store, 20)
    importances = store.importances()
    assert list(importances) == ["learner.lr", "learner.n_epochs"]
    assert importances["learner.lr"] > 0.7
    assert sum(importances.values()) == pytest.approx(1.0)
    assert opened(tmp_path / "journal").importances() == importances


def test_equal_values_have_no_importances(tmp_path):
    store = opened(tmp_path / "journal")
    ended(store, 12, lambda _: 1.0)
    assert store.importances() == {}


def test_one_that_is_interrupted_comes_again_however_often(tmp_path):
    store = opened(tmp_path / "journal")
    seen = []
    for _ in range(5):
        number, params = store.draw()
        seen.append(params)
        store.end(TrialOutcome(number=number, state=TrialStatus.INTERRUPTED, reason="stopped"))
    assert all(params == seen[0] for params in seen)
    assert count_states(store.rows()).total() == 0
    assert all(row.is_base for row in store.rows())


def test_one_that_is_killed_comes_again_once(tmp_path):
    store = opened(tmp_path / "journal")
    seen = []
    for _ in range(MAX_ATTEMPTS + 1):
        number, params = store.draw()
        seen.append(params)
        store.end(TrialOutcome(number=number, state=TrialStatus.KILLED, reason="killed"))
    assert seen[0] == seen[1] != seen[2]
    assert [row.is_retried for row in store.rows()] == [True, False, True, False]
    assert count_states(store.rows()) == {TrialStatus.KILLED: 1}


def test_those_under_way_when_the_process_died_come_again(tmp_path):
    lost = [opened(tmp_path / "journal").draw()[1] for _ in range(1)]
    store = opened(tmp_path / "journal")
    assert [row.state for row in store.rows()] == [TrialStatus.KILLED, None]
    assert store.draw()[1] == lost[0]


def test_the_pruner_ends_what_is_worse_than_the_others(tmp_path):
    store = opened(tmp_path / "journal", StudySettings(startup_trials=2, warmup=0.25))
    for value in (1.0, 2.0, 3.0):
        number, _ = store.draw()
        assert store.report(TrialReport(number=number, first_step=1, last_step=10, value=value)) == ""
        store.end(TrialOutcome(number=number, state=TrialStatus.COMPLETE, value=value))
    number, _ = store.draw()
    assert store.report(TrialReport(number=number, first_step=1, last_step=4, value=0.0)) == ""  # it may warm up
    assert (
        store.report(TrialReport(number=number, first_step=5, last_step=6, value=0.0))
        == "worse than the median at 30 %"
    )
    store.end(TrialOutcome(number=number, state=TrialStatus.PRUNED, reason="worse"))
    assert store.rows()[-1].value == 0.0


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"garbage\n", r"journal: line \d+ is not an event"),
        (b'{"op_code": 99}\n', r"journal: is damaged"),
        (b"3\n", r"journal: is damaged"),
    ],
)
def test_a_damaged_journal_is_named(tmp_path, line, problem):
    path = tmp_path / "journal"
    ended(opened(path), 1)
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(StudyError, match=problem):
        opened(path)


def test_a_journal_of_another_version_is_refused(tmp_path):
    path = tmp_path / "journal"
    opened(path)
    path.write_bytes(path.read_bytes().replace(b'{"format":1}', b'{"format":9}'))
    with pytest.raises(StudyError, match=r"has version 9; this soulslab reads version 1"):
        opened(path)


def test_a_line_that_was_cut_off_costs_nothing_else(tmp_path):
    path = tmp_path / "journal"
    store = opened(path)
    ended(store, 3)
    path.write_bytes(path.read_bytes() + b'{"op_code":')
    again = opened(path)
    assert again.rows() == store.rows()
    ended(again, 1)
    assert len(opened(path).rows()) == 4


def test_a_journal_that_cannot_be_written_is_named(tmp_path):
    path = tmp_path / "journal"
    store = opened(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(CheckpointError, match=r"journal: could not be written"):
        store.draw()


def test_every_line_is_json_and_nothing_is_pickled(tmp_path):
    path = tmp_path / "journal"
    ended(opened(path), 3)
    for line in path.read_bytes().splitlines():
        assert "op_code" in msgspec.json.decode(line)
    assert [file.name for file in tmp_path.iterdir()] == ["journal"]


def test_a_running_study_can_be_read_without_changing_it(tmp_path):
    store = write_study(tmp_path / "study")
    store.draw()
    journal = tmp_path / "study" / "journal.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"op_code": ')  # another process is writing a line
    before = journal.read_bytes()
    rows, importances = read_trials(journal)
    assert rows == store.rows()
    assert importances == store.importances()
    assert next(iter(importances)) == "learner.lr"
    assert journal.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"no json\n", b'{"op_code": 99}\n'])
def test_a_damaged_journal_cannot_be_read(tmp_path, content):
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(content)
    with pytest.raises(StudyError):
        read_trials(journal)


def test_a_journal_with_two_values_of_a_candidate_cannot_be_read(tmp_path):
    write_study(tmp_path)
    journal = tmp_path / "journal.jsonl"
    changed = re.sub(rb'"values": ?\[([^],]+)\]', rb'"values":[\1,\1]', journal.read_bytes())
    assert changed != journal.read_bytes()
    journal.write_bytes(changed)
    with pytest.raises(StudyError, match="is damaged"):
        read_trials(journal)
