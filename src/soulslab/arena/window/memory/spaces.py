"""Pieces of memory with an origin of their own, and what profiles want to find where in them.

An object on the heap is a space, and so is each part of the program that is put where there is room. Several
attributes may lead through the same cells: they share them. What two attributes want to be different things at the
same place is a conflict, and an error that names both.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from soulslab.errors import LayoutError

#: A pointer takes so many bytes.
POINTER_SIZE = 8


@dataclass(frozen=True, slots=True)
class Claim:
    """Bytes that are wanted to be something.

    Attributes:
        offset: From the origin of the space.
        size: In bytes.
        storage: How it is stored; what is stored alike may be shared.
        meaning: What it holds; "" for whatever is there.
        owner: Who wants it: a place in the profile.
    """

    offset: int
    size: int
    storage: Hashable
    meaning: str
    owner: str

    @property
    def end(self) -> int:
        """Offset behind its last byte."""
        return self.offset + self.size

    @property
    def is_flag(self) -> bool:
        """Whether it is one bit of its byte."""
        return isinstance(self.storage, tuple) and self.storage[0] == "flag"

    @property
    def what(self) -> str:
        """What is wanted, as a part of a message."""
        holding = f" with {self.meaning}" if self.meaning else ""
        match self.storage:
            case ("pointer", *_) | "code":
                return self.meaning
            case ("no value", _):
                return "something that is no value"
            case ("flag", bit):
                return f"bit {bit} of a byte{holding}"
            case (str(kind), float(scale)):
                return f"{kind}{'' if scale == 1.0 else f' times {scale:g}'}{holding}"
        return f"{self.size} bytes of {self.storage}{holding}"

    def agrees(self, other: Claim) -> bool:
        """Tell whether both can be had, though they overlap."""
        if any(one.storage == "bytes" and not one.meaning for one in (self, other)):
            return True
        is_same_thing = not self.meaning or not other.meaning or self.meaning == other.meaning
        if self.is_flag and other.is_flag:
            return is_same_thing or self.storage != other.storage
        return is_same_thing and (self.offset, self.size, self.storage) == (other.offset, other.size, other.storage)


@dataclass(eq=False, slots=True)
class Space:
    """A piece of memory.

    Attributes:
        name: For messages: how it is reached.
        claims: What is wanted where.
        targets: Space that the pointer at an offset leads to.
    """

    name: str
    claims: list[Claim] = field(default_factory=list)
    targets: dict[int, Space] = field(default_factory=dict)

    def claim(self, claim: Claim) -> None:
        """Want something.

        Raises:
            LayoutError: Something else is wanted there.
        """
        for other in self.claims:
            if other.offset < claim.end and claim.offset < other.end and not other.agrees(claim):
                raise LayoutError(
                    f"wants {claim.what} at {self.address(claim.offset)}, where {other.owner} wants {other.what} at "
                    f"{self.address(other.offset)}; one of the two facts must be wrong",
                    place=claim.owner,
                    other=other.owner,
                )
        self.claims.append(claim)

    def pointer(self, offset: int, owner: str) -> Space:
        """Return the space that the pointer at an offset leads to; it is made if it is the first to go there."""
        target = self.targets.get(offset)
        if target is None:
            target = Space(f"[{self.address(offset)}]")
            self.claim_pointer(offset, target, owner)
            self.targets[offset] = target
        return target

    def claim_pointer(self, offset: int, target: Space, owner: str, delta: int = 0) -> None:
        """Want a pointer to so many bytes behind the origin of another space."""
        meaning = f"a pointer to {target.name}" + (f" {delta:+#x}" if delta else "")
        self.claim(Claim(offset, POINTER_SIZE, ("pointer", id(target), delta), meaning, owner))

    def address(self, offset: int) -> str:
        """Return an address as a part of a message: ``[[bases.world]+0x80]+0x18``."""
        return f"{self.name}{offset:+#x}" if offset else self.name

    def is_free(self, offset: int, size: int) -> bool:
        """Tell whether nothing is wanted there."""
        return all(claim.end <= offset or offset + size <= claim.offset for claim in self.claims)

    def reachable(self) -> Iterator[Space]:
        """Yield this space and all that its pointers lead to, each once."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            space = waiting.pop()
            if id(space) not in seen:
                seen.add(id(space))
                yield space
                waiting.extend(space.targets.values())

    @property
    def low(self) -> int:
        """Least offset that is wanted; 0 at most."""
        return min((0, *(claim.offset for claim in self.claims)))

    @property
    def high(self) -> int:
        """Offset behind the last byte that is wanted; 0 at least."""
        return max((0, *(claim.end for claim in self.claims)))
