"""Steps per second of Doom with keys, exact game time, values and frames, for one game and for two games in parallel.

Every measurement takes the same number of steps with the same random keys. The measurements are interleaved, so that a
busy machine affects all of them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeAlias

import msgspec
import numpy as np
from gymnasium.spaces.utils import flatdim

from benchmarks.child_process import child_environment
from benchmarks.result import Result, Row
from benchmarks.timing import interleaved, seconds
from soulslab.envs.tasks.process.doom import DoomEnv, DoomVectorEnv
from soulslab.errors import SiphonError
from soulslab.games import profile_path
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.local import LocalSession, open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import Step

Player: TypeAlias = "subprocess.Popen[str]"

TICS_PER_S = 35.0
KEYS = ("UP_ARROW", "LEFT_ARROW", "RIGHT_ARROW", "RIGHT_CTRL")
PIXELS = FrameFormat(84, 84, is_grey=True)
#: Typical observation of an agent: 20 attributes.
ATTRIBUTES = (
    "health", "armor", "weapon", "bullets", "shells", "cells", "rockets", "kills", "items", "secrets", "x", "y", "z",
    "angle", "speed_x", "speed_y", "body_health", "level_time", "game_tic", "game_state",
)  # fmt: skip
ONE = "environment, 1 tic, 84x84 grey"
TWO_THREADS = "two environments at once, each in a separate thread"
TWO_PROCESSES = "two environments at once, each in a separate process"
# Runs one measurement per line of its standard input, and ends when that is closed.
_PLAYER = """
import sys
from benchmarks.siphon_doom import DoomBenchSettings, act, open_env
settings = DoomBenchSettings(n_steps=int(sys.argv[1]))
with open_env("pixels", 1) as env:
    print("ready", flush=True)
    for _ in sys.stdin:
        act(env, settings)
        print("done", flush=True)
"""
#: Episode limit that no measurement reaches; the default of 120 s would truncate episodes.
NEVER = 10**6


class DoomBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_steps: Steps of each measurement.
        n_rounds: Number of measurements; the table contains their median.
        seed: Seed of the keys and actions.
    """

    n_steps: int = 1000
    n_rounds: int = 5
    seed: int = 0

    @classmethod
    def quick(cls) -> DoomBenchSettings:
        """Return settings for rough numbers."""
        return cls(n_steps=100, n_rounds=2)


def measure_doom(settings: DoomBenchSettings) -> list[Result]:
    """Step one Doom and two, with and without frames.

    Raises:
        SiphonError: The game or Xvfb is not installed, or does not fit its profile.
    """
    with ExitStack() as stack:
        game = stack.enter_context(open_session(load_profile(profile_path(Path("doom")))))
        ways: dict[str, tuple[Callable[[], object], int, int]] = {
            "session, 1 tic, 20 values": (partial(_play, game, settings, None), 1, 1),
            "session, 1 tic, 20 values, 84x84 grey": (partial(_play, game, settings, PIXELS), 1, 1),
        }
        for label, observation, frame_skip in (
            ("environment, 1 tic, state", "state", 1),
            (ONE, "pixels", 1),
            ("environment, 4 tics, 84x84 grey", "pixels", 4),
        ):
            env = stack.enter_context(open_env(observation, frame_skip))
            ways[label] = (partial(act, env, settings), 1, frame_skip)
        both = [stack.enter_context(open_env("pixels", 1)) for _ in range(2)]
        ways[TWO_THREADS] = (partial(_act_in_threads, both, settings), 2, 1)
        players = [stack.enter_context(_player(settings)) for _ in range(2)]
        ways[TWO_PROCESSES] = (partial(_act_in_processes, players), 2, 1)
        pair = stack.enter_context(_pair())
        ways["vector environment of two, 1 tic, 84x84 grey"] = (partial(_act_together, pair, settings), 2, 1)
        took_s = interleaved({label: partial(seconds, way) for label, (way, _, _) in ways.items()}, settings.n_rounds)
    one_s = took_s[ONE]
    rows = [_row(label, n_games, tics, took_s[label], one_s, settings) for label, (_, n_games, tics) in ways.items()]
    return [Result(title=f"Doom in lockstep, {settings.n_steps} steps at a time", rows=rows)]


def _row(
    label: str, n_games: int, tics: int, took_s: list[float], one_s: list[float], settings: DoomBenchSettings
) -> Row:
    steps_per_s = n_games * settings.n_steps / median(took_s)
    return {
        "stepping": label,
        "steps/s": steps_per_s,
        "ms a step": 1e3 / steps_per_s,
        "game time / wall time": steps_per_s * tics / TICS_PER_S,
        # The ratio per round, in which both measurements are close in time.
        "times one": median(n_games * one / took for one, took in zip(one_s, took_s, strict=True))
        if n_games > 1
        else None,
    }


def _play(game: LocalSession, settings: DoomBenchSettings, frame: FrameFormat | None) -> None:
    """Step a session with random keys."""
    rng = np.random.default_rng(settings.seed)
    held = [
        tuple(key for key, is_down in zip(KEYS, row, strict=True) if is_down)
        for row in rng.random((settings.n_steps, 4)) < 0.3
    ]
    for keys in held:
        game.step(Step(held=keys, advance_s=1 / TICS_PER_S, attributes=ATTRIBUTES, frame=frame))


def act(env: DoomEnv, settings: DoomBenchSettings) -> None:
    """Step an environment with random actions; reset it after each episode."""
    rng = np.random.default_rng(settings.seed)
    for action in rng.integers(len(env.action_names), size=settings.n_steps):
        _, _, is_over, is_cut, _ = env.step(int(action))
        if is_over or is_cut:
            env.reset()


def _act_in_threads(envs: list[DoomEnv], settings: DoomBenchSettings) -> None:
    """Step environments in parallel threads, without synchronisation."""
    with ThreadPoolExecutor(len(envs)) as pool:
        for done in [pool.submit(act, env, settings) for env in envs]:
            done.result()


@contextmanager
def _player(settings: DoomBenchSettings) -> Iterator[Player]:
    """Start a process that steps an environment on request."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _PLAYER, str(settings.n_steps)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=child_environment()) as process:
        _await_line(process)
        try:
            yield process
        finally:
            if process.stdin:
                process.stdin.close()
            process.wait()


def _act_in_processes(players: list[Player]) -> None:
    """Step the environments of all processes at the same time."""
    for player in players:
        if player.stdin:
            player.stdin.write("play\n")
            player.stdin.flush()
    for player in players:
        _await_line(player)


def _await_line(player: Player) -> None:
    if not (player.stdout and player.stdout.readline()):
        raise SiphonError("a player of the benchmark has ended; see its output above")


def _act_together(envs: DoomVectorEnv, settings: DoomBenchSettings) -> None:
    """Step a vector environment with random actions: each step waits for both games."""
    rng = np.random.default_rng(settings.seed)
    n_actions = flatdim(envs.single_action_space)
    for actions in rng.integers(n_actions, size=(settings.n_steps, 2)):
        envs.step(actions)


@contextmanager
def open_env(observation: str, frame_skip: int) -> Iterator[DoomEnv]:
    """Create an environment and reset it."""
    env = DoomEnv(observation=observation, frame_skip=frame_skip, max_tics=NEVER)
    try:
        env.reset(seed=0)
        yield env
    finally:
        env.close()


@contextmanager
def _pair() -> Iterator[DoomVectorEnv]:
    envs = DoomVectorEnv(2, observation="pixels", frame_skip=1, max_tics=NEVER)
    try:
        envs.reset(seed=0)
        yield envs
    finally:
        envs.close()
