"""A number that the profile does not name, by the pointers that lead to it from one of its bases.

Some things of a game lie in tables and trees, so that where they are depends on what was read before: no profile can
say it. Whoever knows the way reads it number by number.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from soulslab.siphon.profile import Attribute, NumberType, Offset

Number: TypeAlias = int | float | bool
#: What its errors call it.
NAME = "(by its own chain)"


class ChainNumber(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a number lies, and how it is stored.

    Attributes:
        base: Of the profile.
        offsets: As those of an attribute: each but the last is added and the pointer there followed.
        type: Of the number; ``flag`` is one bit of a byte.
        bit: Of a flag, which; 0 is the lowest.
    """

    base: str
    offsets: Annotated[tuple[Offset, ...], Meta(min_length=1, max_length=256)]
    type: NumberType | Literal["flag"]
    bit: Annotated[int, Meta(ge=0, le=7)] = 0

    def attribute(self) -> Attribute:
        """Return it as an attribute, of which everything is plausible."""
        return Attribute(base=self.base, offsets=self.offsets, type=self.type, bit=self.bit, source=NAME)
