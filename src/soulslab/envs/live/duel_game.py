"""A game with a duel in it, in the words of `soulslab.arena.quantities`: what resets and episodes speak to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from soulslab.arena.binding import Binding
from soulslab.envs.process_start import GameKeeper
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import Session, Step, StepResult


class DuelGame:
    """Reads, writes and plays a game by quantities and buttons.

    Args:
        keeper: Holds the session, and gets the game back when it is gone.
        profile: The game as data.
        source: The profile's file, for errors.

    Attributes:
        keeper: See above.
        profile: See above.
        source: See above.
        binding: Which attribute holds which quantity.
        step_deadline_s: Wall time that the game may take for a step, before it counts as frozen.

    Raises:
        ProfileError: The profile has no ``[duel]`` table, or a wrong one.
    """

    def __init__(self, keeper: GameKeeper, profile: Profile, source: str = "") -> None:
        self.keeper = keeper
        self.profile = profile
        self.source = source
        self.binding = Binding(profile.duel, profile.attributes, source)
        self.step_deadline_s = 10.0

    @property
    def session(self) -> Session:
        """The open session."""
        return self.keeper.session

    def has(self, *quantities: str) -> bool:
        """Tell whether all of these quantities are known of this game."""
        return self.binding.has(*quantities)

    def attributes(self, quantities: Iterable[str]) -> tuple[str, ...]:
        """Return the attributes of quantities."""
        return tuple(self.binding.attributes[quantity] for quantity in quantities)

    def decode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the quantities among attributes that were read."""
        return {
            quantity: self.binding.decode(quantity, values[name])
            for quantity, name in self.binding.attributes.items()
            if name in values
        }

    def read(self, *quantities: str) -> dict[str, Any]:
        """Read quantities together. Raises as `Session.read`."""
        return self.decode(self.session.snapshot(self.attributes(quantities)))

    def write(self, values: Mapping[str, Any]) -> None:
        """Write quantities, all at once. Raises as `Session.write`."""
        bound = self.binding.attributes
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
