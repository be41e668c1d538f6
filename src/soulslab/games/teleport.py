"""Putting someone elsewhere, with death and gravity held off until the game has taken it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from soulslab.errors import SiphonError
from soulslab.games.axes import Position, to_memory
from soulslab.games.boss_facts import Pose
from soulslab.games.character import Character
from soulslab.games.waiting import Patience, wait_until
from soulslab.siphon.profile import Value
from soulslab.siphon.session import Session

#: The game may set someone's feet on the ground, or push two apart.
NEAR_M = 1.0
#: Two looks: the first sees what was written, the second what the game made of it.
TELEPORT = Patience(deadline_s=2.0, poll_s=0.05, n_looks=2)

_log = logging.getLogger(__name__)


def teleport(character: Character, pose: Pose, patience: Patience = TELEPORT) -> None:
    """Put someone elsewhere: x, height and y in one write, then the angle if the pose has one.

    Args:
        character: Whom.
        pose: Where to, in the frame of its ``position``.
        patience: How long the game may take to have it there.

    Raises:
        WaitTimeoutError: The game had it elsewhere all the time.
        SiphonError: What `Session.write` raises. What was held off is as before in any case.
    """
    session, group = character.session, character.group
    values: dict[str, Value] = {f"{group}.position": to_memory(pose.position_m)}
    if pose.angle_rad is not None:
        values[f"{group}.angle"] = pose.angle_rad
    with holding(session, dict.fromkeys(_dangers(session, group), True)):
        session.write(values)
        wait_until(
            session,
            f"the {group} to stand at {_text(pose.position_m)} after a teleport",
            lambda: character.position_m,
            lambda position: math.dist(position, pose.position_m) <= NEAR_M,
            patience,
        )


@contextmanager
def holding(session: Session, values: Mapping[str, Value]) -> Iterator[None]:
    """Write attributes for the time of the block, and put back what they were, whatever happens in it.

    Raises:
        SiphonError: What `Session.write` raises; what cannot be put back after another error is only logged.
    """
    before = dict(session.snapshot(tuple(values)))
    try:
        session.write(values)
        yield
    except BaseException:
        for error in _put_back(session, before):
            _log.warning("what was held could not be put back: %s", error)
        raise
    for error in _put_back(session, before):
        raise error


def _put_back(session: Session, before: Mapping[str, Value]) -> list[SiphonError]:
    """Write attributes one by one, so that those that can be are; return what went wrong."""
    errors = []
    for name, value in before.items():
        try:
            session.write({name: value})
        except SiphonError as error:
            errors.append(error)
    return errors


def _dangers(session: Session, group: str) -> Iterator[str]:
    """Yield the attributes that hold off death and gravity; where none is its own, that of all."""
    known = session.profile.attributes
    for names in ((f"{group}.no_death", "debug.no_death"), (f"{group}.no_gravity",)):
        yield from [name for name in names if name in known][:1]


def _text(position: Position) -> str:
    return f"({', '.join(f'{number:.2f}' for number in position)}) m"
