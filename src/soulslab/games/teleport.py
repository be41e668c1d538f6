"""Teleport of a character, with death and gravity disabled until the game has applied the new position."""

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

#: The game may correct the position: move a character onto the ground, or separate two characters.
NEAR_M = 1.0
#: Two reads: the first returns the written value, the second the value that the game computed from it.
TELEPORT = Patience(deadline_s=2.0, poll_s=0.05, n_looks=2)

_log = logging.getLogger(__name__)


def teleport(character: Character, pose: Pose, patience: Patience = TELEPORT) -> None:
    """Move a character: write x, height and y at once, then the angle if the pose has one.

    Args:
        character: The character.
        pose: Target, in the coordinate system of the ``position`` attribute of the character.
        patience: Deadline for the character to be at the target.

    Raises:
        WaitTimeoutError: The character was not at the target before the deadline.
        SiphonError: Errors of `Session.write`. Death and gravity are restored in any case.
    """
    session, group = character.session, character.group
    values: dict[str, Value] = {f"{group}.position": to_memory(pose.position_m)}
    if pose.angle_rad is not None:
        values[f"{group}.angle"] = pose.angle_rad
    with temporary_values(session, dict.fromkeys(_protections(session, group), True)):
        session.write(values)
        wait_until(
            session,
            f"the {group} to stand at {_text(pose.position_m)} after a teleport",
            lambda: character.position_m,
            lambda position: math.dist(position, pose.position_m) <= NEAR_M,
            patience,
        )


@contextmanager
def temporary_values(session: Session, values: Mapping[str, Value]) -> Iterator[None]:
    """Write attributes on entry, and restore the previous values on exit, also after an error.

    Raises:
        SiphonError: Errors of `Session.write`; errors while restoring after another error are only logged.
    """
    before = dict(session.snapshot(tuple(values)))
    try:
        session.write(values)
        yield
    except BaseException:
        for error in _restore(session, before):
            _log.warning("an attribute could not be restored: %s", error)
        raise
    for error in _restore(session, before):
        raise error


def _restore(session: Session, before: Mapping[str, Value]) -> list[SiphonError]:
    """Write each attribute separately, so that one failure does not prevent the others; return the errors."""
    errors = []
    for name, value in before.items():
        try:
            session.write({name: value})
        except SiphonError as error:
            errors.append(error)
    return errors


def _protections(session: Session, group: str) -> Iterator[str]:
    """Yield the attributes that disable death and gravity; without one for the character, the one for all."""
    known = session.profile.attributes
    for names in ((f"{group}.no_death", "debug.no_death"), (f"{group}.no_gravity",)):
        yield from [name for name in names if name in known][:1]


def _text(position: Position) -> str:
    return f"({', '.join(f'{number:.2f}' for number in position)}) m"
