"""The attributes of a profile in the memory of a game: read together, written, each checked.

::

    table = AttributeTable(profile, memory, resolve_places(profile, memory, image))
    table.read_many(("player.hp", "boss.hp"))   # {"player.hp": 520, "boss.hp": 4174}
    table.write({"player.hp": 300})
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import Any

import msgspec

from soulslab.errors import (
    AttributeVersionError,
    ImplausibleValueError,
    PatternError,
    ProfileError,
    ReadOnlyError,
    UnknownAttributeError,
)
from soulslab.siphon.attributes.alternatives import Choice, ListChoice
from soulslab.siphon.attributes.chain_number import NAME, ChainNumber, Number
from soulslab.siphon.attributes.entities import id_bytes
from soulslab.siphon.attributes.examination import Finding, look_into
from soulslab.siphon.attributes.places import Places
from soulslab.siphon.attributes.pointer_chains import build_chains
from soulslab.siphon.attributes.read_plan import ReadPlan
from soulslab.siphon.attributes.value_codecs import Codec
from soulslab.siphon.memory import Memory
from soulslab.siphon.profile import Attribute, Entity, Profile, Value
from soulslab.siphon.profile.facts import F, facts_behind, is_for, versions_of, ways_of, with_numbers

#: Sets of names whose plans are kept; a program that reads ever new sets does not fill the memory.
MAX_PLANS = 64


class AttributeTable:
    """Reads and writes the attributes of a game.

    Args:
        profile: The game as data.
        memory: Of its process.
        places: Addresses of its bases and values of its code offsets
            (`soulslab.siphon.attributes.places.resolve_places`).

    Raises:
        ProfileError: The id of an entity does not fit its type.
    """

    def __init__(self, profile: Profile, memory: Memory, places: Places) -> None:
        self._profile = profile
        self._memory = memory
        self._places = places
        numbered = with_numbers(profile, places.code_offsets)
        ways = {name: self._ways(numbered, attribute) for name, attribute in numbered.attributes.items()}
        self._known = ways
        #: Those of this version, and the way that is gone to each.
        self._now = {name: known[0] for name, known in ways.items() if known}
        self._facts = msgspec.structs.replace(numbered, attributes=self._now)
        lists = {name: self._ways(numbered, entity) for name, entity in numbered.entities.items()}
        #: Those of this version, and the list that each is looked for in.
        self._lists = ListChoice({name: known for name, known in lists.items() if known})
        self._choices = {name: Choice(name, known) for name, known in ways.items() if len(known) > 1}
        self._codecs: dict[str, Codec] = {}
        self._queries: dict[tuple[str, ...], _Query] = {}
        #: What `examine` reads each way with, by the id of the way, and the list of its entity that this is for.
        self._examined: dict[int, tuple[Entity | None, _Query]] = {}
        self._all = tuple(name for name in self._now if not all(map(self._missing, ways[name])))
        for name, entity in profile.entities.items():
            try:
                id_bytes(entity)
            except struct.error as problem:
                raise ProfileError(
                    f"{entity.id} does not fit {entity.id_type}", path=f"entities.{name}.id"
                ) from problem

    @property
    def sources(self) -> dict[str, str]:
        """Of each attribute with alternatives, the source that holds; "" before that is decided."""
        return {name: choice.source for name, choice in self._choices.items()}

    def read(self, name: str) -> Value:
        """Return one attribute. Raises as `read_many`."""
        return self._query((name,)).read()[name]

    def read_many(self, names: Sequence[str] | None = None) -> dict[str, Value]:
        """Return several attributes, read together.

        Args:
            names: Which; None for all of the profile that are known for the version of the game.

        Raises:
            UnknownAttributeError: No such attribute.
            AttributeVersionError: It is not known for the version of the game.
            PatternError: The version is unknown, and what it needs was not found in it.
            PointerError: Its chain leads nowhere now.
            EntityNotFoundError: Its entity is not there now.
            ImplausibleValueError: It is outside its range.
            UndecidedAttributeError: It has alternatives, and none of the ways gives a plausible value now.
            ProcessExitedError: The game has ended.
        """
        return self._query(self._all if names is None else tuple(names)).read()

    def write(self, values: Mapping[str, Value]) -> None:
        """Write attributes; all are checked, and found, before the first is written.

        Raises:
            ReadOnlyError: The profile does not let one be written.
            InvalidValueError: A value has the wrong type or lies outside its range.
            UndecidedAttributeError: It cannot be told yet which of the alternatives of one holds.
            UnknownAttributeError, PointerError, EntityNotFoundError, ProcessExitedError: As in `read_many`.
            MemoryAccessError: The system does not let it be written.
        """
        names = tuple(values)
        for name in names:
            if not self._attribute(name).is_writable:
                raise ReadOnlyError(f"attribute {name!r} is read-only in the profile; nothing was written")
        query = self._query(names)
        for name in names:
            if name in self._choices and not self._choices[name].is_decided:
                raise self._choices[name].undecided()
        encoded = [self._codec(name).encode(values[name]) for name in names]
        addresses = query.find()
        for name, address, data in zip(names, addresses, encoded, strict=True):
            self._store(self._attribute(name), address, data)

    def read_number(self, where: ChainNumber) -> Number:
        """Return a number that the profile does not name.

        Raises:
            PatternError: The profile has no such base, or it was not found.
            PointerError, ImplausibleValueError, ProcessExitedError: As in `read_many`.
        """
        found: Number = self._make((NAME,), {NAME: where.attribute()}).read()[NAME]
        return found

    def write_number(self, where: ChainNumber, value: Number) -> None:
        """Write such a number.

        Raises:
            InvalidValueError: The value has the wrong type, or does not fit.
            PatternError, PointerError, ProcessExitedError: As in `read_number`.
            MemoryAccessError: The system does not let it be written.
        """
        attribute = where.attribute()
        data = Codec(NAME, attribute).encode(value)
        self._store(attribute, self._make((NAME,), {NAME: attribute}).find()[0], data)

    def _store(self, attribute: Attribute, address: int, data: bytes) -> None:
        """Write an attribute's bytes; of a flag, only its bit."""
        if attribute.type == "flag":
            bit = 1 << attribute.bit
            old = self._memory.read(address, 1)[0]
            data = bytes([old | bit if data[0] else old & ~bit])
        self._memory.write(address, data)

    def address_of(self, name: str) -> int:
        """Return where an attribute is now. Raises as `read_many`, whatever its value."""
        return self._query((name,)).find()[0]

    def examine(self, names: Sequence[str] | None = None) -> dict[str, tuple[Finding, ...]]:
        """Return what each way to attributes leads to now, whether it is the one that is gone or not.

        Args:
            names: Which; None for all of the profile that are known for the version of the game.

        Raises:
            UnknownAttributeError, AttributeVersionError, ProcessExitedError: As in `read_many`.
        """
        wanted = tuple(self._now) if names is None else tuple(names)
        for name in wanted:
            self._attribute(name)
        return {name: tuple(self._look_into(name, way) for way in self._known[name]) for name in wanted}

    def _look_into(self, name: str, way: Attribute) -> Finding:
        def query() -> _Query:
            self._require(way, name)
            entity = self._lists.now.get(way.entity)
            known = self._examined.get(id(way))
            if known is None or known[0] is not entity:
                known = self._examined[id(way)] = entity, self._make((name,), {name: way})
            return known[1]

        return look_into(way.source, lambda: query().read()[name], lambda: query().plan.address_of(0))

    def forget(self) -> None:
        """Drop all cached pointers, so that the next read walks the chains."""
        for query in self._queries.values():
            query.plan.forget()

    # --- ways -----------------------------------------------------------------------------------------------

    def _ways(self, numbered: Profile, fact: F) -> list[F]:
        """Return the ways to an attribute, or to a list, that are for the version of the game."""
        return [way for way in ways_of(fact) if is_for(numbered, way, self._places.version)]

    def _missing(self, way: Attribute) -> list[PatternError]:
        """Return why a way cannot be gone in this process, whatever the game does."""
        missing = self._places.missing
        return [missing[place] for place, _ in facts_behind(self._facts, way) if place in missing] if missing else []

    def _decide(self, name: str) -> None:
        """Find out which way to go to an attribute.

        Raises:
            UndecidedAttributeError: None leads to a plausible value now.
        """
        choice = self._choices[name]
        choice.look(lambda way: self._make((name,), {name: way}).read()[name])
        self._now[name] = choice.way
        self._codecs.pop(name, None)

    # --- reading --------------------------------------------------------------------------------------------

    def _query(self, names: tuple[str, ...]) -> _Query:
        """Return what reads these attributes; made once, as soon as the ways to all of them are decided."""
        query = self._queries.get(names)
        if query is None:
            is_decided = True
            for name in names:
                if name in self._choices and not self._choices[name].is_decided:
                    self._decide(name)
                    is_decided = is_decided and self._choices[name].is_decided
            query = self._make(tuple(dict.fromkeys(names)), self._now)
            if is_decided:
                if len(self._queries) >= MAX_PLANS:
                    del self._queries[next(iter(self._queries))]
                self._queries[names] = query
        return query

    def _make(self, names: tuple[str, ...], ways: dict[str, Attribute]) -> _Query:
        """Return what reads attributes by some ways."""
        for name in names:
            if name not in ways:
                self._attribute(name)
            self._require(ways[name], name)
        is_now = ways is self._now
        codecs = [self._codec(name) if is_now else Codec(name, ways[name]) for name in names]
        return _Query(self._plan(names, ways, self._lists.now), codecs)

    def _require(self, way: Attribute, name: str) -> None:
        """Check that a way to an attribute can be gone, and choose the list of its entity."""
        for mistake in self._missing(way):
            raise _of_attribute(name, mistake) from mistake
        if entity := way.entity:
            self._lists.look(entity, partial(self._find, entity))

    def _plan(self, names: tuple[str, ...], ways: dict[str, Attribute], entities: dict[str, Entity]) -> ReadPlan:
        facts = msgspec.structs.replace(self._facts, attributes=ways, entities=entities)
        return ReadPlan(self._memory, build_chains(facts, self._places.bases, names))

    def _find(self, name: str, entity: Entity) -> None:
        """Find an entity in a list; raises as `read_many`."""
        its_id = Attribute(entity=name, offsets=entity.id_offsets, type=entity.id_type, source=entity.source)
        self._plan((name,), {name: its_id}, {name: entity}).read()

    def _attribute(self, name: str) -> Attribute:
        attribute = self._now.get(name)
        if attribute is None:
            known = self._profile.attributes
            if name not in known:
                raise UnknownAttributeError(name, known)
            versions = [versions_of(self._profile, way) for way in ways_of(known[name])]
            of_any = [version for version in self._profile.process.versions if any(version in of for of in versions)]
            raise AttributeVersionError(name, self._places.version, of_any)
        return attribute

    def _codec(self, name: str) -> Codec:
        codec = self._codecs.get(name)
        if codec is None:
            codec = self._codecs[name] = Codec(name, self._attribute(name))
        return codec


def _of_attribute(name: str, mistake: PatternError) -> PatternError:
    """Return the error for an attribute that needs what was not found."""
    place = "" if name == NAME else f"attribute {name!r}: {mistake.place or f'base {mistake.base!r}'}"
    return PatternError(mistake.problem, base=mistake.base, addresses=mistake.addresses, place=place or mistake.place)


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
