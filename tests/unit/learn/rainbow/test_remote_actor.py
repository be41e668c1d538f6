"""What a learner leaves behind that shares memory with an actor; both at work: tests/integration/learn."""

import pytest

from soulslab.learn.actors import shared_memory as place_module
from soulslab.learn.actors.transport import Weights
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.remote_actor import RemoteActor
from support.small_learner import small_header


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A folder in the place of /dev/shm."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(place_module, "_SHARED_MEMORY", folder)
    return folder


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
