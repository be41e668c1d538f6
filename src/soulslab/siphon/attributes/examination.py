"""What each way to an attribute leads to: more than a read tells, for whoever checks a profile on a running game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from soulslab.errors import (
    EntityNotFoundError,
    ImplausibleValueError,
    PatternError,
    PointerError,
    SiphonError,
)
from soulslab.siphon.profile import Value

Trouble: TypeAlias = Literal["", "loading", "pointer", "range", "code"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one way to an attribute leads to now.

    Attributes:
        source: Of the way.
        trouble: "" where the value is plausible; ``loading`` where a pointer is null or an entity is not there, as in a
            menu; ``pointer`` where one leads to no memory; ``range`` where the value is not plausible; ``code`` where
            its pattern is not in the program.
        problem: The error that says it all; "" without trouble.
        address: Of the value; 0 where none was reached.
        value: What was read; None where nothing was.
    """

    source: str
    trouble: Trouble = ""
    problem: str = ""
    address: int = 0
    value: Value = None


def look_into(source: str, read: Callable[[], Value], address: Callable[[], int]) -> Finding:
    """Find an attribute by one way and read it.

    Args:
        source: Of the way.
        read: Returns the value.
        address: Returns where the value was read.

    Raises:
        ProcessExitedError: The game has ended.
    """
    try:
        value = read()
        return Finding(source=source, address=address(), value=value)
    except ImplausibleValueError as error:
        return Finding(source=source, trouble="range", problem=str(error), address=address(), value=error.value)
    except (PatternError, PointerError, EntityNotFoundError) as error:
        return Finding(source=source, trouble=_trouble(error), problem=str(error))


def _trouble(error: SiphonError) -> Trouble:
    if isinstance(error, PatternError):
        return "code"
    is_loading = isinstance(error, EntityNotFoundError) or (isinstance(error, PointerError) and error.is_null)
    return "loading" if is_loading else "pointer"
