"""Environments of the built-in fight without a window, and wall time that is controlled by the test."""

from __future__ import annotations

from typing import Any

from soulslab.envs.arguments import parse_options
from soulslab.envs.registration import ARENA_LIVE_ID
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv, ArenaLiveOptions
from soulslab.envs.tasks.duel.duel_options import DuelOptions, WindowOptions
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_arena import FakeArena, FakeArenaSession


class Fights:
    """Session factory for the options of an environment; it records the sessions."""

    def __init__(self, options: dict[str, str], profile: Profile | None = None) -> None:
        self._options = SessionOptions(options=options)
        self._profile = profile
        self.sessions: list[FakeArenaSession] = []

    def __call__(self) -> FakeArenaSession:
        self.sessions.append(FakeArenaSession(self._options, self._profile))
        return self.sessions[-1]

    @property
    def arena(self) -> FakeArena:
        """The fake game after its last start."""
        return self.sessions[-1].arena


def launch_options(**options: Any) -> dict[str, str]:
    """Return the options of the command that starts the window, for options of the environment."""
    given, duel, window = parse_options(ARENA_LIVE_ID, options, ArenaLiveOptions, DuelOptions, WindowOptions)
    command: dict[str, str] = given.launch_options(duel, window)
    return command


def live_env(render_mode: str | None = None, profile: Profile | None = None, **options: Any) -> Any:
    """Return an environment of the fake arena; ``env.fights`` is its session factory."""
    fights = Fights(launch_options(**options), profile)
    session: Any = fights() if profile is not None else fights
    env: Any = ArenaLiveEnv(render_mode, session=session, **options)
    env.fights = fights
    return env


class WallTime:
    """Replacement of the module ``time``, whose time passes only during sleeps.

    Attributes:
        now_s: Current time.
        slept_s: Duration of each sleep.
        game: Game whose time passes together with this time; None for no game.
    """

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept_s: list[float] = []
        self.game: FakeArena | None = None
        self.speed = 1.0

    def monotonic(self) -> float:
        return self.now_s

    def perf_counter(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        """Let time pass without a sleep."""
        self.now_s += seconds
        if self.game is not None:
            self.game.pass_time(seconds * self.speed)
