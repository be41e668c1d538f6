"""The ``[env]`` table of a profile, which defines an environment; `read_settings` reads and checks it."""

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

#: Kinds of reward terms that use a position: one vector, or two or three attributes.
POSITION_KINDS = ("distance", "farthest", "explore")
#: Length of a tap, and time between two reads of a wait, if the tick rate of the game is not known.
FALLBACK_TICK_S = 0.05
NUMBERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64")


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of the table."""


class Pixels(_Table, frozen=True):
    """Format of the frame in an observation.

    Attributes:
        width_px: Width of the frame.
        height_px: Height of the frame.
        is_grey: Whether the frame has one grey channel instead of RGB.
    """

    width_px: Annotated[int, Meta(ge=1, le=4096)] = 84
    height_px: Annotated[int, Meta(ge=1, le=4096)] = 84
    is_grey: bool = True


class Condition(_Table, frozen=True):
    """Condition on an attribute. All given comparisons must hold; `unreadable` excludes the others.

    Attributes:
        attribute: Name of the attribute.
        at_least: Smallest value that satisfies the condition.
        at_most: Largest value that satisfies the condition.
        equals: The only value that satisfies the condition.
        multiple_of: Whole number of which the value must be a multiple.
        unreadable: Whether the condition is satisfied while the attribute cannot be read, for example because an enemy
            has been removed or the game loads.
    """

    attribute: Name
    at_least: float | None = None
    at_most: float | None = None
    equals: int | float | bool | str | None = None
    multiple_of: Positive | None = None
    unreadable: bool = False

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether the condition is satisfied, given the values of the attributes that could be read."""
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
        comparisons = [f"{word} {_short(value)}" for word, value in words if value is not None]
        if self.multiple_of is not None:
            comparisons.append(f"a multiple of {self.multiple_of}")
        return f"{self.attribute} to be {' and '.join(comparisons)}"


class RewardTerm(_Table, frozen=True):
    """Term of the reward: ``weight`` times a quantity of an attribute in the step.

    Attributes:
        attribute: Name of the attribute; a list of two or three names for a position.
        kind: ``gain`` is the increase of the attribute (0 if it decreased), ``loss`` the decrease, ``change`` the
            signed difference, ``value`` the current value. For a position, ``distance`` is the distance moved,
            ``farthest`` the growth of the largest distance from the start of the episode, and ``explore`` 1 if the
            position entered a new square of side length `cell`.
        weight: Factor; negative for a penalty.
        cell: Side length of a square, in the unit of the attribute.
    """

    attribute: Name | Annotated[tuple[Name, ...], Meta(min_length=1, max_length=3)]
    kind: RewardKind = "change"
    weight: Weight = 1.0
    cell: Annotated[float, Meta(gt=0)] = 1.0

    @property
    def attributes(self) -> Names:
        """Names of the attributes, as a tuple."""
        return (self.attribute,) if isinstance(self.attribute, str) else self.attribute


class ResetStep(_Table, frozen=True):
    """Step of the reset procedure. Exactly one of `tap`, `hold`, `write`, `copy`, `wait` and `restart` is given.

    Attributes:
        tap: Keys (names of the profile's ``[keys]``) to press and release one after another, each for `ticks` or `s`.
        hold: Keys to hold together for `ticks` or `s` of game time; an empty list only waits.
        write: Values of attributes to write, all at once.
        copy: Attributes to write, with the names of the attributes whose values they get: ``{to = "from"}``.
        wait: Condition to wait for; it is checked at each tick.
        restart: Whether to end the game and start it again.
        ticks: Length in ticks of the game, for `tap`, `hold` and (as a deadline) `wait`.
        s: Length in seconds of game time; rounded up to whole ticks if the profile names a tick attribute.
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
        step_ticks: Length of a step in ticks of the game (``clock.tick_hz`` of the profile).
        step_s: Length of a step in seconds of game time; give either `step_ticks` or `step_s`.
        frame_skip: Factor by which a step is longer.
        observation: ``state`` (a value per attribute), ``features`` (one flat vector), ``pixels``, or ``both``
            (the state, with the frame as ``pixels``).
        state: Observed attributes.
        feature_range: Smallest and largest value of an attribute in ``features``, if its plausible range is too wide
            for learning; values outside are clipped.
        pixels: Format of the frame.
        info: Other attributes that are read at each step, for ``info["values"]``.
        action_mode: ``discrete`` (nothing, or one action), ``multi_binary`` (each key independently) or
            ``multi_discrete`` (from each group nothing or one action).
        actions: Keys (names of ``[keys]``) that each action holds, by the name of the action.
        action_groups: Groups of actions that exclude each other, for ``multi_discrete``; by default each action is a
            separate group.
        reward: Terms of the reward, by name.
        end: Conditions that end an episode, by name.
        max_steps: Number of steps after which an episode is truncated; 0 for no limit.
        reset: Steps of the reset procedure, in order; if there are none, each episode restarts the game.
        max_retries: Maximum number of retries of a failed reset, each with a restart of the game.
        reset_deadline_s: Wall time for a reset with all retries.
        random_start_ticks: Maximum number of ticks without a key at the start, drawn with the environment's seed.
        retry_ticks: Number of ticks that a step may wait while values cannot be read because the game loads; a
            condition of `end` with `unreadable` is checked after them.
        stall_s: Maximum wall time of steps in which the tick attribute (``clock.tick_attribute``) does not change.
            After it the step fails, because the game waits for an input that no action provides.
        on_lost_tick: What to do if a step in lockstep makes fewer or more ticks than it should: ``count`` counts them
            in ``info`` and logs the first, ``error`` raises `LostTickError`.
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
    """Return the length of a tick of the game in seconds; `FALLBACK_TICK_S` if it is not known."""
    return 1.0 / profile.clock.tick_hz if profile.clock.tick_hz else FALLBACK_TICK_S


def _short(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def read_settings(profile: Profile, source: str = "", changes: Mapping[str, Any] | None = None) -> EnvSettings:
    """Return the checked ``[env]`` table of a profile; `changes` replace its values. Raises `ProfileError`."""

    def error(problem: str, place: str) -> ConfigError:
        return ProfileError(problem, path=f"env.{place}" if place else "env", source=source)

    if profile.env is None:
        raise error("is missing: the profile has no [env] table, which an environment needs", "")
    settings = check({**profile.env, **(changes or {})}, EnvSettings, error)
    for problem, place in _mistakes(settings, profile):
        raise error(problem, place)
    return settings


def _mistakes(settings: EnvSettings, profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield (problem, place) for each mistake that types and ranges do not detect."""
    if (settings.step_ticks is None) == (settings.step_s is None):
        yield "give the length of a step as either step_ticks or step_s", "step_ticks"
    if settings.step_ticks is not None and not profile.clock.tick_hz:
        yield "needs clock.tick_hz, which the profile lacks; use step_s", "step_ticks"
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
            yield "'pixels' is the name of the frame; rename the attribute", place
        if name in settings.state[:index]:
            yield f"{name!r} is named twice", place
    for index, name in enumerate(settings.info):
        yield from _unknown_attribute(name, f"info[{index}]", profile)
    for name, (low, high) in settings.feature_range.items():
        place = join_place("feature_range", name)
        if name not in settings.state:
            yield f"is not observed{did_you_mean(name, settings.state)}", place
        if not low < high or not math.isfinite(high - low):
            yield f"must be two finite numbers, the first less than the second, not {low} and {high}", place
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
        yield "hold no keys; multi_binary needs at least one key", "actions"


def _reward_mistakes(term: RewardTerm, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    place = join_place(place, "attribute")
    for index, name in enumerate(term.attributes):
        where = place if isinstance(term.attribute, str) else f"{place}[{index}]"
        yield from _unknown_attribute(name, where, profile)
        attribute = profile.attributes[name]
        if not _is_number(attribute):
            yield f"{name!r} is text or bytes; a reward needs numbers", where
        if attribute.length > 1 and (term.kind not in POSITION_KINDS or len(term.attributes) > 1):
            yield f"{name!r} is a vector; kind = {term.kind!r} needs single numbers here", where
    if term.kind not in POSITION_KINDS and len(term.attributes) > 1:
        yield f"kind = {term.kind!r} takes one attribute", place


def _condition_mistakes(condition: Condition, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    yield from _unknown_attribute(condition.attribute, join_place(place, "attribute"), profile)
    attribute = profile.attributes[condition.attribute]
    numeric = (condition.at_least, condition.at_most, condition.multiple_of)
    has_value = condition.equals is not None or any(limit is not None for limit in numeric)
    if condition.unreadable:
        if has_value:
            yield "an unreadable value cannot be compared; give unreadable alone", place
        return
    is_number = _is_number(attribute)
    if attribute.type == "bytes" or (attribute.type in NUMBERS and attribute.length > 1):
        yield f"{condition.attribute!r} is not a single value", join_place(place, "attribute")
    if not is_number and any(limit is not None for limit in numeric):
        yield f"{condition.attribute!r} is text and can only be compared with equals", place
    if condition.equals is not None and is_number == isinstance(condition.equals, str):
        yield f"never holds: {condition.attribute!r} has the type {attribute.type}", join_place(place, "equals")
    if not has_value:
        yield "has no comparison; give at_least, at_most, equals, multiple_of or unreadable", place


def _reset_mistakes(step: ResetStep, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    done = [name for name in ("tap", "hold", "write", "copy", "wait") if getattr(step, name) is not None]
    done += ["restart"] if step.restart else []
    if len(done) != 1:
        yield f"must be one of tap, hold, write, copy, wait and restart, not {' and '.join(done) or 'nothing'}", place
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
    what, has_length = done[0], step.ticks is not None or step.s is not None
    if step.ticks is not None and step.s is not None:
        yield "has both ticks and s; give one of them", place
    if what in ("hold", "wait") and not has_length:
        yield f"needs a length: ticks or s (of {'the keys' if what == 'hold' else 'its deadline'})", place
    if what in ("write", "copy", "restart") and has_length:
        yield f"{what} takes no time; leave out ticks and s", place
    if step.ticks is not None and not profile.clock.tick_hz:
        yield "needs clock.tick_hz, which the profile lacks; use s", f"{place}.ticks"


def _unknown_attribute(name: str, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    if name not in profile.attributes:
        yield f"unknown attribute {name!r}{did_you_mean(name, profile.attributes)}", place


def _unknown_keys(keys: Names, place: str, profile: Profile) -> Iterator[tuple[str, str]]:
    for index, key in enumerate(keys):
        if key not in profile.keys:
            yield f"[keys] has no {key!r}{did_you_mean(key, profile.keys)}", f"{place}[{index}]"


def _is_number(attribute: Attribute) -> bool:
    return attribute.type in (*NUMBERS, "bool", "flag")
