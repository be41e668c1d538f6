"""A game with a duel in it, in the words of `soulslab.arena.quantities`: what resets and episodes speak to."""

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

#: How the names of positions end, and the one that tells the frame of the block.
BLOCK_POSITION = "player.block_position"
POSITIONS = "position"


class DuelGame:
    """Reads, writes and plays a game by quantities and buttons.

    Args:
        holder: Holds the session, and gets the game back when it is gone.
        profile: The game as data.
        source: The profile's file, for errors.
        frame: The frame that positions are told in: ``player.position``, as the game has them, or
            ``player.block_position``, that of the block of the map that the player is in. The game's own may begin
            anywhere after a load, so what is to be compared with numbers of a file is told in that of the block.

    Attributes:
        holder: See above.
        profile: See above.
        source: See above.
        binding: Which attribute holds which quantity.
        step_deadline_s: Wall time that the game may take for a step, before it counts as frozen.
        looked_at: Quantities that are read with each step.

    Raises:
        ProfileError: The profile has no ``[duel]`` table, or a wrong one, or does not tell the frame.
    """

    def __init__(self, holder: SessionHolder, profile: Profile, source: str = "", frame: str = POSITION) -> None:
        self.holder = holder
        self.profile = profile
        self.source = source
        self.binding = Binding(profile.duel, profile.attributes, source)
        self.step_deadline_s = 10.0
        self.looked_at: tuple[str, ...] = ()
        self._is_shifted = frame != POSITION
        if self._is_shifted and not self.has(frame):
            raise ProfileError(
                f"quantity {frame!r} is missing; the positions of this boss are in its frame",
                path="duel.attributes",
                source=source,
            )
        #: Where the frame begins, as the game has it; what is added to a position to write it.
        self._origin: NDArray[np.float64] | None = None

    @property
    def session(self) -> Session:
        """The open session."""
        return self.holder.session

    def has(self, *quantities: str) -> bool:
        """Tell whether all of these quantities are known of this game."""
        return self.binding.has(*quantities)

    def vitals(self, scenario: Scenario) -> Vitals:
        """Return the player's full health and stamina: the scenario's, or the character's. Raises as `Session.read`."""
        hp, sp = scenario.player_max_hp, scenario.player_max_sp
        if hp is None or sp is None:
            seen = self.read("player.max_hp", "player.max_sp")
            hp = round(seen["player.max_hp"]) if hp is None else hp
            sp = round(seen["player.max_sp"]) if sp is None else sp
        return Vitals(hp, sp)

    @property
    def frame_quantities(self) -> tuple[str, ...]:
        """What has to be read with any position, to tell it in the frame."""
        return (POSITION, BLOCK_POSITION) if self._is_shifted else ()

    def attributes(self, quantities: Iterable[str]) -> tuple[str, ...]:
        """Return the attributes of quantities, and of what their frame is known by."""
        wanted = tuple(quantities)
        if self._is_shifted and any(name.endswith(POSITIONS) for name in wanted):
            wanted = tuple(dict.fromkeys((*wanted, *self.frame_quantities)))
        return tuple(self.binding.attributes[quantity] for quantity in wanted)

    def decode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the quantities among attributes that were read."""
        read = {
            quantity: self.binding.decode(quantity, values[name])
            for quantity, name in self.binding.attributes.items()
            if name in values
        }
        return self.in_frame(read)

    def in_frame(self, read: dict[str, Any]) -> dict[str, Any]:
        """Return quantities that were read together with their positions in the frame; changed in place."""
        if not self._is_shifted or BLOCK_POSITION not in read:
            return read
        self._origin = np.asarray(read[POSITION]) - read[BLOCK_POSITION]
        for name, value in read.items():
            if name.endswith(POSITIONS) and name != BLOCK_POSITION:
                read[name] = value - self._origin
        return read

    def read(self, *quantities: str) -> dict[str, Any]:
        """Read quantities together. Raises as `Session.read`."""
        return self.decode(self.session.snapshot(self.attributes(quantities)))

    def write(self, values: Mapping[str, Any]) -> None:
        """Write quantities, all at once. Raises as `Session.write`."""
        bound = self.binding.attributes
        if self._is_shifted and any(name.endswith(POSITIONS) for name in values):
            if self._origin is None:
                self.read(POSITION)
            values = {
                name: value + self._origin if name.endswith(POSITIONS) else value for name, value in values.items()
            }
        self.session.write({bound[name]: self.binding.encode(name, value) for name, value in values.items()})

    def keys(self, buttons: Iterable[str]) -> tuple[str, ...]:
        """Return the keys of buttons (the profile's ``[keys]``)."""
        return tuple(self.profile.keys[button] for button in buttons)

    def play(self, seconds: float, buttons: Iterable[str] = (), quantities: Iterable[str] = ()) -> StepResult:
        """Hold buttons for so much game time, pressed anew, and read quantities then."""
        held = self.keys(buttons)
        step = Step(
            held=held,
            again=held,
            advance_s=seconds,
            attributes=self.attributes(quantities),
            deadline_s=self.step_deadline_s,
        )
        return self.session.step(step)
