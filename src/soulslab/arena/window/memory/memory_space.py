"""Memory spaces with their own origin, and the claims of a profile on their bytes.

An object on the heap is a space, and so is each part of the program that can be placed freely. Attributes whose pointer
chains lead through the same cells share them. Two different claims on the same bytes are a conflict, which raises an
error with both places in the profile.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from soulslab.errors import LayoutError

#: Number of bytes of a pointer.
POINTER_SIZE = 8


@dataclass(frozen=True, slots=True)
class Claim:
    """Bytes that a fact of the profile needs.

    Bytes with the same storage type may be shared. ``meaning`` is what the bytes hold, "" for any value; ``owner`` is
    the place of the fact in the profile.
    """

    offset: int
    size: int
    storage: Hashable
    meaning: str
    owner: str

    @property
    def end(self) -> int:
        """Offset after its last byte."""
        return self.offset + self.size

    @property
    def is_flag(self) -> bool:
        """Whether it is one bit of a byte."""
        return isinstance(self.storage, tuple) and self.storage[0] == "flag"

    @property
    def what(self) -> str:
        """Description for error messages."""
        holding = f" with {self.meaning}" if self.meaning else ""
        match self.storage:
            case ("pointer", *_) | "code":
                return self.meaning
            case ("no value", _):
                return "an invalid value"
            case ("flag", bit):
                return f"bit {bit} of a byte{holding}"
            case (str(kind), float(scale)):
                return f"{kind}{'' if scale == 1.0 else f' times {scale:g}'}{holding}"
        return f"{self.size} bytes of {self.storage}{holding}"

    def agrees(self, other: Claim) -> bool:
        """Return whether two overlapping claims are compatible."""
        if any(one.storage == "bytes" and not one.meaning for one in (self, other)):
            return True
        is_same_thing = not self.meaning or not other.meaning or self.meaning == other.meaning
        if self.is_flag and other.is_flag:
            return is_same_thing or self.storage != other.storage
        return is_same_thing and (self.offset, self.size, self.storage) == (other.offset, other.size, other.storage)


@dataclass(eq=False, slots=True)
class Space:
    """A memory space, with the claims on its bytes, and the space that the pointer at an offset points to."""

    name: str
    claims: list[Claim] = field(default_factory=list)
    targets: dict[int, Space] = field(default_factory=dict)

    def claim(self, claim: Claim) -> None:
        """Add a claim; raises `LayoutError` if it conflicts with another one."""
        for other in self.claims:
            if other.offset < claim.end and claim.offset < other.end and not other.agrees(claim):
                raise LayoutError(
                    f"needs {claim.what} at {self.address(claim.offset)}, where {other.owner} needs {other.what} at "
                    f"{self.address(other.offset)}; one of the two facts must be wrong",
                    place=claim.owner,
                    other=other.owner,
                )
        self.claims.append(claim)

    def pointer(self, offset: int, owner: str) -> Space:
        """Return the space that the pointer at an offset points to; create it at the first call."""
        target = self.targets.get(offset)
        if target is None:
            target = Space(f"[{self.address(offset)}]")
            self.claim_pointer(offset, target, owner)
            self.targets[offset] = target
        return target

    def claim_pointer(self, offset: int, target: Space, owner: str, delta: int = 0) -> None:
        """Claim a pointer to an offset in another space."""
        meaning = f"a pointer to {target.name}" + (f" {delta:+#x}" if delta else "")
        self.claim(Claim(offset, POINTER_SIZE, ("pointer", target, delta), meaning, owner))

    def address(self, offset: int) -> str:
        """Return an address for error messages, such as ``[[bases.world]+0x80]+0x18``."""
        return f"{self.name}{offset:+#x}" if offset else self.name

    def is_free(self, offset: int, size: int) -> bool:
        """Return whether no claim overlaps these bytes."""
        return all(claim.end <= offset or offset + size <= claim.offset for claim in self.claims)

    def reachable(self) -> Iterator[Space]:
        """Yield this space and all spaces that are reachable by pointers, each once."""
        seen: set[Space] = set()
        waiting = [self]
        while waiting:
            space = waiting.pop()
            if space not in seen:
                seen.add(space)
                yield space
                waiting.extend(space.targets.values())

    @property
    def low(self) -> int:
        """Least claimed offset; at most 0."""
        return min((0, *(claim.offset for claim in self.claims)))

    @property
    def high(self) -> int:
        """Offset after the last claimed byte; at least 0."""
        return max((0, *(claim.end for claim in self.claims)))
