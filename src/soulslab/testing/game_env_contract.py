"""Contract suite for environments over a session: tests that `GameEnv` passes with every task (docs/testing.md)."""

# ruff: noqa: D102, S101  (these are tests, and their names describe them)

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

from soulslab.envs.game.game_env import GameEnv
from soulslab.errors import EnvironmentUsageError, InvalidActionError, NotResetError, SiphonError
from soulslab.testing.session_contract import raises

#: Entries of ``info`` of every environment.
INFO_KEYS = frozenset(("clock", "game_time_s", "n_restarts", "late_s"))

MakeEnv = Callable[..., gymnasium.Env[Any, Any]]
BreakGame = Callable[[GameEnv], None]


class GameEnvContract:
    """Tests of an environment; a subclass provides two fixtures.

    ``make_env(on_failure="raise")`` makes an environment over a new fake game. Its episodes last at least 4 steps of
    the first action. ``break_game(env)`` makes the next step fail with a `SiphonError`; a restart repairs the game.
    """

    def test_nothing_is_played_before_the_first_reset(self, make_env: MakeEnv) -> None:
        with closing(game_env(make_env())) as env:
            assert env.needs_reset
            with raises(NotResetError):
                env.step(idle(env.action_space))

    def test_observations_are_of_their_space_and_new(self, make_env: MakeEnv) -> None:
        with closing(game_env(make_env())) as env:
            first, _ = env.reset(seed=1)
            copy = deepcopy(first)
            observations = [first, *(env.step(idle(env.action_space))[0] for _ in range(3))]
            assert all(env.observation_space.contains(observation) for observation in observations)
            assert data_equivalence(first, copy, exact=True)

    def test_info_has_the_same_entries_after_a_reset_and_a_step(self, make_env: MakeEnv) -> None:
        with closing(game_env(make_env())) as env:
            _, begun = env.reset(seed=1)
            _, _, _, _, stepped = env.step(idle(env.action_space))
            assert set(begun) == set(stepped) >= INFO_KEYS
            assert (begun["game_time_s"], begun["n_restarts"], begun["late_s"]) == (0.0, 0, 0.0)
            assert stepped["game_time_s"] > 0.0
            if isinstance(env.action_space, spaces.Discrete) and "action_mask" in stepped:
                np.testing.assert_array_equal(env.action_masks(), stepped["action_mask"])

    def test_an_invalid_action_changes_nothing(self, make_env: MakeEnv) -> None:
        with closing(game_env(make_env())) as env:
            env.reset(seed=1)
            before = env.step(idle(env.action_space))[4]["game_time_s"]
            with raises(InvalidActionError):
                env.step(np.full(7, 9))
            assert not env.needs_reset
            after = env.step(idle(env.action_space))[4]["game_time_s"]
            assert abs(after - 2 * before) < 1e-5

    def test_an_unknown_option_of_a_reset_is_refused(self, make_env: MakeEnv) -> None:
        with closing(game_env(make_env())) as env, raises(EnvironmentUsageError) as caught:
            env.reset(options={"restrat": True})
        assert "did you mean 'restart'" in str(caught.value)

    def test_a_restart_is_an_option_of_a_reset(self, make_env: MakeEnv) -> None:
        with closing(game_env(make_env())) as env:
            env.reset(seed=1)
            assert env.reset(seed=1, options={"restart": True})[1]["n_restarts"] == 1

    def test_a_failed_step_raises_and_the_next_reset_recovers_the_game(
        self, make_env: MakeEnv, break_game: BreakGame
    ) -> None:
        with closing(game_env(make_env())) as env:
            env.reset(seed=1)
            break_game(env)
            with raises(SiphonError):
                env.step(idle(env.action_space))
            assert env.needs_reset
            assert env.reset()[1]["n_restarts"] == 1
            assert env.step(idle(env.action_space))[4]["game_time_s"] > 0.0

    def test_a_failed_step_truncates_the_episode_on_request(self, make_env: MakeEnv, break_game: BreakGame) -> None:
        with closing(game_env(make_env(on_failure="truncate"))) as env:
            env.reset(seed=1)
            before, _, _, _, usual = env.step(idle(env.action_space))
            break_game(env)
            after, reward, terminated, truncated, info = env.step(idle(env.action_space))
            assert (reward, terminated, truncated) == (0.0, False, True)
            assert data_equivalence(before, after, exact=True)
            assert set(info) == {*usual, "end", "failure"}
            assert info["end"] == "failure"
            assert set(info["failure"]) == {"error", "message"}
            assert env.needs_reset

    def test_a_second_close_does_nothing(self, make_env: MakeEnv) -> None:
        env = game_env(make_env())
        env.reset(seed=1)
        env.close()
        env.close()
        assert env.needs_reset


def game_env(env: gymnasium.Env[Any, Any]) -> GameEnv:
    """Return the `GameEnv` of an environment."""
    assert isinstance(env.unwrapped, GameEnv)
    return env.unwrapped


def idle(space: spaces.Space[Any]) -> Any:
    """Return the first action of a space, which holds no key or the fewest."""
    return np.zeros(space.shape, space.dtype) if space.shape else 0
