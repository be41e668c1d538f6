"""The two ends of the channel: what goes in comes out, in order, once; what gets lost is lost by whole episodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.errors import ChannelError
from soulslab.learn.actors import shared_memory as memory_module
from soulslab.learn.actors import shared_memory_transport as ends_module
from soulslab.learn.actors.shared_memory import create_memory, has_memory, n_rows, open_memory
from soulslab.learn.actors.shared_memory_transport import SharedActorEnd, SharedLearnerEnd
from soulslab.learn.actors.transport import ActorEnd, LearnerEnd
from soulslab.learn.inputs import PixelShape
from soulslab.learn.replay.step_rows import StepShape, row_type
from support.steps import (
    ROW,
    assert_of_one_version,
    assert_whole_episodes,
    numbers_of,
    result,
    some_weights,
    steps,
)


@pytest.fixture
def memory(tmp_path):
    return create_memory(tmp_path, ROW, 2, some_weights(0).tensors)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A memory for 20 steps of two environments."""
    monkeypatch.setattr(memory_module, "ROWS_PER_STREAM", 10)
    return create_memory(tmp_path, ROW, 2, some_weights(0).tensors)


def test_they_are_ends_of_a_channel(memory):
    actor: ActorEnd = SharedActorEnd(memory, 2)
    learner: LearnerEnd = SharedLearnerEnd(memory, 2)
    assert len(learner.take()) == 0
    assert learner.take_episodes() == []
    assert actor.pull(-1) is None
    actor.push(steps(0, 3))
    actor.push_episodes([result(1), result(2)])
    learner.publish(some_weights(4))
    assert numbers_of(learner.take()) == [0, 1, 2]
    assert learner.take_episodes() == [result(1), result(2)]
    assert_of_one_version(actor.pull(-1))
    assert len(learner.take()) == 0
    assert learner.take_episodes() == []
    assert actor.pull(4) is None


@settings(max_examples=15)
@given(st.lists(st.integers(0, 120), min_size=1, max_size=6))
def test_results_of_any_length_come_whole(tmp_path_factory, lengths):
    memory = create_memory(tmp_path_factory.mktemp("memory"), ROW, 2, some_weights(0).tensors)
    results = [result(i, n_attacks) for i, n_attacks in enumerate(lengths)]
    SharedActorEnd(memory, 2).push_episodes(results)
    learner = SharedLearnerEnd(memory, 2)
    learner.take()
    assert learner.take_episodes() == results


def test_no_result_comes_before_the_rows_of_its_episode(memory):
    actor, learner = SharedActorEnd(memory, 2), SharedLearnerEnd(memory, 2)
    actor.push(steps(0, 3))
    assert numbers_of(learner.take()) == [0, 1, 2]
    actor.push(steps(3, 2))  # the episode ends while the learner is between both calls
    actor.push_episodes([result(1)])
    assert learner.take_episodes() == []
    assert numbers_of(learner.take()) == [3, 4]
    assert learner.take_episodes() == [result(1)]


def test_a_restarted_actor_gets_the_last_weights_at_once_also_without_a_learner(tmp_path, memory):
    SharedLearnerEnd(memory, 2).publish(some_weights(9))
    again = SharedActorEnd(open_memory(tmp_path, ROW), 2)
    assert_of_one_version(again.pull(-1))
    assert open_memory(tmp_path, ROW).status.read().weights_version == 9


def test_a_learner_that_went_back_to_a_checkpoint_is_followed(tmp_path, memory):
    learner, actor = SharedLearnerEnd(memory, 2), SharedActorEnd(memory, 2)
    learner.publish(some_weights(9))
    assert actor.pull(-1).version == 9
    learner.publish(some_weights(8))  # the same learner never does that; older ones are left alone
    assert actor.pull(9) is None
    again = SharedLearnerEnd(open_memory(tmp_path, ROW), 2)
    again.publish(some_weights(5))
    assert actor.pull(9).version == 5
    assert actor.pull(5) is None
    again.publish(some_weights(6))
    assert actor.pull(5).version == 6


def test_a_restarted_learner_takes_everything_since_its_checkpoint_again(tmp_path, memory):
    actor, learner = SharedActorEnd(memory, 2), SharedLearnerEnd(memory, 2)
    actor.push(steps(0, 4))
    actor.push_episodes([result(0)])
    assert numbers_of(learner.take()) == [0, 1, 2, 3]
    assert len(learner.take_episodes()) == 1
    saved = learner.state()
    learner.commit(saved)
    actor.push(steps(4, 4))
    actor.push_episodes([result(1)])
    learner.take()
    learner.take_episodes()
    actor.push(steps(8, 2))
    again = SharedLearnerEnd(open_memory(tmp_path, ROW), 2, saved)
    assert numbers_of(again.take()) == [4, 5, 6, 7, 8, 9]
    assert again.take_episodes() == [result(1)]
    assert again.n_dropped == 0
    assert not again.is_all_committed
    again.commit(again.state())
    assert again.is_all_committed


def test_a_checkpoint_that_was_saved_but_not_committed_is_no_harm(tmp_path, memory):
    actor, learner = SharedActorEnd(memory, 2), SharedLearnerEnd(memory, 2)
    actor.push(steps(0, 4))
    learner.take()
    saved = learner.state()
    actor.push(steps(4, 1))
    again = SharedLearnerEnd(open_memory(tmp_path, ROW), 2, saved)
    assert numbers_of(again.take()) == [4]


def test_a_full_memory_drops_whole_episodes_and_counts_them(small, caplog):
    caplog.set_level("INFO")
    actor, learner = SharedActorEnd(small, 2), SharedLearnerEnd(small, 2)
    pushed = 0
    for number in range(33):
        actor.push(steps(number, 1))
        pushed += 1
    found = numbers_of(learner.take())
    assert found == list(range(20))
    learner.commit(learner.state())
    for number in range(33, 47):  # 33 and 34 are the rest of an episode whose beginning is lost
        actor.push(steps(number, 1))
        pushed += 1
    found += numbers_of(learner.take())
    assert_whole_episodes(found)
    assert found == [*range(20), *range(35, 47)]
    assert learner.n_dropped == pushed - len(found)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "15 steps have been dropped" in caplog.records[1].message


def test_another_environment_is_not_affected_by_a_gap_of_one(small):
    actor, learner = SharedActorEnd(small, 2), SharedLearnerEnd(small, 2)
    actor.push(steps(0, 18))
    actor.push(np.concatenate((steps(18, 2), steps(0, 1, stream=1))))  # does not fit: neither gets in
    actor.push(steps(0, 2, stream=1))
    learner.take()
    learner.commit(learner.state())
    actor.push(np.concatenate((steps(20, 3), steps(2, 1, stream=1))))
    rows = learner.take()
    assert numbers_of(rows, 0) == [20, 21, 22]
    assert numbers_of(rows, 1) == [2]


def test_steps_that_were_taken_make_room_for_new_ones_before_any_of_these_is_dropped(tmp_path, small):
    actor, learner = SharedActorEnd(small, 2), SharedLearnerEnd(small, 2)
    saved, found = learner.state(), []
    for number in range(100):  # no checkpoint for a long time
        actor.push(steps(number, 1))
        found += numbers_of(learner.take())
    assert found == list(range(100))
    assert learner.n_dropped == 0
    # A learner that has to go back so far loses the oldest ones, and with them the rest of their episode.
    again = SharedLearnerEnd(open_memory(tmp_path, ROW), 2, saved)
    assert numbers_of(again.take()) == list(range(90, 100))
    assert again.n_dropped == 90


@pytest.mark.parametrize("n_more", [3, 6])
def test_a_gap_is_remembered_by_a_checkpoint_until_an_episode_begins(tmp_path, small, n_more):
    actor, learner = SharedActorEnd(small, 2), SharedLearnerEnd(small, 2)
    saved = learner.state()
    for number in range(93):
        actor.push(steps(number, 1))
        learner.take()
    again = SharedLearnerEnd(open_memory(tmp_path, ROW), 2, saved)
    found = []
    for number in range(93, 93 + n_more):
        found += numbers_of(again.take())
        saved = again.state()
        again = SharedLearnerEnd(open_memory(tmp_path, ROW), 2, saved)
        actor.push(steps(number, 1))
    assert_whole_episodes(found + numbers_of(again.take()))


def test_a_memory_that_was_created_again_is_read_from_its_beginning(tmp_path, memory):
    learner = SharedLearnerEnd(memory, 2)
    SharedActorEnd(memory, 2).push(steps(0, 7))
    learner.take()
    saved = learner.state()
    new = create_memory(tmp_path, ROW, 2, some_weights(0).tensors)
    SharedActorEnd(new, 2).push(steps(0, 3))
    again = SharedLearnerEnd(new, 2, saved)
    assert numbers_of(again.take()) == [0, 1, 2]


def test_a_full_memory_of_results_drops_them_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_module, "N_MESSAGE_PARTS", 8)
    memory = create_memory(tmp_path, ROW, 2, some_weights(0).tensors)
    actor, learner = SharedActorEnd(memory, 2), SharedLearnerEnd(memory, 2)
    long = [result(i, 80) for i in range(10)]
    actor.push_episodes(long)
    learner.take()
    found = learner.take_episodes()
    assert 1 <= len(found) < 10
    assert found == long[: len(found)]
    learner.commit(learner.state())
    actor.push_episodes(long[8:9])
    learner.take()
    assert learner.take_episodes() == long[8:9]


def test_a_result_of_another_version_is_refused(memory, monkeypatch):
    monkeypatch.setattr(ends_module, "MESSAGE_VERSION", 2)
    SharedActorEnd(memory, 2).push_episodes([result(0)])
    monkeypatch.setattr(ends_module, "MESSAGE_VERSION", 1)
    learner = SharedLearnerEnd(memory, 2)
    learner.take()
    with pytest.raises(ChannelError, match="version 2, but this soulslab reads version 1"):
        learner.take_episodes()


def test_files_of_two_memories_are_refused(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        create_memory(tmp_path / name, ROW, 2, some_weights(0).tensors)
    (tmp_path / "two/status").replace(tmp_path / "one/status")
    with pytest.raises(ChannelError, match="holds files of two runs"):
        open_memory(tmp_path / "one", ROW)


def test_who_is_killed_while_making_a_memory_leaves_none(tmp_path, monkeypatch):
    create_memory(tmp_path, ROW, 2, some_weights(0).tensors)
    assert has_memory(tmp_path)

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(memory_module, "create_block", fail)
    with pytest.raises(KeyboardInterrupt):
        create_memory(tmp_path, ROW, 2, some_weights(0).tensors)
    assert not has_memory(tmp_path)


def test_the_size_is_bounded_where_steps_are_large():
    assert n_rows(ROW, 1) == 1 << 16
    assert n_rows(ROW, 2) == 1 << 17
    pixels = row_type(StepShape(n_features=3, n_actions=4, pixels=PixelShape(84, 84, 1)))
    assert n_rows(pixels, 1) * pixels.itemsize <= memory_module.MAX_ROW_BYTES
    assert n_rows(pixels, 1) > 30 * 60 * 10  # half an hour at 10 Hz
