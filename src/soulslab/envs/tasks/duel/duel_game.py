"""Access to a game by quantity (`soulslab.arena.quantities`) and button, for resets and episodes of a duel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.binding import Binding
from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.tasks.duel.duel_scenario import POSITION, Scenario, Vitals
from soulslab.errors import ProfileError
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import Session, Step, StepResult

#: The player's position in the coordinate system of a block of the map.
BLOCK_POSITION = "player.block_position"
#: Ending of the names of positions.
POSITION_SUFFIX = "position"


class DuelGame:
    """Reads and writes a game by quantity, and steps it by button.

    The coordinate system of a game can have another origin after each load. Positions that are compared with numbers of
    a file therefore use the coordinate system of the block of the map in which the player is. `frame` names the
    coordinate system by the quantity that gives the player's position in it: ``player.position`` (that of the game) or
    ``player.block_position`` (that of the block of the map).

    Attributes:
        binding: Attribute of each quantity.
        step_deadline_s: Limit of wall time for a step; after it the game counts as frozen.
        step_quantities: Quantities that are read with each step.

    Raises:
        ProfileError: The ``[duel]`` table of the profile is missing or wrong, or lacks the quantity `frame`.
    """

    def __init__(self, holder: SessionHolder, profile: Profile, source: str = "", frame: str = POSITION) -> None:
        self.holder = holder
        self.profile = profile
        self.source = source
        self.binding = Binding(profile.duel, profile.attributes, source)
        self.step_deadline_s = 10.0
        self.step_quantities: tuple[str, ...] = ()
        self._is_shifted = frame != POSITION
        if self._is_shifted and not self.has(frame):
            raise ProfileError(
                f"quantity {frame!r} is missing; the positions of this boss are in its coordinate system",
                path="duel.attributes",
                source=source,
            )
        #: Origin of the coordinate system in that of the game; it is added to each position that is written.
        self._origin: NDArray[np.float64] | None = None

    @property
    def session(self) -> Session:
        """The open session."""
        return self.holder.session

    def has(self, *quantities: str) -> bool:
        """Return whether the profile has all of these quantities."""
        return self.binding.has(*quantities)

    def is_writable(self, quantity: str) -> bool:
        """Return whether the profile has a quantity and allows writing it."""
        return self.has(quantity) and self.profile.attributes[self.binding.attributes[quantity]].is_writable

    def vitals(self, scenario: Scenario) -> Vitals:
        """Return the full health and stamina of the player, from the scenario or else from the game."""
        hp, sp = scenario.player_max_hp, scenario.player_max_sp
        if not (hp and sp):
            values = self.read("player.max_hp", "player.max_sp")
            hp = hp or round(values["player.max_hp"])
            sp = sp or round(values["player.max_sp"])
        return Vitals(hp, sp)

    @property
    def origin_quantities(self) -> tuple[str, ...]:
        """Quantities that are read with each position, from which the origin of the coordinate system is computed."""
        return (POSITION, BLOCK_POSITION) if self._is_shifted else ()

    def attributes(self, quantities: Iterable[str]) -> tuple[str, ...]:
        """Return the attributes of quantities, and those of `origin_quantities` if there is a position among them."""
        wanted = tuple(quantities)
        if self._is_shifted and any(name.endswith(POSITION_SUFFIX) for name in wanted):
            wanted = tuple(dict.fromkeys((*wanted, *self.origin_quantities)))
        return tuple(self.binding.attributes[quantity] for quantity in wanted)

    def decode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the quantities among attributes that were read together, given the values of these attributes."""
        read = {
            quantity: self.binding.decode(quantity, values[name])
            for quantity, name in self.binding.attributes.items()
            if name in values
        }
        return self.convert_positions(read)

    def convert_positions(self, read: dict[str, Any]) -> dict[str, Any]:
        """Convert positions that were read together to the coordinate system; return the same dict."""
        if not self._is_shifted or BLOCK_POSITION not in read:
            return read
        self._origin = np.asarray(read[POSITION]) - read[BLOCK_POSITION]
        for name, value in read.items():
            if name.endswith(POSITION_SUFFIX) and name != BLOCK_POSITION:
                read[name] = value - self._origin
        return read

    def read(self, *quantities: str) -> dict[str, Any]:
        """Return quantities that are read together. Raises as `Session.read`."""
        return self.decode(self.session.snapshot(self.attributes(quantities)))

    def write(self, values: Mapping[str, Any]) -> None:
        """Write quantities together. Raises as `Session.write`."""
        bound = self.binding.attributes
        if self._is_shifted and any(name.endswith(POSITION_SUFFIX) for name in values):
            if self._origin is None:
                self.read(POSITION)
            values = {
                name: value + self._origin if name.endswith(POSITION_SUFFIX) else value
                for name, value in values.items()
            }
        self.session.write({bound[name]: self.binding.encode(name, value) for name, value in values.items()})

    def keys(self, buttons: Iterable[str]) -> tuple[str, ...]:
        """Return the keys of buttons (``[keys]`` of the profile)."""
        return tuple(self.profile.keys[button] for button in buttons)

    def step(self, seconds: float, buttons: Iterable[str] = (), quantities: Iterable[str] = ()) -> StepResult:
        """Press buttons anew, release all others, advance the game with them held, and read quantities at the end.

        Raises as `Session.step`.
        """
        held = self.keys(buttons)
        step = Step(
            held=held,
            again=held,
            advance_s=seconds,
            attributes=self.attributes(quantities),
            deadline_s=self.step_deadline_s,
        )
        return self.session.step(step)
