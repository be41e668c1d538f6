"""The proof that a clock holds its game, with a game that is paused while it waits for something else."""

import pytest

from soulslab.siphon.clock.proof import STANDS_S, Observation, find_lockstep_fault


class Standing:
    """A clock whose game stands, but for the observations in which the test says that it moves."""

    n_time_reads = 0
    n_pauses = 0

    def pause(self, *, deadline_s):  # noqa: ARG002
        self.n_pauses += 1

    def find_unheld_threads(self):
        return ()


@pytest.mark.parametrize("n_moving", [0, 1, len(STANDS_S) - 1])
def test_a_game_that_goes_on_once_when_an_answer_comes_is_held(n_moving):
    clock, n = Standing(), iter(range(1000))

    def observe():
        return Observation({"x": next(n) if clock.n_pauses <= n_moving else -1})

    assert find_lockstep_fault(clock, observe, 0.0) == ""
    assert clock.n_pauses == n_moving + 1


def test_a_game_that_moves_in_each_try_is_not_held():
    clock, n = Standing(), iter(range(1000))
    assert "x changed" in find_lockstep_fault(clock, lambda: Observation({"x": next(n)}), 0.0)
    assert clock.n_pauses == len(STANDS_S)
