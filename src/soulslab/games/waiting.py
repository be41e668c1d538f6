"""Waiting for a condition in a game, in steps of game time and with a deadline.

::

    wait_until(session, "the player to be in control", lambda: game.is_in_control, bool, Patience(deadline_s=60.0))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from soulslab.errors import ProcessExitedError, WaitTimeoutError
from soulslab.siphon.session import LOADING, Session

#: Prefix of the last read value in error messages.
SAW = "last value: "

Seconds = Annotated[float, Meta(gt=0)]


class Patience(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of a wait.

    Attributes:
        deadline_s: Game time after which the wait fails.
        poll_s: Game time between two reads.
        n_looks: Number of consecutive reads at which the condition has to be true.
    """

    deadline_s: Seconds = 10.0
    poll_s: Seconds = 0.05
    n_looks: Annotated[int, Meta(ge=1)] = 1


T = TypeVar("T")


def wait_until(
    session: Session,
    what: str,
    look: Callable[[], T],
    is_reached: Callable[[T], bool],
    patience: Patience = Patience(),  # noqa: B008  (it is frozen)
    press: tuple[str, ...] = (),
) -> T:
    """Advance game time until a condition is true; return the value that was read then.

    Time advances with `Clock.advance`, so the wait is the same in lockstep, scaled and real time; afterwards the game
    is stopped or running as before. While the game loads and the value cannot be read, the condition counts as false.

    Args:
        session: The session.
        what: Description of the condition for the error message: ``the player to be in control``.
        look: Reads the value for the condition.
        is_reached: Returns whether the condition is true for the value.
        patience: Deadline and poll interval.
        press: Keys to press and release before each read except the first; all other keys are released.

    Raises:
        WaitTimeoutError: The condition was not true before the deadline; the message has the last value.
        SiphonError: Errors of `look` (except while the game loads), `Clock.advance` and `Input.set_held`.
    """
    n_found = 0
    n_polls = math.ceil(patience.deadline_s / patience.poll_s)
    with _resuming(session):
        for poll in range(n_polls + 1):
            if poll:
                _pass_time(session, patience.poll_s, press)
            try:
                found = look()
            except LOADING as error:
                n_found, last = 0, str(error)
                continue
            n_found = n_found + 1 if is_reached(found) else 0
            if n_found >= patience.n_looks:
                return found
            last = repr(found)
    raise WaitTimeoutError(what, n_polls * patience.poll_s, f"{SAW}{last}")


def press_each(session: Session, keys: tuple[str, ...], each_s: float) -> None:
    """Press keys one after another, each down for half of its game time and up for the other half; release all others.

    Raises the errors of `Clock.advance` and `Input.set_held`.
    """
    with _resuming(session):
        for key in keys:
            _pass_time(session, each_s, (key,))


@contextmanager
def _resuming(session: Session) -> Iterator[None]:
    """On exit, continue a game that was running on entry: `Clock.advance` leaves the game stopped."""
    speed = session.clock.speed
    try:
        yield
    finally:
        with suppress(ProcessExitedError):  # the next access to the game raises the error
            if speed > 0.0 and session.clock.speed == 0.0:
                session.clock.run(speed)


def _pass_time(session: Session, seconds: float, press: tuple[str, ...]) -> None:
    """Advance game time; the keys are down during the first half."""
    if not press:
        session.clock.advance(seconds)
        return
    try:
        session.input.set_held(press, press)
        session.clock.advance(seconds / 2)
    finally:
        session.input.set_held(())
    session.clock.advance(seconds / 2)
