"""The search space of a study, checked against the settings of the run before training starts."""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from soulslab.config import describe_settings, dump_settings
from soulslab.config.checking import check, join_place
from soulslab.config.writing import toml_value
from soulslab.errors import ConfigError, did_you_mean
from soulslab.learn.tuning.settings import Dimension, Objective

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from soulslab.learn.training import AnySettings

Params = dict[str, Any]
"""Parameters of a candidate as the sampler stores them: numbers, and each choice as TOML text."""

_OWN_NAMES = {
    "run.seed": "cannot be searched: results of a single seed are noise; study.seeds lists the seeds to train",
    "algorithm": "cannot be searched: each algorithm has different settings; make a study for each",
}


class SearchSpace:
    """Search space of a study, for these names of settings; converts parameters of candidates to settings."""

    def __init__(self, search: Mapping[str, Dimension], settings: AnySettings, objective: Objective) -> None:
        """Check a search space against the settings that the candidates are based on.

        Raises ConfigError if the search space is empty, a name is unknown, or a value is of the wrong type or out of
        range; ``error.path`` names the setting.
        """
        if not search:
            raise ConfigError(
                "the search space is empty; add --search, for example learner.lr=1e-4..1e-2:log", path="search"
            )
        self.names = tuple(search)
        self._type = type(settings)
        self._base: dict[str, Any] = tomllib.loads(dump_settings(settings))
        self._search: dict[str, Dimension] = {}
        for name, dimension in search.items():
            _check_own(name, objective)
            kind = _kind(name, inspect.type_info(self._type), self._type)
            self._search[name] = _checked(name, dimension, kind)
            for key, value in _ends(self._search[name]):
                self._fill({name: value}, f"{_place(name)}.{key}")

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return the search space as distributions of Optuna."""
        # Imported here because it takes half a second and comes with an extra.
        from optuna.distributions import (  # noqa: PLC0415
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        found: dict[str, BaseDistribution] = {}
        for name, dimension in self._search.items():
            low, high, step = dimension.low, dimension.high, dimension.step
            if dimension.choices is not None:
                found[name] = CategoricalDistribution([toml_value(choice) for choice in dimension.choices])
            elif isinstance(low, int) and isinstance(high, int):
                found[name] = IntDistribution(low, high, log=dimension.log, step=int(step or 1))
            elif low is not None and high is not None:
                found[name] = FloatDistribution(low, high, log=dimension.log, step=step)
        return found

    def settings(self, params: Params, seed: int | None = None) -> AnySettings:
        """Return the complete settings of a candidate, with another seed if given; raises ConfigError."""
        values = {
            name: tomllib.loads(f"value = {value}")["value"] if self._search[name].choices is not None else value
            for name, value in params.items()
        }
        return self._fill({**values, "run.seed": seed} if seed is not None else values)

    def base(self) -> Params | None:
        """Return the base settings as a candidate; None if they are outside of the search space."""
        params: Params = {}
        for name, dimension in self._search.items():
            value = self._base_value(name)
            if dimension.choices is not None:
                value = toml_value(value) if value is not None else None
                is_inside = value in [toml_value(choice) for choice in dimension.choices]
            else:
                is_inside = _is_number(value) and _is_inside(value, dimension)
            if not is_inside:
                return None
            params[name] = value
        return params

    def _base_value(self, name: str) -> Any:
        value: Any = self._base
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def _fill(self, values: Mapping[str, Any], place: str = "") -> AnySettings:
        """Set values in the base settings and validate the result; errors name ``place``, if given."""
        data = copy.deepcopy(self._base)
        for name, value in values.items():
            *tables, last = name.split(".")
            table = data
            for key in tables:
                table = table.setdefault(key, {})
                if not isinstance(table, dict):
                    raise ConfigError(f"{key} is a value and has no sub-settings", path=place or name)
            table[last] = value

        def error(problem: str, where: str) -> ConfigError:
            return ConfigError(problem, path=place or where)

        return check(data, self._type, error)


def _check_own(name: str, objective: Objective) -> None:
    """Raise ``ConfigError`` for settings that the study itself sets."""
    if name in _OWN_NAMES:
        raise ConfigError(_OWN_NAMES[name], path=_place(name))
    if name == "run.total_steps" and objective.startswith("decisions_to"):
        raise ConfigError(
            f"cannot be searched with the objective {objective}, which is measured in decisions", path=_place(name)
        )


def _kind(name: str, described: inspect.Type, settings_type: type[msgspec.Struct]) -> inspect.Type:
    known = [row.path for row in describe_settings(settings_type)]
    for key in name.split("."):
        options = [_plain(option) for option in _options(described)]
        struct = next((option for option in options if isinstance(option, inspect.StructType)), None)
        table = next((option for option in options if isinstance(option, inspect.DictType)), None)
        field = next((each for each in struct.fields if each.encode_name == key), None) if struct else None
        if field is not None:
            described = field.type
        elif table is not None:
            described = table.value_type
        elif not any(isinstance(option, inspect.AnyType) for option in options):
            raise ConfigError(f"unknown setting{did_you_mean(name, known)}", path=_place(name))
    if isinstance(_plain(described), inspect.StructType | inspect.DictType):
        raise ConfigError("is a table; search one of its settings", path=_place(name))
    return described


def _options(described: inspect.Type) -> tuple[inspect.Type, ...]:
    described = _plain(described)
    return described.types if isinstance(described, inspect.UnionType) else (described,)


def _plain(described: inspect.Type) -> inspect.Type:
    while isinstance(described, inspect.Metadata):
        described = described.type
    return described


def _checked(name: str, dimension: Dimension, described: inspect.Type) -> Dimension:
    """Return a dimension, converted to the type of its setting, after checking that its fields are consistent."""
    place = _place(name)
    if dimension.choices is not None:
        if dimension.low is not None or dimension.high is not None or dimension.step is not None or dimension.log:
            raise ConfigError("has choices; remove low, high, log and step", path=place)
        labels = [toml_value(choice, place) for choice in dimension.choices]
        if len(set(labels)) < max(2, len(labels)):
            raise ConfigError("needs at least two different choices, each once", path=f"{place}.choices")
        return dimension
    low, high, step = dimension.low, dimension.high, dimension.step
    if low is None or high is None:
        raise ConfigError("needs low and high, or choices", path=place)
    numbers = [number for number in (low, high, step) if number is not None]
    kinds = {type(_plain(option)) for option in _options(described)} - {inspect.NoneType}
    if not kinds & {inspect.IntType, inspect.FloatType, inspect.AnyType}:
        raise ConfigError("is not a number; give its values as choices", path=place)
    if kinds == {inspect.IntType} or (inspect.AnyType in kinds and all(isinstance(n, int) for n in numbers)):
        if not all(float(number).is_integer() for number in numbers):
            raise ConfigError("is a whole number, so low, high and step must be whole numbers", path=place)
        dimension = Dimension(
            low=int(low), high=int(high), step=int(step) if step is not None else None, log=dimension.log
        )
    else:
        step = float(step) if step is not None else None
        dimension = Dimension(low=float(low), high=float(high), step=step, log=dimension.log)
    _check_range(dimension, place)
    return dimension


def _check_range(dimension: Dimension, place: str) -> None:
    low, high, step = dimension.low or 0.0, dimension.high or 0.0, dimension.step
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"low ({low:g}) must be less than high ({high:g}), and both finite", path=place)
    if dimension.log and low <= 0:
        raise ConfigError(f"low is {low:g}, but log needs low > 0; raise low, or remove log", path=f"{place}.low")
    if step is None:
        return
    if dimension.log:
        raise ConfigError("has both log and step; remove one", path=place)
    if not 0 < step <= high - low:
        raise ConfigError(f"must be greater than 0 and at most high - low ({high - low:g})", path=f"{place}.step")
    n_steps = round((high - low) / step)
    if not math.isclose(low + n_steps * step, high, rel_tol=1e-9, abs_tol=1e-12):
        nearest = low + math.floor((high - low) / step) * step
        raise ConfigError(f"is not low plus a multiple of step ({step:g}); use {nearest:g}", path=f"{place}.high")


def _ends(dimension: Dimension) -> list[tuple[str, Any]]:
    """Return the values, with their keys, that must be within the bounds of the setting; for a range its two ends."""
    if dimension.choices is not None:
        return [(f"choices[{i}]", choice) for i, choice in enumerate(dimension.choices)]
    return [("low", dimension.low), ("high", dimension.high)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_inside(value: float, dimension: Dimension) -> bool:
    low, high, step = dimension.low or 0.0, dimension.high or 0.0, dimension.step
    if not low <= value <= high or (isinstance(dimension.low, int) and not float(value).is_integer()):
        return False
    return step is None or math.isclose((value - low) / step, round((value - low) / step), abs_tol=1e-9)


def _place(name: str) -> str:
    return join_place("search", name)
