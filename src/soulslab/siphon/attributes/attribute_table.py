"""Reading and writing the attributes of a profile in the memory of a game, with checks."""

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
from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.attributes.alternatives import AlternativeSelection, Finding, ListSelection, examine_variant
from soulslab.siphon.attributes.pointer_chains import NUMBER_NAME, ChainNumber, Number, build_chains, id_bytes
from soulslab.siphon.attributes.read_plan import ReadPlan
from soulslab.siphon.attributes.value_codecs import Codec
from soulslab.siphon.memory import Memory
from soulslab.siphon.profile import Attribute, Entity, Profile, Value
from soulslab.siphon.profile.facts import F, facts_behind, is_for, variants_of, versions_of, with_numbers

#: Limit of cached read plans, so that a program that reads many different sets of names does not fill the memory.
MAX_PLANS = 64


class AttributeTable:
    """Reads and writes the attributes of a game. Raises `ProfileError` if the id of an entity does not fit its type."""

    def __init__(self, profile: Profile, memory: Memory, places: ResolvedAddresses) -> None:
        self._profile = profile
        self._memory = memory
        self._places = places
        numbered = with_numbers(profile, places.code_offsets)
        variants = {name: self._variants(numbered, attribute) for name, attribute in numbered.attributes.items()}
        self._known = variants
        #: The selected variant of each attribute that this version has.
        self._now = {name: known[0] for name, known in variants.items() if known}
        self._facts = msgspec.structs.replace(numbered, attributes=self._now)
        lists = {name: self._variants(numbered, entity) for name, entity in numbered.entities.items()}
        #: The selected list of each entity that this version has.
        self._lists = ListSelection({name: known for name, known in lists.items() if known})
        self._choices = {name: AlternativeSelection(name, known) for name, known in variants.items() if len(known) > 1}
        self._codecs: dict[str, Codec] = {}
        self._queries: dict[tuple[str, ...], _Query] = {}
        #: Queries of `examine`: by the id of the variant, with the entity definition that the query was built for.
        self._examined: dict[int, tuple[Entity | None, _Query]] = {}
        self._all = tuple(name for name in self._now if not all(map(self._missing, variants[name])))
        for name, entity in profile.entities.items():
            try:
                id_bytes(entity)
            except struct.error as problem:
                raise ProfileError(
                    f"{entity.id} does not fit {entity.id_type}", path=f"entities.{name}.id"
                ) from problem

    @property
    def sources(self) -> dict[str, str]:
        """Source of the selected variant of each attribute with alternatives; "" before the selection is final."""
        return {name: choice.source for name, choice in self._choices.items()}

    def read(self, name: str) -> Value:
        """Return one attribute. Raises as `read_many`."""
        return self._query((name,)).read()[name]

    def read_many(self, names: Sequence[str] | None = None) -> dict[str, Value]:
        """Return several attributes, read together; None for all that are known for the version of the game.

        Raises the errors of `soulslab.siphon.session.Session.read`, `ProcessExitedError`, and `PatternError` if the
        version of the game is unknown and a pattern that the attribute needs has no match.
        """
        return self._query(tuple(names) if names is not None else self._all).read()

    def write(self, values: Mapping[str, Value]) -> None:
        """Write attributes; all values are checked and all addresses found before the first write.

        Raises the errors of `soulslab.siphon.session.Session.write`, and `MemoryAccessError` if the operating system
        refuses it.
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
        """Return a number by a pointer chain that is not in the profile.

        Raises `PatternError` if the profile has no such base, or its pattern has no match; otherwise as `read_many`.
        """
        found: Number = self._make((NUMBER_NAME,), {NUMBER_NAME: where.attribute()}).read()[NUMBER_NAME]
        return found

    def write_number(self, where: ChainNumber, value: Number) -> None:
        """Write a number by a pointer chain that is not in the profile. Raises as `write` and `read_number`."""
        attribute = where.attribute()
        data = Codec(NUMBER_NAME, attribute).encode(value)
        self._store(attribute, self._make((NUMBER_NAME,), {NUMBER_NAME: attribute}).find()[0], data)

    def _store(self, attribute: Attribute, address: int, data: bytes) -> None:
        """Write the bytes of an attribute; for a flag, only its bit."""
        if attribute.type == "flag":
            bit = 1 << attribute.bit
            old = self._memory.read(address, 1)[0]
            data = bytes([old | bit if data[0] else old & ~bit])
        self._memory.write(address, data)

    def address_of(self, name: str) -> int:
        """Return the current address of an attribute. Raises as `read_many`, except for implausible values."""
        return self._query((name,)).find()[0]

    def examine(self, names: Sequence[str] | None = None) -> dict[str, tuple[Finding, ...]]:
        """Return the result of reading each variant of some attributes, selected or not; None for all known attributes.

        Raises `UnknownAttributeError` and `AttributeVersionError` as `read_many`.
        """
        wanted = tuple(names) if names is not None else tuple(self._now)
        for name in wanted:
            self._attribute(name)
        return {name: tuple(self._look_into(name, variant) for variant in self._known[name]) for name in wanted}

    def _look_into(self, name: str, variant: Attribute) -> Finding:
        def query() -> _Query:
            self._require(variant, name)
            entity = self._lists.now.get(variant.entity)
            known = self._examined.get(id(variant))
            if known is None or known[0] is not entity:
                known = self._examined[id(variant)] = entity, self._make((name,), {name: variant})
            return known[1]

        return examine_variant(variant.source, lambda: query().read()[name], lambda: query().plan.address_of(0))

    def forget(self) -> None:
        """Drop all cached pointers, so that the next read walks the chains."""
        for query in self._queries.values():
            query.plan.forget()

    # --- variants -----------------------------------------------------------------------------------------------

    def _variants(self, numbered: Profile, fact: F) -> list[F]:
        return [variant for variant in variants_of(fact) if is_for(numbered, variant, self._places.version)]

    def _missing(self, variant: Attribute) -> list[PatternError]:
        missing = self._places.missing
        return (
            [missing[place] for place, _ in facts_behind(self._facts, variant) if place in missing] if missing else []
        )

    def _decide(self, name: str) -> None:
        """Select the variant of an attribute. Raises `UndecidedAttributeError` if none gives a plausible value now."""
        choice = self._choices[name]
        choice.look(lambda variant: self._make((name,), {name: variant}).read()[name])
        self._now[name] = choice.variant
        self._codecs.pop(name, None)

    # --- reading --------------------------------------------------------------------------------------------

    def _query(self, names: tuple[str, ...]) -> _Query:
        """Return the query for some attributes; cached once the variants of all of them are final."""
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

    def _make(self, names: tuple[str, ...], variants: dict[str, Attribute]) -> _Query:
        for name in names:
            if name not in variants:
                self._attribute(name)
            self._require(variants[name], name)
        is_now = variants is self._now
        codecs = [self._codec(name) if is_now else Codec(name, variants[name]) for name in names]
        return _Query(self._plan(names, variants, self._lists.now), codecs)

    def _require(self, variant: Attribute, name: str) -> None:
        """Check that the patterns of a variant were found, and select the list of its entity."""
        for mistake in self._missing(variant):
            raise _of_attribute(name, mistake) from mistake
        if entity := variant.entity:
            self._lists.look(entity, partial(self._find, entity))

    def _plan(self, names: tuple[str, ...], variants: dict[str, Attribute], entities: dict[str, Entity]) -> ReadPlan:
        facts = msgspec.structs.replace(self._facts, attributes=variants, entities=entities)
        return ReadPlan(self._memory, build_chains(facts, self._places.bases, names))

    def _find(self, name: str, entity: Entity) -> None:
        its_id = Attribute(entity=name, offsets=entity.id_offsets, type=entity.id_type, source=entity.source)
        self._plan((name,), {name: its_id}, {name: entity}).read()

    def _attribute(self, name: str) -> Attribute:
        attribute = self._now.get(name)
        if attribute is None:
            known = self._profile.attributes
            if name not in known:
                raise UnknownAttributeError(name, known)
            versions = [versions_of(self._profile, variant) for variant in variants_of(known[name])]
            of_any = [version for version in self._profile.process.versions if any(version in of for of in versions)]
            raise AttributeVersionError(name, self._places.version, of_any)
        return attribute

    def _codec(self, name: str) -> Codec:
        codec = self._codecs.get(name)
        if codec is None:
            codec = self._codecs[name] = Codec(name, self._attribute(name))
        return codec


def _of_attribute(name: str, mistake: PatternError) -> PatternError:
    """Return the error for an attribute whose pattern was not found."""
    place = "" if name == NUMBER_NAME else f"attribute {name!r}: {mistake.place or f'base {mistake.base!r}'}"
    return PatternError(mistake.problem, base=mistake.base, addresses=mistake.addresses, place=place or mistake.place)


class _Query:
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
            # The game may have replaced an object during the read; walking the chains finds the new object.
            self.plan.forget()
            return self._decode()

    def find(self) -> list[int]:
        """Return the current addresses of the values."""
        self.plan.read()
        return [self.plan.address_of(i) for i in range(len(self._names))]

    def _decode(self) -> dict[str, Value]:
        """Read and decode in one function, because calls would cost more than the work."""
        values = list(self._unpack(self.plan.read()))
        for i, scale in self._scaled:
            values[i] *= scale
        for i, low, high in self._bounds:
            # NaN is outside every range.
            if not low <= values[i] <= high:
                raise self._codecs[i].implausible(values[i])
        for i, decode in self._others:
            values[i] = decode(values[i])
        return dict(zip(self._names, values, strict=True))
