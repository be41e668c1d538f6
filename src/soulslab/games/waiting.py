"""Waiting for a game: for a condition, in steps of game time, with a deadline, and never without saying for what.

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

#: What errors say before what was seen last.
SAW = "it saw last: "

Seconds = Annotated[float, Meta(gt=0)]


class Patience(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long to wait for something.

    Attributes:
        deadline_s: Game time until it has to have come.
        poll_s: Game time between two looks.
        n_looks: So many looks in a row have to find it; 2 for what has to last over some game time.
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
    """Let game time pass until a look finds what is waited for; return what it found.

    Time passes by `Clock.advance`, so that the wait is the same in lockstep, scaled and real time; afterwards the game
    stands or runs as before. What cannot be read, as the game loads, is not there yet.

    Args:
        session: Of the game.
        what: What is waited for, for the error: ``the player to be in control``.
        look: Reads what the condition needs.
        is_reached: Tells whether it is there.
        patience: How long, and how often to look.
        press: Keys to press before each look but the first, and to release again; others are released, too.

    Raises:
        WaitTimeoutError: It did not come in time; the message says what was seen last.
        SiphonError: What `look` (but for a game that loads), `Clock.advance` and `Input.set_held` raise.
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
                n_found, saw = 0, str(error)
                continue
            n_found = n_found + 1 if is_reached(found) else 0
            if n_found >= patience.n_looks:
                return found
            saw = repr(found)
    raise WaitTimeoutError(what, n_polls * patience.poll_s, f"{SAW}{saw}")


def press_each(session: Session, keys: tuple[str, ...], each_s: float) -> None:
    """Press keys one after another, each down for half of its time and up for the other; other keys are released.

    Args:
        session: Of the game.
        keys: Which.
        each_s: Game time for each.

    Raises:
        SiphonError: What `Clock.advance` and `Input.set_held` raise.
    """
    with _resuming(session):
        for key in keys:
            _pass_time(session, each_s, (key,))


@contextmanager
def _resuming(session: Session) -> Iterator[None]:
    """Let the game run afterwards if it ran before: an advance leaves it standing."""
    speed = session.clock.speed
    try:
        yield
    finally:
        with suppress(ProcessExitedError):  # a game that has ended needs no speed, and its end is told by others
            if speed > 0.0 and session.clock.speed == 0.0:
                session.clock.run(speed)


def _pass_time(session: Session, seconds: float, press: tuple[str, ...]) -> None:
    """Let game time pass; keys are down in its first half."""
    if not press:
        session.clock.advance(seconds)
        return
    try:
        session.input.set_held(press, press)
        session.clock.advance(seconds / 2)
    finally:
        session.input.set_held(())
    session.clock.advance(seconds / 2)
