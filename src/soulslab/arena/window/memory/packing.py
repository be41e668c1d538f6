"""The fight as the packed bytes of its attributes, so that all of them are compared and copied at once.

Bytes are copied in the largest words that their alignment allows. A word is written at once, so a reader of a running
game never sees half of a number.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.binding import Binding
from soulslab.arena.live_fight import LiveFight
from soulslab.arena.quantities import QUANTITIES
from soulslab.arena.window.memory.layout import Layout, Place
from soulslab.config.checking import join_place
from soulslab.errors import ImplausibleValueError, LayoutError
from soulslab.siphon.attributes.value_codecs import Codec
from soulslab.siphon.profile import NUMBER_CODES, Attribute, Value

_WIDTHS = (8, 4, 2, 1)


class PackedField:
    """An attribute that holds a quantity, at the position ``at`` in the packed bytes, in words of ``width`` bytes.

    ``mask`` has its bits within its byte for a flag, otherwise 0; ``codes`` are format codes of `struct`.
    """

    def __init__(
        self, name: str, attribute: Attribute, quantity: str, place: Place, encode: Callable[[Value], Any]
    ) -> None:
        self.name = name
        self.place = place
        self._codec = Codec(name, attribute)
        self._attribute = attribute
        self._quantity = quantity
        self._facts = QUANTITIES[quantity]
        self._encode = encode
        self.size = self._codec.size
        self.mask = 1 << attribute.bit if attribute.type == "flag" else 0
        number = NUMBER_CODES.get(attribute.type, "")
        self.codes = number * attribute.length if number else "B" if self.size == 1 else f"{self.size}s"
        self.is_vector = bool(number) and attribute.length > 1
        item = struct.calcsize(f"<{number}") if number else self.size
        # The largest word whose boundaries are not inside a number or a text.
        self.width = math.gcd(place.offset, item, 8)
        self.at = 0
        self._texts: dict[str, bytes] = {}

    def check(self, game: LiveFight) -> None:
        """Raise `LayoutError` unless it can hold all values of its quantity in the fights of a game."""
        for value in self._facts.extremes(game):
            stored = self.getter(lambda _, value=value: value)(game)  # type: ignore[misc]  # bound at once
            self.check_stored(stored, value)

    def check_stored(self, stored: Any, value: Value) -> None:
        """Raise `LayoutError` if its type cannot hold what `getter` returned for a value."""
        try:
            struct.pack(f"<{self.codes}", *(stored if isinstance(stored, list) else [stored]))
        except (struct.error, OverflowError) as error:
            what = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            as_stored = "" if what == stored else f", stored as {stored!r}"
            raise LayoutError(
                f"a {self._attribute.type} cannot hold {what!r}{as_stored}, a possible value of {self._quantity}; use "
                "a wider type",
                place=join_place("attributes", self.name),
                other=join_place("duel.attributes", self._quantity),
            ) from error

    def getter(self, get: Callable[[LiveFight], Any] | None = None) -> Callable[[LiveFight], Any]:
        """Return a function that reads its value from a fight: a number, bytes, or a list of numbers.

        ``get`` returns the quantity; by default it is that of the quantity itself.
        """
        get, encode, kind = get or self._facts.get, self._encode, self._attribute.type
        if kind in ("utf8", "utf16"):
            return lambda game: self._text(encode(get(game)))
        if self.mask:
            return lambda game: self.mask if encode(get(game)) else 0
        if self.is_vector:
            order = [int(place) for place in encode((0, 1, 2))]
            if self._attribute.type == "f32" and self._attribute.scale == 1.0:
                return lambda game: [*map(get(game).tolist().__getitem__, order)]
            return lambda game: [self._stored(value) for value in map(get(game).tolist().__getitem__, order)]
        if self._attribute.scale != 1.0:
            return lambda game: self._stored(encode(get(game)))
        return get if encode in (float, bool, bytes) else lambda game: encode(get(game))

    def decode(self, raw: bytes) -> Value:
        """Return the value of stored bytes; raises `ImplausibleValueError` if it is outside the attribute's range."""
        codec = self._codec
        if not codec.is_number:
            return codec.decode(raw)
        (value,) = struct.unpack(f"<{codec.code}", raw)
        if codec.scale != 1:
            value *= codec.scale
        if not codec.low <= value <= codec.high:
            raise codec.implausible(value)
        return value

    def _stored(self, value: float) -> float | int:
        """Return a number in its stored form."""
        quotient = value / self._attribute.scale
        if self._attribute.type in ("f32", "f64"):
            return quotient
        return math.ceil(quotient) if self._facts.rounds_up else round(quotient)

    def _text(self, value: str) -> bytes:
        stored = self._texts.get(value)
        if stored is None:
            encoding = "utf-16-le" if self._attribute.type == "utf16" else "utf-8"
            stored = value.encode(encoding)
            if len(stored) > self.size:
                raise LayoutError(
                    f"has {self.size} bytes, but {value!r}, a possible value of {self._quantity}, needs {len(stored)}",
                    place=f"{join_place('attributes', self.name)}.length",
                    other=join_place("duel.attributes", self._quantity),
                )
            self._texts[value] = stored = stored.ljust(self.size, b"\0")
        return stored


class Packing:
    """All attributes that hold a quantity, packed: words of 8 bytes first, then shorter ones.

    Flags that share a byte in memory also share one of the packed bytes. ``groups`` has width, first byte and end of
    the packed words of each width. Raises `LayoutError` if an attribute cannot hold all values of its quantity.
    """

    def __init__(self, binding: Binding, layout: Layout, game: LiveFight) -> None:
        fields = [
            PackedField(name, layout.attributes[name], quantity, layout.places[name], binding.encoder(quantity))
            for quantity, name in binding.attributes.items()
        ]
        for field in fields:
            field.check(game)
        self.fields = sorted(fields, key=lambda field: (-field.width, field.place))
        self.size = 0
        self._codes = ""
        self._getters: list[tuple[bool, Callable[[LiveFight], Any]]] = []
        self._flags: list[tuple[int, int, list[Callable[[LiveFight], int]]]] = []
        self._assign()
        self._struct = struct.Struct(f"<{self._codes}")
        ends = [(w, max((f.at + f.size for f in self.fields if f.width >= w), default=0)) for w in _WIDTHS]
        begins = [0, *(end for _, end in ends)]
        self.groups = [(w, begin, end) for (w, end), begin in zip(ends, begins, strict=False) if end > begin]

    def pack(self, game: LiveFight, into: bytearray, known: bytearray) -> None:
        """Pack the attributes of a fight into (size,) bytes; unbound bits of flags are copied from the ``known`` bytes.

        Raises `LayoutError` if an attribute cannot hold its quantity.
        """
        values: list[Any] = []
        for is_vector, get in self._getters:
            if is_vector:
                values += get(game)
            else:
                values.append(get(game))
        try:
            self._struct.pack_into(into, 0, *values)
        except (struct.error, OverflowError) as error:
            for field in self.fields:
                stored = field.getter()(game)
                field.check_stored(stored, stored)
            raise LayoutError(f"the fight cannot be packed: {error}") from error
        for at, mask, flags in self._flags:
            bits = known[at] & ~mask
            for flag in flags:
                bits |= flag(game)
            into[at] = bits

    def words(self, width: int, begin: int, end: int, starts: Sequence[int]) -> NDArray[np.int64]:
        """Return the address of each word of a group, divided by its width, given the address of each region."""
        words = np.zeros((end - begin) // width, np.int64)
        for field in self.fields:
            if begin <= field.at < end:
                first, n = (field.at - begin) // width, field.size // width
                words[first : first + n] = (starts[field.place.region] + field.place.offset) // width + np.arange(n)
        return words

    def changed(self, found: bytearray, known: bytearray) -> Iterator[tuple[str, Value | ImplausibleValueError]]:
        """Yield the attributes whose bytes differ, with the found value, or an error if it is not plausible."""
        for field in self.fields:
            part = slice(field.at, field.at + field.size)
            new, old = found[part], known[part]
            if field.mask:
                new, old = bytearray([new[0] & field.mask]), bytearray([old[0] & field.mask])
            if new == old:
                continue
            try:
                yield field.name, field.decode(bytes(new))
            except ImplausibleValueError as error:
                yield field.name, error

    def _assign(self) -> None:
        """Assign each field its position in the packed bytes; flags of one byte share a position."""
        shared: dict[Place, tuple[int, int, list[Callable[[LiveFight], int]]]] = {}
        for field in self.fields:
            if not field.mask:
                field.at = self.size
                self._getters.append((field.is_vector, field.getter()))
            elif field.place in shared:
                field.at, mask, flags = shared[field.place]
                shared[field.place] = (field.at, mask | field.mask, [*flags, field.getter()])
                continue
            else:
                field.at = self.size
                shared[field.place] = (field.at, field.mask, [field.getter()])
                self._getters.append((False, lambda _: 0))
            self._codes += field.codes
            self.size += field.size
        self._flags = list(shared.values())
