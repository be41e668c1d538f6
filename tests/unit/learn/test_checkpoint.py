import logging

import numpy as np
import pytest

from soulslab.errors import CheckpointError, IncompatibleCheckpointError
from soulslab.learn.archive import write_archive
from soulslab.learn.checkpoint import CheckpointStore


@pytest.fixture
def store(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints", keep=3)
    for env_steps in (5, 40, 300, 2000):
        store.save(env_steps, {"x": np.array([env_steps])}, {"note": str(env_steps)})
    return store


def test_keeps_the_newest(store):
    assert [path.name for path in store.paths()] == [
        f"step_{env_steps:015d}.safetensors" for env_steps in (40, 300, 2000)
    ]
    assert store.latest().header["note"] == "2000"


def test_passes_over_damaged_ones_and_names_them(store, caplog):
    newest, middle = store.paths()[:0:-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    middle.write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        checkpoint = store.latest()
    assert checkpoint.tensors["x"].tolist() == [40]
    assert [str(newest) in caplog.messages[0], str(middle) in caplog.messages[1]] == [True, True]


def test_no_whole_checkpoint_is_an_error(store):
    for path in store.paths():
        path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(CheckpointError, match="none of its 3 checkpoints is intact"):
        store.latest()


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        CheckpointStore(tmp_path, keep=1).latest()


def test_a_newer_format_is_refused_not_passed_over(store):
    newest = store.paths()[-1]
    write_archive(newest, {}, {"format": "soulslab-checkpoint", "version": 99})
    with pytest.raises(IncompatibleCheckpointError, match="version 99; this soulslab reads"):
        store.latest()


def test_an_older_one_can_be_asked_for(store, caplog):
    oldest, middle, newest = store.paths()
    assert store.latest(before=newest).path == middle
    middle.write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        assert store.latest(before=newest).path == oldest
    assert str(middle) in caplog.text
    with pytest.raises(CheckpointError, match="none of its 3 checkpoints is intact"):
        store.latest(before=oldest)


def test_a_run_that_continues_from_an_older_checkpoint_keeps_its_new_ones(store):
    """What lies ahead is damaged; it must not push out what is whole."""
    folder = store.paths()[0].parent
    again = CheckpointStore(folder, keep=1)
    for env_steps in (60, 80):
        path = again.save(env_steps, {"x": np.array([env_steps])}, {})
        assert [each.name for each in again.paths()] == [
            f"step_{step:015d}.safetensors" for step in (env_steps, 300, 2000)
        ]
    assert again.latest(before=again.paths()[1]).path == path
    again.save(3000, {}, {})
    assert len(again.paths()) == 1
