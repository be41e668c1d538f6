"""What a learner leaves behind that shares memory with an actor; both at work: tests/integration/learn."""

import sys

import numpy as np
import pytest

from soulslab.learn.actors import shared_memory as place_module
from soulslab.learn.actors.transport import Weights
from soulslab.learn.rainbow import remote_actor
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.remote_actor import RemoteActor, discard
from support.memory_parts import files_in_use
from support.small_learner import small_header


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A folder in the place of /dev/shm."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(place_module, "_SHARED_MEMORY", folder)
    return folder


@pytest.fixture
def removed(monkeypatch):
    """The removed folders of shared memory, each with the files that this process still uses."""
    if sys.platform != "linux":
        pytest.skip("the files in use are known from /proc")
    folders, remove_folder = [], remote_actor.remove_memory_folder

    def remove(folder):
        folders.append((folder, files_in_use(folder)))
        remove_folder(folder)

    monkeypatch.setattr(remote_actor, "remove_memory_folder", remove)
    return folders


@pytest.mark.parametrize("has_begun", [False, True])
def test_no_file_of_the_memory_is_in_use_when_it_is_removed(tmp_path, shared, removed, has_begun):
    """Windows does not remove a file that is mapped or open."""
    playing = RemoteActor(tmp_path / "run", small_header())
    (place,) = shared.iterdir()
    assert files_in_use(place) == ["learner.lock"]
    if has_begun:
        playing.begin(None, 0)
        assert files_in_use(place) == ["episodes", "learner.lock", "status", "steps", "weights"]
    playing.close()
    assert removed == [(place, [])]
    assert not place.exists()


def test_no_file_of_a_discarded_run_is_in_use_when_it_is_removed(tmp_path, shared, removed):
    playing = RemoteActor(tmp_path / "run", small_header())
    playing.begin(None, 0)
    playing.channel.publish(Weights(version=1, epsilon=1.0, tensors=QPolicy(small_header()).weights()))
    playing._memory.rows.push(np.zeros(1, playing._row_type))  # waits for a resumed run
    playing.close()
    (place,) = shared.iterdir()
    assert files_in_use(place) == removed == []
    discard(tmp_path / "run")
    assert removed == [(place, [])]


def test_a_run_that_never_begins_leaves_no_memory(tmp_path, shared):
    playing = RemoteActor(tmp_path / "run", small_header())
    assert list(shared.iterdir())
    playing.close()
    assert not list(shared.iterdir())


@pytest.mark.parametrize("is_finished", [True, False])
def test_only_a_cleanly_stopped_run_continues_in_a_new_memory_without_a_warning(tmp_path, shared, caplog, is_finished):
    playing = RemoteActor(tmp_path / "run", small_header())
    playing.begin(None, 0)
    playing.channel.publish(Weights(version=1, epsilon=1.0, tensors=QPolicy(small_header()).weights()))
    if is_finished:
        playing.finish()
    state = playing.state(with_env=True)
    playing.saved()
    playing.close()  # no step was played, so the memory is empty and is removed
    assert not list(shared.iterdir())
    again = RemoteActor(tmp_path / "run", small_header())
    again.begin(state, 0)
    assert ("steps after the checkpoint are lost" in caplog.text) != is_finished
    again.close()
