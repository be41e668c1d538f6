"""Vector environment of several games, each in a separate process, stepped by threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from soulslab.envs.arguments import autoreset_mode_of, checked_count, options_of_each, reset_mask_of
from soulslab.envs.game.game_env import GameEnv, Info
from soulslab.errors import EnvironmentUsageError, NotResetError

T = TypeVar("T")

_StepResult: TypeAlias = tuple[Any, float, bool, bool, Info]
_CallResults: TypeAlias = "SimpleQueue[Any]"
_Calls: TypeAlias = "SimpleQueue[tuple[Callable[[], Any], _CallResults] | None]"


class GameVectorEnv(VectorEnv[Any, Any, Any]):
    """N environments with one game each, stepped at the same time.

    It behaves as Gymnasium's ``SyncVectorEnv`` in all three autoreset modes, but the games run at the same time: one
    thread for each game waits until the game has finished its step.

    A step in which one game fails truncates the episode of that game (``info["failure"]``); the others continue, and
    the next reset recovers the game. With ``on_failure="raise"`` the step raises the error of that game, once all
    others have finished. The failed one then needs a `reset` (with ``options={"reset_mask": ...}``, for it alone).

    Args:
        num_envs: N.
        autoreset_mode: See `soulslab.envs.arena.ArenaVectorEnv`.
        copy: Whether observations are copies. Otherwise they are a buffer that the next call overwrites.
        render_mode: Render mode of each environment.
        options: Options of each environment. ``server``, ``token``, ``token_file``, ``tls``, ``pid``, ``display`` and
            ``session`` may be lists with one value for each environment.

    Raises:
        EnvironmentUsageError: An option is wrong, or two environments get the same game.
    """

    single: ClassVar[Callable[..., GameEnv]]

    def __init__(
        self,
        num_envs: int = 1,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        options.setdefault("on_failure", "truncate")
        self.num_envs = checked_count("num_envs", num_envs)
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self.copy = copy
        self.render_mode = render_mode
        self.envs: Sequence[GameEnv] = [
            type(self).single(render_mode=render_mode, **each) for each in options_of_each(options, num_envs)
        ]
        self.metadata = {**self.envs[0].metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._observations = create_empty_array(self.single_observation_space, num_envs, np.zeros)
        # Zeros for an episode that has not begun, as in Gymnasium.
        zeros = create_empty_array(self.single_observation_space, num_envs, np.zeros)
        self._latest: list[Any] = list(iterate(self.observation_space, zeros))
        self._has_begun = False
        self._is_over = np.zeros(num_envs, np.bool_)
        self._threads = CallThreads(num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Info]:
        """Begin episodes; see `gymnasium.vector.VectorEnv.reset`. ``options["reset_mask"]`` (N,) bool chooses which.

        If an episode of a game cannot be started, the others have begun when the error is raised.
        """
        options = dict(options or {})
        which = reset_mask_of(options.pop("reset_mask", None), self.num_envs)
        seeds = _seeds(seed, self.num_envs)
        chosen = np.flatnonzero(which).tolist()
        calls = [partial(self.envs[i].reset, seed=seeds[i], options=options) for i in chosen]
        infos: Info = {}
        failures: dict[int, BaseException] = {}
        for i, result in zip(chosen, self._threads.call(calls), strict=True):
            if isinstance(result, BaseException):
                failures[i] = result
                continue
            self._latest[i], info = result
            self._is_over[i] = False
            infos = self._add_info(infos, info, i)
        self._has_begun = True
        _raise_first(failures)
        return self._observation(), infos

    def step(self, actions: Any) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Info]:
        """Step all games at the same time; see `gymnasium.vector.VectorEnv.step`.

        Raises:
            NotResetError: Before the first reset; with ``"Disabled"`` autoreset also when an episode is over.
            SiphonError: A game failed, with ``on_failure="raise"``.
        """
        if not self._has_begun:
            raise NotResetError("step: no episode has begun; call reset() first")
        will_reset = (
            self._is_over if self.autoreset_mode is AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, np.bool_)
        )
        stuck = [i for i, env in enumerate(self.envs) if env.needs_reset and not will_reset[i]]
        if stuck:
            raise NotResetError(
                f"step: episodes {stuck[:8]} are over or have failed; reset them with options={{'reset_mask': ...}}"
            )
        calls = [partial(self._step_one, i, action) for i, action in enumerate(iterate(self.action_space, actions))]
        if len(calls) != self.num_envs:
            raise EnvironmentUsageError(f"{len(calls)} actions for {self.num_envs} environments")
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        infos: Info = {}
        failures: dict[int, BaseException] = {}
        for i, result in enumerate(self._threads.call(calls)):
            if isinstance(result, BaseException):
                failures[i] = result
                continue
            outcome, fresh = result
            self._latest[i], rewards[i], terminated[i], truncated[i], info = outcome
            if fresh is not None:
                infos = self._add_info(infos, {"final_obs": outcome[0], "final_info": info}, i)
                self._latest[i], info = fresh
            infos = self._add_info(infos, info, i)
        self._is_over = terminated | truncated
        _raise_first(failures)
        return self._observation(), rewards, terminated, truncated, infos

    def render(self) -> tuple[Any, ...] | None:
        """Return the window of each game, (H, W, 3) RGB."""
        return tuple(env.render() for env in self.envs) if self.render_mode == "rgb_array" else None

    def close_extras(self, **_: Any) -> None:
        """End all games."""
        results = self._threads.call([env.close for env in self.envs])
        self._threads.close()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _step_one(self, i: int, action: Any) -> tuple[_StepResult, tuple[Any, Info] | None]:
        """Step one game, and start its next episode if the autoreset mode requires it."""
        env, mode = self.envs[i], self.autoreset_mode
        if mode is AutoresetMode.NEXT_STEP and self._is_over[i]:
            observation, info = env.reset()
            return (observation, 0.0, False, False, info), None
        outcome = env.step(action)
        has_ended = outcome[2] or outcome[3]
        return outcome, env.reset() if has_ended and mode is AutoresetMode.SAME_STEP else None

    def _observation(self) -> Any:
        observations = (
            create_empty_array(self.single_observation_space, self.num_envs) if self.copy else self._observations
        )
        return concatenate(self.single_observation_space, self._latest, observations)  # type: ignore[arg-type]


def _raise_first(failures: dict[int, BaseException]) -> None:
    """Raise the first failure, if there is one, with notes that name the games that failed."""
    if not failures:
        return
    (number, first), *others = failures.items()
    first.add_note(f"This was game {number}, counted from 0.")
    for i, other in others:
        first.add_note(f"Game {i} failed, too: {type(other).__name__}: {other}")
    raise first


def _seeds(seed: int | Sequence[int | None] | None, n_envs: int) -> Sequence[int | None]:
    if seed is None:
        return [None] * n_envs
    if isinstance(seed, int | np.integer):
        return [int(seed) + i for i in range(n_envs)]
    if len(seed) != n_envs:
        raise EnvironmentUsageError(f"seed: {len(seed)} seeds for {n_envs} environments")
    return seed


class CallThreads:
    """Threads that make up to `n` calls at the same time, with few wake-ups.

    Waking a thread takes a tenth of the time of a step of a game. Therefore the caller makes one of the calls itself,
    and the threads wait on queues that are implemented in C. Steps of two games are a fifth faster than with
    `concurrent.futures`.
    """

    def __init__(self, n: int) -> None:
        self._calls: list[_Calls] = [SimpleQueue() for _ in range(n - 1)]
        self._threads = [
            Thread(target=_serve, args=(calls,), name=f"soulslab-game-{i}", daemon=True)
            for i, calls in enumerate(self._calls, 1)
        ]
        for thread in self._threads:
            thread.start()

    def call(self, calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Make calls at the same time; return the result or the exception of each, once all have finished."""
        if not calls:
            return []
        results: list[_CallResults] = []
        for queue, call in zip(self._calls, calls[1:], strict=False):
            # A queue for each call, because an interrupted call still delivers its result.
            results.append(SimpleQueue())
            queue.put((call, results[-1]))
        return [_result_of(calls[0]), *(result.get() for result in results)]

    def close(self) -> None:
        """End the threads; a second call does nothing."""
        for queue in self._calls:
            queue.put(None)
        for thread in self._threads:
            thread.join()


def _serve(calls: _Calls) -> None:
    while (task := calls.get()) is not None:
        call, result = task
        result.put(_result_of(call))


def _result_of(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as error:  # noqa: BLE001  (raised by the caller)
        return error
