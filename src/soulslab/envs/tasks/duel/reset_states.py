"""Getting a game to where an episode begins: states that are waited for, one after another.

A state has a name, a condition, a limit in game time, and what to do until the condition holds: keys, or writes. There
is no waiting for a time: the game is advanced a little, looked at, and advanced again. docs/resets.md has all states.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec
import numpy as np

from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.process.process_settings import tick_s
from soulslab.errors import (
    ClockUnavailableError,
    ControlTakenError,
    InvalidValueError,
    ProfileError,
    ReadOnlyError,
    ResetFailedError,
    SelfCheckError,
    SiphonError,
    UnknownAttributeError,
    UnknownKeyError,
    WaitTimeoutError,
)
from soulslab.siphon.session import LOADING
from soulslab.siphon.tick_alignment import TickAlignment

Seen: TypeAlias = dict[str, Any]
"""Quantities that were read together; empty while they cannot be read, because the game loads."""

#: What no retry helps against: somebody's mistake.
MISTAKES = (
    ClockUnavailableError,
    ControlTakenError,
    ProfileError,
    InvalidValueError,
    ReadOnlyError,
    SelfCheckError,
    UnknownAttributeError,
    UnknownKeyError,
)
#: How long keys are held, and after which time they are pressed again if nothing came of it (game time).
HOLD_S = 0.05
AGAIN_S = 1.0

_log = logging.getLogger(__name__)


class ResetState(msgspec.Struct, frozen=True, kw_only=True):
    """One state on the way to the start of an episode.

    Attributes:
        name: As in docs/resets.md.
        waits_for: The condition in words, for errors.
        is_reached: The condition.
        quantities: What it looks at; those that the game does not have are left out.
        limit_s: Game time until it fails.
        press: Buttons that are pressed on entering, and again from time to time.
        again_s: Game time after which they are pressed again.
        act: Called with what was seen, after each look that did not fulfil the condition.
        poll_s: Game time between two looks; 0 takes a tick of the game.
    """

    name: str
    waits_for: str
    is_reached: Callable[[Seen], bool]
    quantities: tuple[str, ...]
    limit_s: float
    press: tuple[str, ...] = ()
    again_s: float = AGAIN_S
    act: Callable[[Seen], None] | None = None
    poll_s: float = 0.0


class ResetLog:
    """Counts what resets took.

    Attributes:
        n_resets: Resets that came to their end.
        n_retries: Tries beyond the first of each.
        n_respawns: Fights that were left to get another (the restart key, or the player's death).
        n_game_restarts: Starts of the game's process, but for the first.
        reasons: How often each reason led to a retry: the state's name, or the class of the error.
        latest: Messages of the last reset's failed tries.
        latest_s: Wall time that the last reset took.
    """

    def __init__(self) -> None:
        self.n_resets = 0
        self.n_retries = 0
        self.n_respawns = 0
        self.n_game_restarts = 0
        self.reasons: Counter[str] = Counter()
        self.latest: list[str] = []
        self.latest_s = 0.0

    def note(self, error: SiphonError) -> None:
        """Count a try that failed."""
        name = error.state if isinstance(error, ResetFailedError) else type(error).__name__
        self.reasons[name] += 1
        self.latest.append(f"{type(error).__name__}: {error}")
        _log.warning("a reset failed: %s", error)


def reach(game: DuelGame, states: Iterable[ResetState], deadline: Deadline) -> Seen:
    """Go through states one after another; return what was seen in the last.

    Raises:
        ResetFailedError: A state was not reached within its limit of game time.
        WaitTimeoutError: The deadline for all of it passed.
        SiphonError: The game cannot be played, read or written.
    """
    seen: Seen = {}
    for state in states:
        seen = _reach(game, state, deadline)
    return seen


def _check_start(game: DuelGame) -> None:
    """Refuse a start that no step can be played from; after the reset nobody would try again."""
    if not game.looked_at:
        return
    seen = game.read(*game.looked_at)
    health = {name: seen[name] for name in ("player.hp", "boss.hp")}
    if min(health.values()) <= 0:
        raise ResetFailedError("both to be alive at the start", 0.0, state="start", saw=_in_words(health))


def _reach(game: DuelGame, state: ResetState, deadline: Deadline) -> Seen:
    quantities = tuple(name for name in state.quantities if game.has(name))
    poll_s = state.poll_s or tick_s(game.profile)
    waited_s, press_at_s = 0.0, 0.0
    seen, cause = _look(game, 0.0, (), quantities)
    while not state.is_reached(seen):
        deadline.check(f"{state.waits_for} (state {state.name!r} of the reset)", cause)
        if waited_s >= state.limit_s:
            saw = str(cause) if cause else _in_words(seen)
            raise ResetFailedError(state.waits_for, waited_s, state=state.name, saw=saw) from cause
        buttons: tuple[str, ...] = ()
        advance_s = poll_s
        if state.press and waited_s >= press_at_s:
            buttons, advance_s, press_at_s = state.press, HOLD_S, waited_s + state.again_s
        if state.act is not None:
            cause = _act(state.act, seen) or cause
        seen, cause = _look(game, advance_s, buttons, quantities)
        waited_s += advance_s
    return seen


def _look(
    game: DuelGame, advance_s: float, buttons: tuple[str, ...], quantities: tuple[str, ...]
) -> tuple[Seen, SiphonError | None]:
    try:
        return game.decode(game.play(advance_s, buttons, quantities).snapshot), None
    except LOADING as error:
        return {}, error


def _act(act: Callable[[Seen], None], seen: Seen) -> SiphonError | None:
    try:
        act(seen)
    except LOADING as error:
        return error
    return None


def _in_words(seen: Seen) -> str:
    texts = []
    for name, value in seen.items():
        is_vector = isinstance(value, np.ndarray)
        texts.append(f"{name} {np.round(value, 2).tolist() if is_vector else repr(value)}")
    return ", ".join(texts)


class ResetRunner:
    """Tries resets, and gets the game back in between.

    Args:
        log: Counts.
        max_retries: Tries after the first.
        hard_reset_minutes: Wall time after which the game is restarted before an episode; None for never.
    """

    def __init__(self, log: ResetLog, max_retries: int, hard_reset_minutes: float | None) -> None:
        self.log = log
        self._max_retries = max_retries
        self._hard_reset_s = None if hard_reset_minutes is None else 60.0 * hard_reset_minutes
        self._phase: TickAlignment | None = None
        self._start: tuple[int, int] | None = None
        self._started_s = 0.0

    def run(self, game: DuelGame, deadline: Deadline, attempt: Callable[[int, bool], None]) -> None:
        """Make an attempt until one succeeds.

        Args:
            game: The game.
            deadline: For all of them.
            attempt: Gets the number of the try, from 0, and whether the game has been started since the last reset.

        Raises:
            ResetFailedError: All tries failed, or the deadline passed with one of them.
            SiphonError: The game could not be started, or there is a mistake in the profile.
        """
        begun = time.monotonic()
        self.log.latest.clear()
        for n in range(self._max_retries + 1):
            try:
                attempt(n, self._take_hold(game, deadline))
                _check_start(game)
                break
            except MISTAKES:
                raise
            except SiphonError as error:
                self.log.note(error)
                # A state that was not reached may well be at the next try; whatever else failed needs a new game.
                if n or not isinstance(error, (ResetFailedError, *LOADING)):
                    game.holder.is_lost = True
                if not game.holder.is_open:
                    raise
                # Once its time is up, a game that takes minutes to start is not started three times more.
                if n == self._max_retries or deadline.has_passed:
                    raise self._final(error, time.monotonic() - begun) from error
                self.log.n_retries += 1
        self.log.n_resets += 1
        self.log.latest_s = time.monotonic() - begun

    def restart(self, game: DuelGame, deadline: Deadline) -> None:
        """Restart the game's process and take hold of it."""
        game.holder.is_lost = True
        self._take_hold(game, deadline)

    def _take_hold(self, game: DuelGame, deadline: Deadline) -> bool:
        """Get the game back if it is gone or old, and go to the middle of a tick; tell whether it was started."""
        holder = game.holder
        is_old = self._hard_reset_s is not None and time.monotonic() - self._started_s > self._hard_reset_s
        if holder.is_lost or (is_old and self._start is not None and holder.is_open):
            holder.recover(deadline)
            self.log.n_game_restarts += 1
        info = game.session.info
        start = (info.pid, info.n_starts)
        is_fresh = start != self._start
        if is_fresh:
            self._started_s = time.monotonic()
        if self._phase is None:
            self._phase = TickAlignment(game.profile)
        game.play(0.0)
        self._phase.align(game.session)
        self._start = start
        return is_fresh

    def _final(self, error: SiphonError, waited_s: float) -> SiphonError:
        state = error.state if isinstance(error, ResetFailedError) else "game"
        saw = error.saw if isinstance(error, ResetFailedError) else ""
        what = error.what if isinstance(error, WaitTimeoutError) else "a game that can be played"
        return ResetFailedError(what, waited_s, state=state, saw=saw, reasons=self.log.latest)
