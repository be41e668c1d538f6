"""The ``[duel]`` table of a profile: which attributes of the game's memory hold the quantities of a boss duel.

::

    [duel]
    axes = "xzy"                       # order of the components of a stored position; z is the height

    [duel.attributes]                  # quantity = attribute
    "player.hp" = "player.hp"
    "boss.animation" = "iudex.animation"

    [duel.player_animations]           # only if the attribute is a number
    RollingMedium = 27000

A binding is used in both directions: environments read a fight from a game's memory, and the built-in game writes its
fight to memory in the layout of another game's profile. `soulslab.arena.quantities` defines the quantities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
import numpy as np

from soulslab.arena.live_fight import LiveFight
from soulslab.arena.quantities import QUANTITIES, Quantity, Value
from soulslab.config.checking import check, join_place
from soulslab.errors import ConfigError, ProfileError, did_you_mean

_TEXTS = ("utf8", "utf16")
_BITS = ("bool", "flag")
_FLOATS = ("f32", "f64")
#: Prefix of the names of animations of which only the number is known.
UNNAMED = "#"
#: Orders in which games store x, y and the height z.
_AXES = ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx")


class _Stored(Protocol):
    """Storage of an attribute, as in `soulslab.siphon.profile.Attribute`, which the arena must not import."""

    @property
    def type(self) -> str: ...
    @property
    def length(self) -> int: ...
    @property
    def scale(self) -> float: ...


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ``[duel]`` table. Animations have numbers only if their attribute is a number.

    ``axes`` is the order of the components of a stored position or direction; z is the height.
    """

    attributes: dict[str, str]
    axes: str = "xyz"
    player_animations: dict[str, int] = {}
    boss_animations: dict[str, int] = {}


class Binding:
    """Converts between the quantities of a fight and the attributes of a profile, with its ``[duel]`` table.

    ``attributes`` maps quantities to attribute names; ``source`` is the profile's path for messages. A malformed table,
    or an attribute that does not fit its quantity, raises `ProfileError`.
    """

    def __init__(self, table: Mapping[str, Any] | None, attributes: Mapping[str, _Stored], source: str = "") -> None:
        def error(problem: str, place: str) -> ConfigError:
            return ProfileError(problem, path=f"duel.{place}" if place else "duel", source=source)

        if table is None:
            raise error("is missing; the profile does not state which attributes hold a fight", "")
        self._table = check(dict(table), _Table, error)
        self._stored = attributes
        for problem, place in self._problems():
            raise error(problem, place)
        self.attributes: Mapping[str, str] = self._table.attributes
        self._quantities = {name: quantity for quantity, name in self.attributes.items()}
        order = [self._table.axes.index(axis) for axis in "xyz"]
        self._from_stored, self._to_stored = np.array(order), np.argsort(order)
        tables = {"player.animation": self._table.player_animations, "boss.animation": self._table.boss_animations}
        self._numbers = tables
        self._encoders = {quantity: self.encoder(quantity) for quantity in self.attributes}
        self._names = {which: {number: name for name, number in table.items()} for which, table in tables.items()}

    def has(self, *quantities: str) -> bool:
        """Return whether the profile has an attribute for each of these quantities."""
        return all(quantity in self.attributes for quantity in quantities)

    # --- reading a game -------------------------------------------------------------------------------------

    def decode(self, quantity: str, stored: Any) -> Value:
        """Return the value of a quantity, given the value that was read from its attribute.

        An animation whose number is not in the table is returned as `UNNAMED` followed by the number.
        """
        kind = QUANTITIES[quantity].kind
        if kind == "vector":
            return np.asarray(stored, np.float64)[self._from_stored]
        if kind == "flag":
            return bool(stored)
        if kind == "animation" and not isinstance(stored, str):
            return self._names[quantity].get(int(stored), f"{UNNAMED}{int(stored)}")
        return stored

    def encode(self, quantity: str, value: Value) -> Any:
        """Return the value to write to the attribute of a quantity."""
        return self._encoders[quantity](value)

    def encoder(self, quantity: str) -> Callable[[Value], Any]:
        """Return the function that converts values of a quantity to values to write to its attribute."""
        facts, stored = QUANTITIES[quantity], self._stored[self.attributes[quantity]]
        is_fraction = stored.type in _FLOATS or stored.scale != 1.0
        if facts.kind == "vector":
            kind = np.float64 if is_fraction else np.int64
            return lambda value: np.asarray(value if is_fraction else np.rint(value), kind)[self._to_stored]
        if facts.kind == "bytes":
            return bytes
        if facts.kind == "flag":
            return bool if stored.type in _BITS else (lambda value: int(bool(value)))
        if facts.kind == "animation":
            return str if stored.type in _TEXTS else (lambda value: self._numbers[quantity].get(value, -1))
        return float if is_fraction else math.ceil if facts.rounds_up else int

    # --- the built-in game ----------------------------------------------------------------------------------

    def values(self, game: LiveFight) -> dict[str, Any]:
        """Return the value of each bound attribute."""
        return {
            name: self.encode(quantity, QUANTITIES[quantity].get(game)) for quantity, name in self.attributes.items()
        }

    def apply(self, game: LiveFight, written: Mapping[str, Any]) -> None:
        """Apply values that were written to attributes; quantities that the game recomputes each tick are skipped."""
        for name, stored in written.items():
            quantity = self._quantities.get(name)
            put = QUANTITIES[quantity].put if quantity else None
            if quantity and put is not None:
                put(game, self.decode(quantity, stored))

    def _problems(self) -> Iterator[tuple[str, str]]:
        if self._table.axes not in _AXES:
            yield f"must be the letters x, y and z in some order, not {self._table.axes!r}", "axes"
        seen: dict[str, str] = {}
        for quantity, name in self._table.attributes.items():
            place = join_place("attributes", quantity)
            if quantity not in QUANTITIES:
                yield f"is not a quantity of a fight{did_you_mean(quantity, QUANTITIES)}", place
            elif name not in self._stored:
                yield f"there is no attribute {name!r}{did_you_mean(name, self._stored)}", place
            elif name in seen:
                yield f"attribute {name!r} is already bound to {seen[name]}", place
            elif problem := _misfit(QUANTITIES[quantity], self._stored[name]):
                yield f"attribute {name!r} {problem}", place
            seen[name] = quantity
        for which in ("player", "boss"):
            yield from self._animation_problems(which)

    def _animation_problems(self, which: str) -> Iterator[tuple[str, str]]:
        name = self._table.attributes.get(f"{which}.animation", "")
        numbers: dict[str, int] = getattr(self._table, f"{which}_animations")
        place = f"{which}_animations"
        if name and self._stored[name].type not in _TEXTS and not numbers:
            yield f"is missing: attribute {name!r} holds a number", place
        known: dict[int, str] = {}
        for animation, number in numbers.items():
            if number in known:
                yield f"{number} is already the number of {known[number]!r}", join_place(place, animation)
            known[number] = animation


def _misfit(quantity: Quantity, stored: _Stored) -> str:
    """Return why an attribute cannot hold a quantity, or "" if it can."""
    if quantity.kind == "bytes":
        is_fit = stored.type == "bytes" and stored.length == quantity.length
        return "" if is_fit else f"must be {quantity.length} bytes"
    is_number = stored.type not in (*_TEXTS, *_BITS, "bytes")
    if quantity.kind == "vector":
        return "" if is_number and stored.length == 3 else "must be a vector of 3 numbers"
    if quantity.kind == "animation":
        return "" if stored.type in _TEXTS or (is_number and stored.length == 1) else "must be a text or a number"
    if quantity.kind == "flag":
        return "" if stored.type in _BITS or (is_number and stored.length == 1) else "must be a bool or a flag"
    return "" if is_number and stored.length == 1 else "must be a number"
