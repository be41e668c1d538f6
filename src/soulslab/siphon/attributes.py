"""The attributes of a profile in the memory of a game: read together, written, each checked.

::

    table = AttributeTable(profile, memory, resolve_bases(profile, memory, image))
    table.read_many(("player.hp", "boss.hp"))   # {"player.hp": 520, "boss.hp": 4174}
    table.write({"player.hp": 300})
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any

from soulslab.errors import ImplausibleValueError, ProfileError, ReadOnlyError, UnknownAttributeError
from soulslab.siphon.chains import build_chains
from soulslab.siphon.entities import id_bytes
from soulslab.siphon.memory import Memory
from soulslab.siphon.plan import ReadPlan
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.values import Codec

#: Sets of names whose plans are kept; a program that reads ever new sets does not fill the memory.
MAX_PLANS = 64


class AttributeTable:
    """Reads and writes the attributes of a game.

    Args:
        profile: The game as data.
        memory: Of its process.
        bases: Address of each base (`soulslab.siphon.pattern.resolve_bases`), not followed where it is a pointer.

    Raises:
        ProfileError: The id of an entity does not fit its type.
    """

    def __init__(self, profile: Profile, memory: Memory, bases: Mapping[str, int]) -> None:
        self._profile = profile
        self._memory = memory
        self._bases = dict(bases)
        self._codecs: dict[str, Codec] = {}
        self._queries: dict[tuple[str, ...], _Query] = {}
        self._all = tuple(profile.attributes)
        for name, entity in profile.entities.items():
            try:
                id_bytes(entity)
            except struct.error as problem:
                raise ProfileError(
                    f"{entity.id} does not fit {entity.id_type}", path=f"entities.{name}.id"
                ) from problem

    def read(self, name: str) -> Value:
        """Return one attribute. Raises as `read_many`."""
        return self._query((name,)).read()[name]

    def read_many(self, names: Sequence[str] | None = None) -> dict[str, Value]:
        """Return several attributes, read together.

        Args:
            names: Which; None for all of the profile.

        Raises:
            UnknownAttributeError: No such attribute.
            PointerError: Its chain leads nowhere now.
            EntityNotFoundError: Its entity is not there now.
            ImplausibleValueError: It is outside its range.
            ProcessExitedError: The game has ended.
        """
        return self._query(self._all if names is None else tuple(names)).read()

    def write(self, values: Mapping[str, Value]) -> None:
        """Write attributes; all are checked, and found, before the first is written.

        Raises:
            ReadOnlyError: The profile does not let one be written.
            InvalidValueError: A value has the wrong type or lies outside its range.
            UnknownAttributeError, PointerError, EntityNotFoundError, ProcessExitedError: As in `read_many`.
            MemoryAccessError: The system does not let it be written.
        """
        names = tuple(values)
        for name in names:
            if not self._attribute(name).is_writable:
                raise ReadOnlyError(f"attribute {name!r} is read-only in the profile; nothing was written")
        encoded = [self._codec(name).encode(values[name]) for name in names]
        addresses = self._query(names).find()
        for name, address, data in zip(names, addresses, encoded, strict=True):
            attribute = self._attribute(name)
            if attribute.type == "flag":
                bit = 1 << attribute.bit
                old = self._memory.read(address, 1)[0]
                self._memory.write(address, bytes([old | bit if data[0] else old & ~bit]))
            else:
                self._memory.write(address, data)

    def address_of(self, name: str) -> int:
        """Return where an attribute is now. Raises as `read_many`, whatever its value."""
        return self._query((name,)).find()[0]

    def forget(self) -> None:
        """Drop all cached pointers, so that the next read walks the chains."""
        for query in self._queries.values():
            query.plan.forget()

    def _query(self, names: tuple[str, ...]) -> _Query:
        """Return what reads these attributes; made once."""
        query = self._queries.get(names)
        if query is None:
            if len(self._queries) >= MAX_PLANS:
                del self._queries[next(iter(self._queries))]
            distinct = tuple(dict.fromkeys(names))
            chains = build_chains(self._profile, self._bases, distinct)
            plan = ReadPlan(self._memory, chains)
            query = self._queries[names] = _Query(plan, [self._codec(name) for name in distinct])
        return query

    def _attribute(self, name: str) -> Any:
        attribute = self._profile.attributes.get(name)
        if attribute is None:
            raise UnknownAttributeError(name, self._profile.attributes)
        return attribute

    def _codec(self, name: str) -> Codec:
        codec = self._codecs.get(name)
        if codec is None:
            codec = self._codecs[name] = Codec(name, self._attribute(name))
        return codec


class _Query:
    """Reads and decodes some attributes."""

    def __init__(self, plan: ReadPlan, codecs: Sequence[Codec]) -> None:
        self.plan = plan
        self._codecs = codecs
        self._names = [codec.name for codec in codecs]
        self._unpack = Struct("<" + "".join(codec.code for codec in codecs)).unpack_from
        places = list(enumerate(codecs))
        self._scaled = [(i, codec.scale) for i, codec in places if codec.is_number and codec.scale != 1]
        self._bounds = [(i, codec.low, codec.high) for i, codec in places if codec.is_number]
        self._others: list[tuple[int, Callable[[Any], Value]]] = [
            (i, codec.decode) for i, codec in places if not codec.is_number
        ]

    def read(self) -> dict[str, Value]:
        """Return the values by name."""
        try:
            return self._decode()
        except ImplausibleValueError:
            # The game may just have been replacing an object; its new one is found by a walk.
            self.plan.forget()
            return self._decode()

    def find(self) -> list[int]:
        """Return where the values are now."""
        self.plan.read()
        return [self.plan.address_of(i) for i in range(len(self._names))]

    def _decode(self) -> dict[str, Value]:
        """Read and decode; all in one function, as calls would cost more than the work."""
        values = list(self._unpack(self.plan.read()))
        for i, scale in self._scaled:
            values[i] *= scale
        for i, low, high in self._bounds:
            # NaN is in no range.
            if not low <= values[i] <= high:
                raise self._codecs[i].implausible(values[i])
        for i, decode in self._others:
            values[i] = decode(values[i])
        return dict(zip(self._names, values, strict=True))
