"""Verification that the time of a game is exact: the same episode is played several times and compared.

Each episode is played in a new process, with the same seed and the same keys, which change at every step. A game is
verified if its clock is a lockstep clock, nothing changes while it is paused, each step has the expected number of
ticks, and all episodes have the same values and pixels.

In such a game, any difference between an episode with the keys of an action and one without keys is an effect of these
keys. So short episodes also show which actions have no effect, as with a wrong key.
"""

from __future__ import annotations

import contextlib
import logging
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.tasks.process.process_settings import EnvSettings, read_settings, tick_s
from soulslab.envs.trace import (
    HASH_BYTES,
    Difference,
    Pixels,
    Trace,
    TraceWriter,
    first_difference,
    make_columns,
    read_frame,
)
from soulslab.envs.traced_episode import TracedEpisode
from soulslab.errors import ClockUnavailableError, ProfileError, RecordingError, SiphonError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import Session, SessionOptions

#: A step that takes longer in wall time is counted as slow.
SLOW_S = 0.05
#: Probability that an action is held in a step.
HELD_SHARE = 0.3
#: Game time for which the keys of an action are held at the start of an episode, and for an effect after that.
PRESS_S, EFFECT_S = 0.5, 0.5
# Program of a busy process, which ends with its parent process.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(10**5))"

Opener = Callable[[], Session]

_log = logging.getLogger(__name__)


class VerifySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a verification.

    Attributes:
        n_episodes: Number of times that the episode is played, each time in a new process; at least 2.
        n_steps: Steps of an episode, without the steps of resets.
        seed: Seed of the keys, and of the start of the game.
        step_ticks: Ticks of a step; for a game without ticks, the length of a step in multiples of `env.step_s`.
        n_load: Number of busy processes that run at the same time.
        options: Launch options, which replace `Process.options` of the profile.
        record_dir: Folder for a trace of each episode; None writes no traces.
        name: Prefix of the file names of the traces: ``doom`` for ``doom-1.h5``.
    """

    n_episodes: int = 5
    n_steps: int = 2000
    seed: int = 0
    step_ticks: int = 1
    n_load: int = 0
    options: dict[str, str] = {}
    record_dir: Path | None = None
    name: str = "game"


class WrongStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step with lost or doubled ticks; episode and step are counted from 1."""

    episode: int
    step: int
    n_ticks: int
    held: tuple[str, ...]


class Verification(msgspec.Struct, kw_only=True):
    """Result of `verify_game`.

    Attributes:
        has_ticks: Whether the profile has the length of a tick (``clock.tick_hz``). If not, the game advances by the
            elapsed time, and has no ticks that can be lost.
        grade: Grade of the clock; "" if the game could not be started.
        n_played: Number of completed episodes; all other numbers are of these.
        n_counted: Steps of which the ticks could be counted.
        n_slow: Steps that took more than 50 ms of wall time.
        slowest_waited_s: Part of the slowest step in which the game, its X server or soulslab was ready to run and had
            no processor, because other programs ran.
        steps_per_s: Steps per second of wall time, with all values and the frame; median over the episodes.
        times_real_time: Ratio of game time to wall time in these steps.
        processor_s: Processor time per step of the game and its X server; median over the episodes. The two mostly
            work one after the other, so a step cannot be much shorter.
        n_equal_steps: Number of steps, from the start, in which all episodes are equal.
        different_episode: Number of the episode that differs from the first one, counted from 1; 0 if all are equal.
        motion: What changed while the game was paused; "" if nothing changed.
        without_effect: Keys of the actions (or of the profile, if it has no actions) that change nothing at the start
            of an episode, by the name of the action; None if that is unknown, because episodes differ or one of those
            with these keys could not be completed.
        error: Why an episode could not be completed; "" if all were.
    """

    game: str
    settings: VerifySettings
    step_s: float = 0.0
    has_ticks: bool = True
    grade: str = ""
    n_played: int = 0
    n_steps: int = 0
    n_counted: int = 0
    n_lost: int = 0
    n_doubled: int = 0
    first_wrong: WrongStep | None = None
    n_resets: int = 0
    n_slow: int = 0
    slowest_s: float = 0.0
    slowest_waited_s: float = 0.0
    steps_per_s: float = 0.0
    times_real_time: float = 0.0
    processor_s: float = 0.0
    n_equal_steps: int = 0
    difference: Difference | None = None
    different_episode: int = 0
    motion: str = ""
    without_effect: dict[str, tuple[str, ...]] | None = None
    error: str = ""

    @property
    def is_verified(self) -> bool:
        """Whether the time of the game is exact in every respect."""
        is_counted = (self.n_counted > 0 or not self.has_ticks) and not self.n_lost and not self.n_doubled
        return self.grade == "lockstep" and is_counted and not (self.error or self.motion or self.difference)


def verify_game(
    profile: Profile, settings: VerifySettings, opener: Opener | None = None, *, source: str = ""
) -> Verification:
    """Play an episode of a game several times and compare the results.

    Args:
        profile: Profile of the game.
        settings: Settings of the verification.
        opener: Starts the game in a new process and opens a session; None uses the ``[process]`` table of the profile.
        source: File of the profile, for errors.

    Raises:
        ProfileError: The ``[env]`` table is invalid, or the profile has no keys.
        RecordingError: A trace cannot be written.
    """
    verifier = _Verifier(profile, settings, source)
    with TemporaryDirectory(prefix="soulslab-verify-") as folder, busy_processes(settings.n_load):
        try:
            verifier.play_all(opener or _opener(profile, settings), Path(folder))
        except RecordingError:
            raise
        except SiphonError as error:
            verifier.found.error = str(error)
    return verifier.found


def draw_keys(actions: list[tuple[str, ...]], n_steps: int, seed: int) -> list[tuple[str, ...]]:
    """Return random keys for each step; they differ from the keys of the step before."""
    rng = np.random.default_rng(seed)
    steps: list[tuple[str, ...]] = [()]
    while len(steps) <= n_steps:
        chosen = [
            action for action, is_held in zip(actions, rng.random(len(actions)) < HELD_SHARE, strict=True) if is_held
        ]
        keys = tuple(dict.fromkeys(key for action in chosen for key in action))
        if set(keys) != set(steps[-1]):
            steps.append(keys)
    return steps[1:]


class _Verifier:
    """Plays the episodes of one game and compares them; `found` is the result."""

    def __init__(self, profile: Profile, settings: VerifySettings, source: str) -> None:
        self._profile = profile
        self._settings = settings
        self._env = EnvSettings(actions={"none": ()})
        if profile.env is not None:
            self._env = read_settings(profile, source)
        self._actions = {
            action: tuple(profile.keys[name] for name in names) for action, names in self._env.actions.items() if names
        }
        # Without actions, each key of the profile is one.
        self._actions = self._actions or {name: (key,) for name, key in profile.keys.items()}
        if not self._actions:
            raise ProfileError("has no key, but a game is verified with changing keys", path="keys", source=source)
        self._held = draw_keys(list(self._actions.values()), settings.n_steps, settings.seed)
        self._step_s = settings.step_ticks * ((not profile.clock.tick_hz and self._env.step_s) or tick_s(profile))
        self._frame: FrameFormat | None = None
        self._first: Trace | None = None
        self._speeds: list[float] = []
        self._processor_s: list[float] = []
        self.found = Verification(
            game=profile.name, settings=settings, step_s=self._step_s, has_ticks=bool(profile.clock.tick_hz)
        )

    def play_all(self, opener: Opener, folder: Path) -> None:
        """Play all episodes. `folder` receives the frames of the first one, which all others are compared with."""
        settings = self._settings
        for number in range(1, settings.n_episodes + 1):
            path = folder / "first.h5" if number == 1 else None
            if settings.record_dir is not None:
                path = settings.record_dir / f"{settings.name}-{number}.h5"
            with self._game(opener) as holder:
                self._compare(number, self._play(number, holder, path))
        if self.found.difference is None:
            try:
                self.found.without_effect = self._find_actions_without_effect(opener)
            except SiphonError as error:
                _log.warning("%s: the effects of its keys are not known: %s", self.found.game, error)

    @contextlib.contextmanager
    def _game(self, opener: Opener) -> Iterator[SessionHolder]:
        """Hold a session with a new process of the game in a context."""
        holder = SessionHolder(lambda _: opener())
        holder.check = self._check_grade
        try:
            yield holder
        finally:
            holder.close()

    def _find_actions_without_effect(self, opener: Opener) -> dict[str, tuple[str, ...]]:
        """Return the keys of the actions with which the start of an episode equals that without keys."""
        n_held, n_after = (math.ceil(seconds / self._step_s) for seconds in (PRESS_S, EFFECT_S))
        frame = self._frame or FrameFormat()

        def play(keys: tuple[str, ...]) -> TracedEpisode:
            with self._game(opener) as holder:
                episode = TracedEpisode(self._profile, self._env, holder)
                episode.play([keys] * n_held + [()] * n_after, self._step_s, frame, lambda *_: None)
            return episode

        without_keys = play(())
        return {name: keys for name, keys in self._actions.items() if play(keys).equals(without_keys)}

    def _check_grade(self, session: Session) -> None:
        """Raise `ClockUnavailableError` if the clock is not a lockstep clock, with which time cannot be exact."""
        self.found.grade = session.info.clock_grade
        if self.found.grade != "lockstep":
            reason = session.info.clock_reason or (
                f"clock.grade is {self._profile.clock.grade!r} in the profile, or soulslab did not start the game"
            )
            raise ClockUnavailableError(
                f"the clock is {self.found.grade!r} and not 'lockstep': {reason} (docs/clock.md)"
            )

    def _play(self, number: int, holder: SessionHolder, path: Path | None) -> Trace:
        """Play an episode and count its ticks; write its trace if there is a path."""
        episode = TracedEpisode(self._profile, self._env, holder)
        frame = self._frame = self._frame or FrameFormat(*episode.session.info.window_px)
        # Without a file, only the first frame that differs from that of the first episode is kept.
        kept: dict[int, Pixels] = {}
        first = self._first
        with TraceWriter(path) if path is not None else contextlib.nullcontext() as writer:

            def add_frame(step: int, pixels: Pixels, digest: bytes) -> None:
                if writer is not None:
                    writer.add_frame(pixels)
                elif first is not None and not kept and first.frame_hashes[step].tobytes() != digest:
                    kept[step] = pixels

            if number == 1:
                self.found.motion = episode.find_motion(frame)
            episode.play(self._held, self._step_s, frame, add_frame)
            if number == 1:
                self.found.motion = self.found.motion or episode.find_motion(frame)
            self._count(number, episode)
            attributes = {name: self._profile.attributes[name] for name in episode.reader.names}
            trace = Trace(
                facts={
                    "game": self._profile.name,
                    "episode": number,
                    "seed": self._settings.seed,
                    "step_ticks": self._settings.step_ticks,
                },
                held=self._held,
                columns=make_columns(episode.rows, attributes),
                frame_hashes=np.frombuffer(b"".join(episode.hashes), np.uint8).reshape(-1, HASH_BYTES),
                frame=partial(read_frame, path) if path is not None else kept.get,
            )
            if writer is not None:
                writer.finish(trace)
        return trace

    def _count(self, number: int, episode: TracedEpisode) -> None:
        """Add the ticks and the wall time of an episode to the result."""
        found, expected = self.found, self._settings.step_ticks
        found.n_played = number
        found.n_steps += len(episode.rows)
        found.n_resets += episode.n_resets
        for i, n_ticks in enumerate(episode.n_ticks):
            if n_ticks is None:
                continue
            found.n_counted += 1
            found.n_lost += n_ticks < expected
            found.n_doubled += n_ticks > expected
            if n_ticks != expected and found.first_wrong is None:
                found.first_wrong = WrongStep(episode=number, step=i + 1, n_ticks=n_ticks, held=self._held[i])
        found.n_slow += sum(took_s > SLOW_S for took_s in episode.took_s)
        found.slowest_s, found.slowest_waited_s = max(
            (found.slowest_s, found.slowest_waited_s), *zip(episode.took_s, episode.waited_s, strict=True)
        )
        self._speeds.append(len(episode.took_s) / sum(episode.took_s))
        found.steps_per_s = median(self._speeds)
        found.times_real_time = found.steps_per_s * self._step_s
        self._processor_s.append(episode.processor_s / len(episode.rows))
        found.processor_s = median(self._processor_s)

    def _compare(self, number: int, trace: Trace) -> None:
        """Compare an episode with the first one."""
        if self._first is None:
            self._first = trace
            self.found.n_equal_steps = len(trace)
            return
        difference = first_difference(self._first, trace)
        if difference is not None and difference.step <= self.found.n_equal_steps:
            self.found.n_equal_steps = difference.step - 1
            self.found.difference, self.found.different_episode = difference, number


def _opener(profile: Profile, settings: VerifySettings) -> Opener:
    options = SessionOptions(launch="always", options=settings.options)
    if profile.clock.grade == "lockstep":
        options = msgspec.structs.replace(options, deterministic=True, seed=settings.seed)

    def open_here() -> Session:
        from soulslab.siphon.local import open_session  # noqa: PLC0415  (X only where a game is opened)

        return open_session(profile, options)

    return open_here


@contextlib.contextmanager
def busy_processes(n: int) -> Iterator[None]:
    """Run n processes that keep a processor busy within a context."""
    with contextlib.ExitStack() as stack:
        for _ in range(n):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", _BUSY]))  # noqa: S603 (a constant program)
            stack.callback(process.kill)
        yield
