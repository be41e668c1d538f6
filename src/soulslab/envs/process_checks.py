"""Reading and checking the ``[env]`` table of a profile.

::

    settings = read_settings(load_profile(path))
    settings.reward["kills"].weight

Every mistake is a `ProfileError` that names its place, such as ``env.reward.kills.attribute``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from soulslab.config.checking import check, join_place
from soulslab.envs.process_settings import (
    NUMBERS,
    PLACE_KINDS,
    Condition,
    EnvSettings,
    Names,
    ResetStep,
    RewardTerm,
)
from soulslab.errors import ConfigError, ProfileError, did_you_mean
from soulslab.siphon.profile import Attribute, Profile


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
