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

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from soulslab.config.checking import check, join_place
from soulslab.config.loading import read_toml
from soulslab.errors import ConfigError, UntrustedFileError, did_you_mean
from soulslab.learn.settings import Positive, Share
from soulslab.learn.training import AnySettings
from soulslab.learn.untrusted import check_named_environment, check_stored_settings

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


def load_tune_settings(
    path: Path | None, searches: Sequence[str] = (), study: Mapping[str, Any] | None = None
) -> TuneSettings:
    """Read the definition of a study from a TOML file, if any, and the command line, which has precedence.

    ``searches`` are of the form ``name=LOW..HIGH``, ``name=LOW..HIGH:log``, ``name=LOW..HIGH:step=N`` or
    ``name=[A, B, C]``; ``study`` has entries of the table ``study``. Raises ConfigError if the file cannot be read or
    is malformed, or an entry is unknown, missing or of the wrong type. The search space is not yet checked against the
    settings of a run (:class:`soulslab.learn.tuning.search_space.SearchSpace`).
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
