"""A number that the profile does not name, addressed by a pointer chain from one of its bases.

Tables and trees of a game have addresses that depend on values read before, so a profile cannot name their entries.
Code that knows the structure reads them one number at a time.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from soulslab.siphon.profile import Attribute, NumberType, Offset

Number: TypeAlias = int | float | bool
#: Name of such a number in errors.
NAME = "(by its own chain)"


class ChainNumber(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Address and type of a number.

    Attributes:
        base: Name of a base of the profile.
        offsets: Offsets as in an attribute: each but the last is added and the pointer there is followed.
        type: Type of the number; ``flag`` is one bit of a byte.
        bit: Bit of a flag; 0 is the lowest.
    """

    base: str
    offsets: Annotated[tuple[Offset, ...], Meta(min_length=1, max_length=256)]
    type: NumberType | Literal["flag"]
    bit: Annotated[int, Meta(ge=0, le=7)] = 0

    def attribute(self) -> Attribute:
        """Return the number as an attribute without a plausible range."""
        return Attribute(base=self.base, offsets=self.offsets, type=self.type, bit=self.bit, source=NAME)
