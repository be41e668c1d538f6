"""Resets as a sequence of states, and retries of resets; docs/resets.md describes all states.

No waiting time is fixed: the game is advanced by a short time, read, and advanced again.
"""

from __future__ import annotations

import contextlib
import logging
import math
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

QuantityValues: TypeAlias = dict[str, Any]
"""Values of quantities that were read together; empty if they cannot be read because the game loads."""

#: Errors that are not retried, because they are mistakes in a profile, an option or a program.
NOT_RETRIED = (
    ClockUnavailableError,
    ControlTakenError,
    ProfileError,
    InvalidValueError,
    ReadOnlyError,
    SelfCheckError,
    UnknownAttributeError,
    UnknownKeyError,
)
#: Game time for which buttons are held, and after which they are pressed again.
HOLD_S = 0.05
REPEAT_S = 1.0

_log = logging.getLogger(__name__)


class ResetState(msgspec.Struct, frozen=True, kw_only=True):
    """One state on the way to the start of an episode.

    Attributes:
        name: Name in docs/resets.md.
        waits_for: Description of the condition, for errors.
        is_reached: Returns whether the condition holds.
        quantities: Quantities that the condition uses; they are read if the game has them.
        limit_s: Limit of game time.
        buttons: Buttons that are pressed at the beginning, and again after each `repeat_s`.
        repeat_s: Game time between two presses.
        action: Called with the values of each reading for which the condition does not hold.
        poll_s: Game time between two readings; 0 for one tick of the game.
    """

    name: str
    waits_for: str
    is_reached: Callable[[QuantityValues], bool]
    quantities: tuple[str, ...]
    limit_s: float
    buttons: tuple[str, ...] = ()
    repeat_s: float = REPEAT_S
    action: Callable[[QuantityValues], None] | None = None
    poll_s: float = 0.0


class ResetLog:
    """Counts of the resets of an environment.

    Attributes:
        n_resets: Resets that succeeded.
        n_retries: Tries after the first try of each reset.
        n_respawns: Fights that were left for a new one (by the restart key, the end of a fight, or the player's death).
        n_game_restarts: Restarts of the game.
        reasons: Number of failed tries for each reason: the name of a state, or the class of an error.
        latest: Messages of the failed tries of the last reset.
        latest_s: Wall time of the last reset.
    """

    def __init__(self) -> None:
        self.n_resets = 0
        self.n_retries = 0
        self.n_respawns = 0
        self.n_game_restarts = 0
        self.reasons: Counter[str] = Counter()
        self.latest: list[str] = []
        self.latest_s = 0.0


def run_states(game: DuelGame, states: Iterable[ResetState], deadline: Deadline) -> QuantityValues:
    """Run states one after another; return the values that fulfilled the last condition.

    Raises `ResetFailedError` if a state was not reached within its limit of game time.
    """
    values: QuantityValues = {}
    for state in states:
        values = _run_state(game, state, deadline)
    return values


def _check_start(game: DuelGame) -> None:
    """Raise an error if a step could not be read or a fighter is dead, while the reset can still be retried."""
    if not game.step_quantities:
        return
    values = game.read(*game.step_quantities)
    health = {name: values[name] for name in ("player.hp", "boss.hp")}
    if min(health.values()) <= 0:
        raise ResetFailedError("both to be alive at the start", 0.0, state="start", saw=_format_values(health))


def _run_state(game: DuelGame, state: ResetState, deadline: Deadline) -> QuantityValues:
    quantities = tuple(name for name in state.quantities if game.has(name))
    poll_s = state.poll_s or tick_s(game.profile)
    waited_s, press_at_s = 0.0, 0.0
    values, cause = _step_game(game, 0.0, (), quantities)
    while not state.is_reached(values):
        deadline.check(f"{state.waits_for} (state {state.name!r} of the reset)", cause)
        if waited_s >= state.limit_s:
            saw = str(cause) if cause else _format_values(values)
            raise ResetFailedError(state.waits_for, waited_s, state=state.name, saw=saw) from cause
        buttons: tuple[str, ...] = ()
        advance_s = poll_s
        if state.buttons and waited_s >= press_at_s:
            buttons, advance_s, press_at_s = state.buttons, HOLD_S, waited_s + state.repeat_s
        if state.action is not None:
            with contextlib.suppress(*LOADING):
                state.action(values)
        values, cause = _step_game(game, advance_s, buttons, quantities)
        waited_s += advance_s
    return values


def _step_game(
    game: DuelGame, advance_s: float, buttons: tuple[str, ...], quantities: tuple[str, ...]
) -> tuple[QuantityValues, SiphonError | None]:
    try:
        return game.decode(game.step(advance_s, buttons, quantities).snapshot), None
    except LOADING as error:
        return {}, error


def _format_values(values: QuantityValues) -> str:
    shown = {name: np.round(v, 2).tolist() if isinstance(v, np.ndarray) else v for name, v in values.items()}
    return ", ".join(f"{name} {value!r}" for name, value in shown.items())


class ResetRunner:
    """Runs resets with retries, and recovers the game between two tries.

    After `hard_reset_minutes` of wall time (None for never) the game is restarted before an episode.
    """

    def __init__(self, log: ResetLog, max_retries: int, hard_reset_minutes: float | None) -> None:
        self.log = log
        self._max_retries = max_retries
        self._hard_reset_s = 60.0 * hard_reset_minutes if hard_reset_minutes is not None else math.inf
        self._alignment: TickAlignment | None = None
        #: Process id and number of the start that was prepared last, and when it was first seen.
        self._start: tuple[int, int] | None = None
        self._started_s = 0.0

    def run(self, game: DuelGame, deadline: Deadline, attempt: Callable[[int, bool], None]) -> None:
        """Call `attempt` until it succeeds.

        It gets the number of failed tries, and whether the game was started after the last reset.

        Raises:
            ResetFailedError: All tries failed, or the deadline passed with one of them.
            SiphonError: The game could not be started, or the error is one of `NOT_RETRIED`.
        """
        begun = time.monotonic()
        self.log.latest.clear()
        for n in range(self._max_retries + 1):
            try:
                attempt(n, self._prepare_game(game, deadline))
                _check_start(game)
                break
            except NOT_RETRIED:
                raise
            except SiphonError as error:
                unreached = error if isinstance(error, ResetFailedError) else None
                self.log.reasons[unreached.state if unreached else type(error).__name__] += 1
                self.log.latest.append(f"{type(error).__name__}: {error}")
                _log.warning("a reset failed: %s", error)
                # A state that was not reached is retried in the same game first; other failures need a restart.
                if n or not (unreached or isinstance(error, LOADING)):
                    game.holder.is_lost = True
                if not game.holder.is_open:
                    raise
                # After the deadline the game is not restarted again, because a start can take minutes.
                if n == self._max_retries or deadline.has_passed:
                    raise ResetFailedError(
                        error.what if isinstance(error, WaitTimeoutError) else "a game that can be played",
                        time.monotonic() - begun,
                        state=unreached.state if unreached else "game",
                        saw=unreached.saw if unreached else "",
                        reasons=self.log.latest,
                    ) from error
                self.log.n_retries += 1
        self.log.n_resets += 1
        self.log.latest_s = time.monotonic() - begun

    def restart(self, game: DuelGame, deadline: Deadline) -> None:
        """Restart the game and prepare it for a try."""
        game.holder.is_lost = True
        self._prepare_game(game, deadline)

    def _prepare_game(self, game: DuelGame, deadline: Deadline) -> bool:
        """Recover a lost or old game, and align it with its ticks; return whether it was started after the last try."""
        holder = game.holder
        is_old = time.monotonic() - self._started_s > self._hard_reset_s
        if holder.is_lost or (is_old and self._start is not None and holder.is_open):
            holder.recover(deadline)
            self.log.n_game_restarts += 1
        info = game.session.info
        start = (info.pid, info.n_starts)
        is_fresh = start != self._start
        if is_fresh:
            self._started_s = time.monotonic()
        if self._alignment is None:
            self._alignment = TickAlignment(game.profile)
        game.step(0.0)
        self._alignment.align(game.session)
        self._start = start
        return is_fresh
