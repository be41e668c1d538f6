"""Examination of attributes: the result of reading each variant, to check a profile on a running game."""

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
    """Result of reading one variant of an attribute.

    Attributes:
        source: Source of the variant.
        trouble: "" if the value is plausible; ``loading`` if a pointer is null or an entity does not exist, as in a
            menu; ``pointer`` if a pointer leads to no memory; ``range`` if the value is implausible; ``code`` if a
            pattern has no match.
        problem: Text of the error; "" without trouble.
        address: Address of the value; 0 if it was not reached.
        value: Value that was read; None if nothing was read.
    """

    source: str
    trouble: Trouble = ""
    problem: str = ""
    address: int = 0
    value: Value = None


def examine_variant(source: str, read: Callable[[], Value], address: Callable[[], int]) -> Finding:
    """Read one variant of an attribute.

    Args:
        source: Source of the variant.
        read: Returns the value.
        address: Returns the address that the value was read from.

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
