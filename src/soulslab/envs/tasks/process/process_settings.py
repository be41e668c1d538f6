"""The ``[env]`` table of a profile: what makes an environment of a game.

`soulslab.envs.tasks.process.process_settings.read_settings` reads and checks it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from soulslab.config.checking import check, join_place
from soulslab.errors import ConfigError, ProfileError, did_you_mean
from soulslab.siphon.profile import Attribute, Profile

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


def read_settings(profile: Profile, source: str = "", changes: Mapping[str, Any] | None = None) -> EnvSettings:
    """Check the ``[env]`` table of a profile.

    Args:
        profile: The game.
        source: Its file, for errors.
        changes: Settings that replace those of the table.

    Raises:
        ProfileError: There is no such table, or something in it is wrong.
    """

    def error(problem: str, place: str) -> ConfigError:
        return ProfileError(problem, path=f"env.{place}" if place else "env", source=source)

    if profile.env is None:
        raise error("is missing: the profile has no [env] table, so no environment can be made of it", "")
    settings = check({**profile.env, **(changes or {})}, EnvSettings, error)
    for problem, place in _mistakes(settings, profile):
        raise error(problem, place)
    return settings


def _mistakes(settings: EnvSettings, profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield (problem, place) of everything that types and ranges alone do not catch."""
    if (settings.step_ticks is None) == (settings.step_s is None):
        yield "give the length of a step, as either step_ticks or step_s", "step_ticks"
    if settings.step_ticks is not None and not profile.clock.tick_hz:
        yield "needs clock.tick_hz, which the profile does not give; use step_s", "step_ticks"
    yield from _state_mistakes(settings, profile)
    yield from _action_mistakes(settings, profile)
    for name, term in settings.reward.items():
        yield from _reward_mistakes(term, join_place("reward", name), profile)
    for name, condition in settings.end.items():
        yield from _condition_mistakes(condition, join_place("end", name), profile)
    for index, step in enumerate(settings.reset):
        yield from _reset_mistakes(step, f"reset[{index}]", profile)


def _state_mistakes(settings: EnvSettings, profile: Profile) -> Iterator[tuple[str, str]]:
    if settings.observation != "pixels" and not settings.state:
        yield f"names no attribute, but observation = {settings.observation!r} needs some", "state"
    for index, name in enumerate(settings.state):
        place = f"state[{index}]"
        yield from _unknown_attribute(name, place, profile)
        if profile.attributes[name].type in ("bytes", "utf8", "utf16"):
            yield f"{name!r} is text or bytes, which cannot be observed; put it into env.info", place
        if name == "pixels":
            yield "'pixels' is the name of the picture; rename the attribute", place
        if name in settings.state[:index]:
            yield f"{name!r} is there twice", place
    for index, name in enumerate(settings.info):
        yield from _unknown_attribute(name, f"info[{index}]", profile)
    for name, (low, high) in settings.feature_range.items():
        place = join_place("feature_range", name)
        if name not in settings.state:
            yield f"is not observed{did_you_mean(name, settings.state)}", place
        if not low < high or not math.isfinite(high - low):
            yield f"has to be two finite numbers, the first less than the second, not {low} and {high}", place
    if settings.observation == "features":
        for index, name in enumerate(settings.state):
            bounds = settings.feature_range.get(name, profile.attributes[name].range)
            if bounds is not None and not math.isfinite(bounds[1] - bounds[0]):
                yield f"the range of {name!r} is not finite; give it in env.feature_range", f"state[{index}]"


def _action_mistakes(settings: EnvSettings, profile: Profile) -> Iterator[tuple[str, str]]:
    for action, keys in settings.actions.items():
        yield from _unknown_keys(keys, join_place("actions", action), profile)
    grouped: list[str] = []
    for index, group in enumerate(settings.action_groups):
        for position, action in enumerate(group):
            place = f"action_groups[{index}][{position}]"
            if action not in settings.actions:
                yield f"unknown action {action!r}{did_you_mean(action, settings.actions)}", place
            if action in grouped:
                yield f"{action!r} is in two groups", place
            grouped.append(action)
        if not group:
            yield "is empty", f"action_groups[{index}]"
    if settings.action_mode == "multi_binary" and not any(settings.actions.values()):
        yield "hold no keys at all, which leaves multi_binary nothing to choose", "actions"


def _reward_mistakes(term: RewardTerm, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    place = join_place(place, "attribute")
    for index, name in enumerate(term.attributes):
        where = place if isinstance(term.attribute, str) else f"{place}[{index}]"
        yield from _unknown_attribute(name, where, profile)
        attribute = profile.attributes[name]
        if attribute.type not in (*NUMBERS, "bool", "flag"):
            yield f"{name!r} is text or bytes; a reward needs numbers", where
        if attribute.length > 1 and (term.kind not in PLACE_KINDS or len(term.attributes) > 1):
            yield f"{name!r} is a vector; kind = {term.kind!r} needs single numbers here", where
    if term.kind not in PLACE_KINDS and len(term.attributes) > 1:
        yield f"kind = {term.kind!r} is of one attribute", place


def _condition_mistakes(condition: Condition, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    yield from _unknown_attribute(condition.attribute, join_place(place, "attribute"), profile)
    attribute = profile.attributes[condition.attribute]
    numeric = (condition.at_least, condition.at_most, condition.multiple_of)
    has_value = condition.equals is not None or any(limit is not None for limit in numeric)
    if condition.unreadable:
        if has_value:
            yield "a value that is unreadable is not compared; give unreadable alone", place
        return
    is_number = _is_number(attribute)
    if attribute.type == "bytes" or (attribute.type in NUMBERS and attribute.length > 1):
        yield f"{condition.attribute!r} is no single value", join_place(place, "attribute")
    if not is_number and any(limit is not None for limit in numeric):
        yield f"{condition.attribute!r} is text and can only be compared with equals", place
    if condition.equals is not None and is_number == isinstance(condition.equals, str):
        yield f"can never be: {condition.attribute!r} is of type {attribute.type}", join_place(place, "equals")
    if not has_value:
        yield "says nothing; give at_least, at_most, equals, multiple_of or unreadable", place


def _reset_mistakes(step: ResetStep, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    done = [name for name in ("tap", "hold", "write", "copy", "wait") if getattr(step, name) is not None]
    done += ["restart"] if step.restart else []
    if len(done) != 1:
        yield f"has to be one of tap, hold, write, copy, wait and restart, not {' and '.join(done) or 'nothing'}", place
    yield from _unknown_keys(step.tap or (), f"{place}.tap", profile)
    yield from _unknown_keys(step.hold or (), f"{place}.hold", profile)
    for name in (*(step.write or {}), *(step.copy or {})):
        where = join_place(f"{place}.{done[0]}", name)
        yield from _unknown_attribute(name, where, profile)
        if not profile.attributes[name].is_writable:
            yield f"{name!r} is not writable in the profile", where
    for name, origin in (step.copy or {}).items():
        yield from _unknown_attribute(origin, join_place(f"{place}.copy", name), profile)
    if step.wait is not None:
        yield from _condition_mistakes(step.wait, f"{place}.wait", profile)
    yield from _length_mistakes(step, place, done[0], profile)


def _length_mistakes(step: ResetStep, place: str, what: str, profile: Profile) -> Iterator[tuple[str, str]]:
    if step.ticks is not None and step.s is not None:
        yield "has both ticks and s; give one", place
    if what in ("hold", "wait") and step.ticks is None and step.s is None:
        yield f"needs a length: ticks or s (of {'the keys' if what == 'hold' else 'its deadline'})", place
    if what in ("write", "copy", "restart") and (step.ticks is not None or step.s is not None):
        yield f"{what} takes no time; leave out ticks and s", place
    if step.ticks is not None and not profile.clock.tick_hz:
        yield "needs clock.tick_hz, which the profile does not give; use s", f"{place}.ticks"


def _unknown_attribute(name: str, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    if name not in profile.attributes:
        yield f"unknown attribute {name!r}{did_you_mean(name, profile.attributes)}", place


def _unknown_keys(keys: Names, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    for index, key in enumerate(keys):
        if key not in profile.keys:
            yield f"[keys] has no {key!r}{did_you_mean(key, profile.keys)}", f"{place}[{index}]"


def _is_number(attribute: Attribute) -> bool:
    return attribute.type in (*NUMBERS, "bool", "flag")
