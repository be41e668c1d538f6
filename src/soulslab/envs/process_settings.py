"""The ``[env]`` table of a profile: what makes an environment of a game.

`soulslab.envs.process_checks.read_settings` reads and checks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from soulslab.siphon.profile import Profile

Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=3600)]
Weight: TypeAlias = Annotated[float, Meta(ge=-1e9, le=1e9)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Names: TypeAlias = tuple[Name, ...]
Observation: TypeAlias = Literal["state", "features", "pixels", "both"]
ActionMode: TypeAlias = Literal["discrete", "multi_binary", "multi_discrete"]
RewardKind: TypeAlias = Literal["gain", "loss", "change", "value", "distance", "farthest", "explore"]
OnLostTick: TypeAlias = Literal["count", "error"]
OnFailure: TypeAlias = Literal["raise", "truncate"]

#: Kinds of reward that look at a position: one vector, or two or three attributes.
PLACE_KINDS = ("distance", "farthest", "explore")
#: Length of a tap, and of a look during a wait, where the game's simulation has no known step.
FALLBACK_TICK_S = 0.05
NUMBERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64")


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of everything in the table."""


class Pixels(_Table, frozen=True):
    """The picture in an observation.

    Attributes:
        width_px: Its width.
        height_px: Its height.
        is_grey: One channel instead of RGB.
    """

    width_px: Annotated[int, Meta(ge=1, le=4096)] = 84
    height_px: Annotated[int, Meta(ge=1, le=4096)] = 84
    is_grey: bool = True


class Condition(_Table, frozen=True):
    """What an attribute has to be; all that is given has to hold, or `unreadable` alone.

    Attributes:
        attribute: Its name.
        at_least: It is this or more.
        at_most: It is this or less.
        equals: It is this.
        multiple_of: It is a multiple of this whole number.
        unreadable: It cannot be read, as that of an enemy that is gone or of a game that loads.
    """

    attribute: Name
    at_least: float | None = None
    at_most: float | None = None
    equals: int | float | bool | str | None = None
    multiple_of: Positive | None = None
    unreadable: bool = False

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether it is fulfilled by values that were read; a value that cannot be read is missing."""
        if self.unreadable or self.attribute not in values:
            return self.unreadable and self.attribute not in values
        value = values[self.attribute]
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.equals is None or value == self.equals)
            and (self.multiple_of is None or value % self.multiple_of == 0)
        )

    def __str__(self) -> str:
        if self.unreadable:
            return f"{self.attribute} to be unreadable"
        words = (("at least", self.at_least), ("at most", self.at_most), ("equal to", self.equals))
        said = [f"{word} {_short(value)}" for word, value in words if value is not None]
        if self.multiple_of is not None:
            said.append(f"a multiple of {self.multiple_of}")
        return f"{self.attribute} to be {' and '.join(said)}"


class RewardTerm(_Table, frozen=True):
    """A part of the reward: ``weight`` times what happened to an attribute in the step.

    Attributes:
        attribute: Its name; a list of two or three for a position.
        kind: ``gain`` and ``loss`` count what it rose or fell, ``change`` both (a fall is negative), ``value`` is what
            it is. Of a position, ``distance`` is the length of the way, ``farthest`` by how much the greatest distance
            from the start of the episode grew, ``explore`` 1 for each square of `cell` that is entered first.
        weight: Factor; negative for what is to be avoided.
        cell: Length of a square's side, in the attribute's unit.
    """

    attribute: Name | Annotated[tuple[Name, ...], Meta(min_length=1, max_length=3)]
    kind: RewardKind = "change"
    weight: Weight = 1.0
    cell: Annotated[float, Meta(gt=0)] = 1.0

    @property
    def attributes(self) -> Names:
        """The names, also where it is only one."""
        return (self.attribute,) if isinstance(self.attribute, str) else self.attribute


class ResetStep(_Table, frozen=True):
    """One thing to do at the start of an episode: exactly one of the fields that do something.

    Attributes:
        tap: Keys (names of the profile's ``[keys]``) to press and release one after another, each for `ticks` or `s`.
        hold: Keys to hold together for `ticks` or `s` of game time; an empty list only waits.
        write: Values to write to attributes, all at once.
        copy: Attributes to write, each with what another one is: ``{to = "from"}``.
        wait: What to wait for, looking at each tick.
        restart: End the game and start it again.
        ticks: Length in steps of the game's simulation, for `tap`, `hold` and (as a deadline) `wait`.
        s: The same in seconds of game time; whole ticks, rounded up, where the profile names a tick attribute.
    """

    tap: Names | None = None
    hold: Names | None = None
    write: dict[str, Any] | None = None
    copy: dict[str, Name] | None = None
    wait: Condition | None = None
    restart: bool = False
    ticks: Positive | None = None
    s: Seconds | None = None


class EnvSettings(_Table, frozen=True, kw_only=True):
    """The ``[env]`` table.

    Attributes:
        step_ticks: Length of a step, in steps of the game's simulation (the profile's ``clock.tick_hz``).
        step_s: The same in seconds of game time; give one of the two.
        frame_skip: A step is so many times as long.
        observation: ``state`` (a value per attribute), ``features`` (one flat vector), ``pixels``, or ``both``
            (the state with the picture as ``pixels``).
        state: Attributes that are observed.
        feature_range: Least and greatest value of an attribute in ``features``, where its plausible range is too wide
            to learn from; what is outside is cut off.
        pixels: The picture.
        info: Further attributes that are read at each step, for ``info["values"]``.
        action_mode: ``discrete`` (nothing, or one action), ``multi_binary`` (each key on its own) or
            ``multi_discrete`` (from each group nothing or one action).
        actions: From the name of an action to the keys (names of ``[keys]``) that it holds.
        action_groups: Actions that exclude each other, for ``multi_discrete``; without, each is a group of its own.
        reward: Terms of the reward, by name.
        end: What ends an episode, by name.
        max_steps: Steps after which an episode is cut short; 0 for never.
        reset: What to do, in this order, at the start of an episode; nothing restarts the game each time.
        max_retries: How often a start that failed is tried again, with a restart of the game each time.
        reset_deadline_s: Wall time for a start, with all retries.
        random_start_ticks: At most so many ticks without any key at the start, drawn by the environment's seed.
        retry_ticks: Game time that a step may wait while values cannot be read because the game is loading; an end
            that asks for an `unreadable` value holds after it.
        stall_s: Wall time that steps may take in sum while the count of ticks (``clock.tick_attribute``) stands; then
            the game waits for something that no action gives it, and the step fails.
        on_lost_tick: What happens when a step in lockstep makes fewer or more ticks than it should: ``count`` counts
            them in ``info`` and logs the first one, ``error`` raises `LostTickError`.
    """

    step_ticks: Positive | None = None
    step_s: Seconds | None = None
    frame_skip: Annotated[int, Meta(ge=1, le=1000)] = 1
    observation: Observation = "state"
    state: Names = ()
    feature_range: dict[str, tuple[float, float]] = {}
    pixels: Pixels = Pixels()
    info: Names = ()
    action_mode: ActionMode = "discrete"
    actions: Annotated[dict[str, Names], Meta(min_length=1)]
    action_groups: tuple[Names, ...] = ()
    reward: dict[str, RewardTerm] = {}
    end: dict[str, Condition] = {}
    max_steps: Count = 0
    reset: tuple[ResetStep, ...] = ()
    max_retries: Annotated[int, Meta(ge=0, le=100)] = 2
    reset_deadline_s: Seconds = 120.0
    random_start_ticks: Count = 0
    retry_ticks: Count = 0
    stall_s: Seconds = 30.0
    on_lost_tick: OnLostTick = "count"


def tick_s(profile: Profile) -> float:
    """Return the length of a step of the game's simulation; where it is not known, of a short look."""
    return 1.0 / profile.clock.tick_hz if profile.clock.tick_hz else FALLBACK_TICK_S


def _short(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)
