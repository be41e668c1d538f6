"""The definition of a study: objective, budget and search space.

::

    [study]
    objective = "decisions_to_80"
    n_trials = 40

    [search]
    "learner.lr" = { low = 1e-4, high = 1e-2, log = true }
    "learner.n_steps" = { low = 1, high = 10 }
    "network.widths" = { choices = [[128, 128], [256, 256]] }
"""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, inspect

from soulslab.config import describe_settings, dump_settings
from soulslab.config.checking import check, join_place
from soulslab.config.loading import read_toml
from soulslab.config.writing import toml_value
from soulslab.errors import ConfigError, UntrustedFileError, did_you_mean
from soulslab.learn.path_settings import absolute_paths
from soulslab.learn.settings import Positive, Share
from soulslab.learn.training import AnySettings
from soulslab.learn.untrusted import check_named_environment, check_stored_settings

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Objective = Literal["win_rate", "decisions_to_50", "decisions_to_80", "return"]
Pruner = Literal["median", "halving", "none"]
Seed = Annotated[int, Meta(ge=0, lt=2**32)]


class StudySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Objective and budget of a study.

    Attributes:
        objective: The highest ``win_rate`` or ``return``, or the fewest game decisions until 50 % or 80 % of the fights
            are won (``decisions_to_50``, ``decisions_to_80``).
        n_trials: Number of candidates, including candidates that are pruned or fail.
        seeds: Seeds of the runs of each candidate; its value is the mean over them.
        window: Number of last measurements over which ``win_rate`` and ``return`` are averaged.
        startup_trials: Number of candidates drawn at random before the sampler uses its model, and before the median
            pruner prunes.
        sampler_seed: Seed of the sampler.
        pruner: Which runs end early: runs that are worse than the ``median`` of the others at the same point, all but
            the best third at points with growing distances (``halving``), or ``none``.
        warmup: Share of a run before which it is not pruned, 0..1.
        max_failures: The study stops when this many candidates in a row fail.
    """

    objective: Objective = "win_rate"
    n_trials: Positive = 40
    seeds: Annotated[tuple[Seed, ...], Meta(min_length=1)] = (0,)
    window: Positive = 5
    startup_trials: Positive = 8
    sampler_seed: Seed = 0
    pruner: Pruner = "median"
    warmup: Share = 0.4
    max_failures: Positive = 3


class Dimension(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The values that one setting may have: a range, or a list of choices.

    Attributes:
        low: Lower end of the range, included.
        high: Upper end of the range, included.
        log: Whether to draw the logarithm uniformly, for ranges over powers of ten.
        step: Distance between the values, starting with ``low``; unset allows all values.
        choices: List of values instead of a range, of any type that the setting has.
    """

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    step: int | float | None = None
    choices: list[Any] | None = None


class TuneSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Definition of a study; the settings that the candidates are based on are not included.

    Attributes:
        study: Objective and budget.
        search: The values of each searched setting, by its name (``learner.lr``).
    """

    study: StudySettings = StudySettings()
    search: dict[str, Dimension] = {}

    def with_absolute_paths(self) -> TuneSettings:
        """Return the definition with absolute paths; relative paths belong to the working directory."""
        search = {
            name: msgspec.structs.replace(each, choices=[absolute_paths(name, choice) for choice in each.choices])
            for name, each in self.search.items()
            if each.choices is not None
        }
        return msgspec.structs.replace(self, search=self.search | search)


def load_tune_settings(
    path: Path | None, searches: Sequence[str] = (), study: Mapping[str, Any] | None = None
) -> TuneSettings:
    """Read the definition of a study from a TOML file, if any, and the command line, which has precedence.

    ``searches`` are of the form ``name=LOW..HIGH``, ``name=LOW..HIGH:log``, ``name=LOW..HIGH:step=N`` or
    ``name=[A, B, C]``; ``study`` has entries of the table ``study``. Raises ConfigError if the file cannot be read or
    is malformed, or an entry is unknown, missing or of the wrong type. The search space is not yet checked against the
    settings of a run (`SearchSpace`).
    """
    file_name = str(path) if path is not None else ""
    data = read_toml(path) if path is not None else {}
    if isinstance(data.get("search"), dict):
        data["search"] = _flatten(data["search"], "", file_name)
    sources: dict[str, str] = {}
    for text in searches:
        source = f"--search {text}"
        name, dimension = parse_search(text, source)
        data.setdefault("search", {})[name] = dimension
        sources[join_place("search", name)] = source
    data.setdefault("study", {}).update(study or {})

    def error(problem: str, place: str) -> ConfigError:
        origin = next((source for name, source in sources.items() if place.startswith(name)), file_name)
        return ConfigError(problem, path=place, source=origin)

    return check(data, TuneSettings, error)


def check_stored_study(settings: AnySettings, tuning: TuneSettings, folder: Path) -> None:
    """Raise UntrustedFileError if the files of a resumed study name a module, or an option that runs code."""
    check_stored_settings(settings, folder)
    for name, dimension in tuning.search.items():
        for value in (*(dimension.choices or ()), dimension.low, dimension.high):
            if name == "env.id":
                check_named_environment(str(value), {}, folder)
            elif name.startswith("env.options."):
                check_named_environment("", {name.split(".")[2]: value}, folder)
            elif name in ("env", "env.options"):
                raise UntrustedFileError(name, value, folder)


def parse_search(text: str, source: str) -> tuple[str, dict[str, Any]]:
    """Parse the value of one ``--search`` option into a name and a table; raises ConfigError."""
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not name or not values:
        raise ConfigError(f"is not of the form {_FORMS}", source=source)
    if values.startswith("["):
        try:
            parsed = tomllib.loads(f"choices = {values}")
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"is not a list ({error}); text needs quotes", path=name, source=source) from error
        if parsed.keys() != {"choices"}:
            raise ConfigError("has more than one line; give each setting its own --search", path=name, source=source)
        return name, parsed
    low, dots, rest = values.partition("..")
    high, *marks = rest.split(":")
    if not dots:
        raise ConfigError(f"is neither a range nor a list of choices; write {_FORMS}", path=name, source=source)
    table: dict[str, Any] = {"low": _number(low, name, source), "high": _number(high, name, source)}
    for mark in marks:
        key, _, step = mark.strip().partition("=")
        if mark.strip() == "log":
            table["log"] = True
        elif key == "step":
            table["step"] = _number(step, name, source)
        else:
            raise ConfigError(f"{mark!r} is neither log nor step=N", path=name, source=source)
    return name, table


_FORMS = "name=LOW..HIGH, name=LOW..HIGH:log, name=LOW..HIGH:step=N or name=[A, B, C]"
_KEYS = frozenset(Dimension.__struct_fields__)


def _flatten(table: dict[str, Any], prefix: str, source: str) -> dict[str, Any]:
    """Return the dimensions by their full names; ``[search.learner.lr]`` is read as ``[search."learner.lr"]``."""
    flat: dict[str, Any] = {}
    for key, item in table.items():
        name = f"{prefix}.{key}" if prefix else key
        if not isinstance(item, dict):
            raise ConfigError(
                f"unknown setting{did_you_mean(key, _KEYS)}"
                if prefix
                else "needs a table with low and high, or choices",
                path=f"search.{name}",
                source=source,
            )
        flat |= {name: item} if not item or _KEYS & item.keys() else _flatten(item, name, source)
    return flat


def _number(text: str, name: str, source: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text.strip())
        except ValueError:
            continue
    raise ConfigError(f"{text.strip()!r} is not a number", path=name, source=source)


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
        self._type = type(settings)
        self._base: dict[str, Any] = tomllib.loads(dump_settings(settings))
        self._search: dict[str, Dimension] = {}
        for name, dimension in search.items():
            place = join_place("search", name)
            if name in _OWN_NAMES:
                raise ConfigError(_OWN_NAMES[name], path=place)
            if name == "run.total_steps" and objective.startswith("decisions_to"):
                problem = f"cannot be searched with the objective {objective}, which is measured in decisions"
                raise ConfigError(problem, path=place)
            self._search[name] = checked = _checked(dimension, _types_of(name, self._type), place)
            ends = {"low": checked.low, "high": checked.high}
            if checked.choices is not None:
                ends = {f"choices[{i}]": choice for i, choice in enumerate(checked.choices)}
            for key, value in ends.items():
                self._fill({name: value}, f"{place}.{key}")

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return the search space as distributions of Optuna."""
        # Imported here because it takes half a second and comes with an extra.
        from optuna import distributions as optuna  # noqa: PLC0415

        found: dict[str, BaseDistribution] = {}
        for name, dimension in self._search.items():
            low, high, step = dimension.low, dimension.high, dimension.step
            if dimension.choices is not None:
                found[name] = optuna.CategoricalDistribution([toml_value(choice) for choice in dimension.choices])
            elif isinstance(low, int) and isinstance(high, int):
                found[name] = optuna.IntDistribution(low, high, log=dimension.log, step=int(step or 1))
            elif low is not None and high is not None:
                found[name] = optuna.FloatDistribution(low, high, log=dimension.log, step=step)
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
            value: Any = self._base
            for key in name.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            if dimension.choices is not None and value is not None:
                value = toml_value(value)
            if not _is_inside(value, dimension):
                return None
            params[name] = value
        return params

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


def _types_of(name: str, settings_type: type[msgspec.Struct]) -> set[type[inspect.Type]]:
    """Return the types that a setting may have; raises ConfigError for an unknown name or a table."""
    place, types = join_place("search", name), _options(inspect.type_info(settings_type))
    for key in name.split("."):
        types = next(filter(None, (_entry(each, key) for each in types)), ())
        if not types:
            known = [row.path for row in describe_settings(settings_type)]
            raise ConfigError(f"unknown setting{did_you_mean(name, known)}", path=place)
    if all(isinstance(each, inspect.StructType | inspect.DictType) for each in types):
        raise ConfigError("is a table; search one of its settings", path=place)
    return {type(each) for each in types} - {inspect.NoneType}


def _entry(table: inspect.Type, key: str) -> tuple[inspect.Type, ...]:
    """Return the types of one entry of a table; () if the type is not a table with such an entry."""
    match table:
        case inspect.StructType():
            return next((_options(field.type) for field in table.fields if field.encode_name == key), ())
        case inspect.DictType():
            return _options(table.value_type)
        case inspect.AnyType():
            return (table,)
    return ()


def _options(described: inspect.Type) -> tuple[inspect.Type, ...]:
    """Return the types of a union, without metadata."""
    while isinstance(described, inspect.Metadata):
        described = described.type
    if isinstance(described, inspect.UnionType):
        return tuple(option for each in described.types for option in _options(each))
    return (described,)


def _checked(dimension: Dimension, types: set[type[inspect.Type]], place: str) -> Dimension:
    """Return a dimension, converted to the type of its setting, after checking that its fields are consistent."""
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
    if not types & {inspect.IntType, inspect.FloatType, inspect.AnyType}:
        raise ConfigError("is not a number; give its values as choices", path=place)
    numbers = [number for number in (low, high, step) if number is not None]
    is_whole = types == {inspect.IntType} or (inspect.AnyType in types and all(isinstance(n, int) for n in numbers))
    if is_whole and not all(float(number).is_integer() for number in numbers):
        raise ConfigError("is a whole number, so low, high and step must be whole numbers", path=place)
    kind = int if is_whole else float
    low, high, step = kind(low), kind(high), kind(step) if step is not None else None
    _check_range(low, high, step, place, is_log=dimension.log)
    return Dimension(low=low, high=high, step=step, log=dimension.log)


def _check_range(low: float, high: float, step: float | None, place: str, *, is_log: bool) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"low ({low:g}) must be less than high ({high:g}), and both finite", path=place)
    if is_log and low <= 0:
        raise ConfigError(f"low is {low:g}, but log needs low > 0; raise low, or remove log", path=f"{place}.low")
    if step is None:
        return
    if is_log:
        raise ConfigError("has both log and step; remove one", path=place)
    if not 0 < step <= high - low:
        raise ConfigError(f"must be greater than 0 and at most high - low ({high - low:g})", path=f"{place}.step")
    n_steps = round((high - low) / step)
    if not math.isclose(low + n_steps * step, high, rel_tol=1e-9, abs_tol=1e-12):
        nearest = low + math.floor((high - low) / step) * step
        raise ConfigError(f"is not low plus a multiple of step ({step:g}); use {nearest:g}", path=f"{place}.high")


def _is_inside(value: Any, dimension: Dimension) -> bool:
    """Return whether a value, as in `Params`, is one of a dimension."""
    if dimension.choices is not None:
        return value in map(toml_value, dimension.choices)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    low, high, step = dimension.low or 0.0, dimension.high or 0.0, dimension.step
    if not low <= value <= high or (isinstance(dimension.low, int) and not float(value).is_integer()):
        return False
    return step is None or math.isclose((value - low) / step, round((value - low) / step), abs_tol=1e-9)
