"""Generate tables of the documentation from the code each time the site is built.

Each of these marker lines is replaced by a table::

    <!-- settings: soulslab.learn.settings:TrainSettings -->    the settings of that type
    <!-- options: soulslab.envs.duels:ArenaOptions -->          the options of an environment, of that type
    <!-- table: duel_state -->, <!-- table: features -->         the fields and the features of a duel
    <!-- table: relative -->                                     the features in the player's coordinate system
    <!-- table: quantities -->                                   the quantities that a profile's [duel] table may bind
    <!-- keys: dark_souls_3 -->                                  the keys to bind in a game, from its profile
    <!-- bosses: dark_souls_3 -->                                its bosses, their environments, unpublished facts
    <!-- recipes: boss -->                                       how to record unpublished facts of a boss
    <!-- messages: LearningStats -->                             the numbers of a telemetry message, and their names
    <!-- results: train -->                                      docs/results/train.json, from the benchmark train
    <!-- results: fights -->                                     the same, with a column for each phase

In tables of results, a value and its interval share a cell. If a table has more than 10 columns and more than one row,
cells that are equal in all rows are in its caption.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import docstring_parser
import msgspec

from soulslab.arena.duel_state import DUEL_FIELDS
from soulslab.arena.features import FEATURE_NAMES, feature_bounds
from soulslab.arena.quantities import QUANTITIES
from soulslab.arena.relative_features import RELATIVE_SCALARS
from soulslab.config import describe_settings
from soulslab.envs.registration import SOULS_IDS
from soulslab.games import profile_path
from soulslab.games.boss_facts import RECIPES, boss_names, load_boss_facts
from soulslab.learn.sinks.metric_names import MESSAGES, NAME_TAGS, Number, numbers
from soulslab.siphon.profile import load_profile

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_MARKER = re.compile(
    r"^<!-- (?P<kind>settings|options|table|keys|bosses|recipes|messages|results): (?P<what>[\w.:-]+) -->$",
    re.MULTILINE,
)
#: Largest number of columns that fits on a page.
_MAX_COLUMNS = 10


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the markers of a page by tables; mkdocs calls this for each page."""
    return _MARKER.sub(lambda marker: _KINDS[marker["kind"]](marker["what"]), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Replace the ``::`` before a code block in docstrings, which Markdown prints; mkdocs calls this for each page."""
    return html.replace("<p>::</p>", "").replace("::</p>", ":</p>")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def settings_table(what: str) -> str:
    """Return the settings of a type, given as ``module:name``."""
    module, _, name = what.partition(":")
    rows = describe_settings(getattr(importlib.import_module(module), name))
    return _table(
        ("setting", "type", "default", "meaning"),
        ((f"`{row.path}`", row.type, f"`{row.default}`" if row.default else "(required)", row.doc) for row in rows),
    )


def options_table(what: str) -> str:
    """Return the options that a type, given as ``module:name``, adds to those of its bases."""
    module, _, name = what.partition(":")
    kind = getattr(importlib.import_module(module), name)
    docs = {
        entry.arg_name: " ".join((entry.description or "").split())
        for entry in docstring_parser.parse(kind.__doc__, docstring_parser.DocstringStyle.GOOGLE).params
    }
    return _table(
        ("option", "default", "meaning"),
        (
            (f"`{field.name}`", "(required)" if field.required else f"`{_default(field)!r}`", docs[field.name])
            for field in msgspec.structs.fields(kind)
            if field.name in kind.__annotations__
        ),
    )


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def duel_table(what: str) -> str:
    """Return the fields (``duel_state``), ``features``, ``relative`` features or ``quantities`` of a duel."""
    if what == "duel_state":
        rows = ((f"`{field.name}`", str(field.size), field.unit, field.doc) for field in DUEL_FIELDS)
        return _table(("field", "numbers", "unit", "meaning"), rows)
    if what == "quantities":
        head = ("quantity", "kind", "unit", "may be written", "meaning")
        items = QUANTITIES.items()
        return _table(head, ((f"`{name}`", q.kind, q.unit, "yes" if q.put else "no", q.doc) for name, q in items))
    if what == "relative":
        numbered = enumerate(RELATIVE_SCALARS)
        return _table(
            ("place", "feature", "unit", "meaning"),
            ((str(i), f"`{scalar.name}`", scalar.unit, scalar.doc) for i, scalar in numbered),
        )
    low, high = feature_bounds()
    return _table(
        ("place", "feature", "from", "to"),
        ((str(i), f"`{name}`", f"{low[i]:g}", f"{high[i]:g}") for i, name in enumerate(FEATURE_NAMES)),
    )


def key_table(game: str) -> str:
    """Return a table of the actions of a game and their keys."""
    keys = load_profile(profile_path(Path(game))).keys
    return _table(("in the game", "key"), ((name.replace("_", " "), f"`{key}`") for name, key in keys.items()))


def boss_table(game: str) -> str:
    """Return a table of the bosses of a game, their environments, and the facts that are not published."""
    rows = []
    for boss in boss_names(game):
        facts = load_boss_facts(game, boss)
        ids = [env_id for env_id, kwargs in SOULS_IDS.items() if (kwargs["game"], kwargs["boss"]) == (game, boss)]
        rows.append((f"`{boss}`", facts.name, _codes(ids) or "none; use `boss=`", _codes(facts.missing())))
    return _table(("boss", "name", "environments", "not published"), rows)


def recipe_table(_: str) -> str:
    """Return a table of the facts of a boss that may be missing, and how to record each of them."""
    return _table(("fact", "how to record it"), ((f"`{fact}`", how) for fact, how in RECIPES.items()))


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def message_table(what: str) -> str:
    """Return the summary of a message, and a table of its numbers with their TensorBoard and Prometheus names."""
    (kind,) = (kind for kind in MESSAGES if kind.__name__ == what)
    rows = [(f"`{n.field}`", n.doc, _tag(n), _metric(n.metric, n.label)) for n in numbers(kind)]
    named = NAME_TAGS.get(kind)
    if named is not None:
        docs = {row.path: row.doc for row in describe_settings(kind)}
        rows = [(f"`{field}`", docs[field], "", _metric(named.metric, field)) for field in named.fields] + rows
    table = _table(("number", "meaning", "TensorBoard", "Prometheus"), rows)
    return f"{(kind.__doc__ or '').partition('.')[0]}.\n\n{table}"


def _tag(number: Number) -> str:
    if number.is_histogram:
        return f"`{number.tag}`, a histogram"
    return number.tag and (f"`{number.tag}/<{number.label}>`" if number.label else f"`{number.tag}`")


def _metric(name: str, label: str) -> str:
    return f"`{name}{{{label}}}`" if label else f"`{name}`"


def results_table(what: str) -> str:
    """Return the tables of a benchmark's results in docs/results, and the machine that they were measured on."""
    rows = msgspec.json.decode((RESULTS / f"{what}.json").read_bytes(), type=list[dict[str, Any]])
    machine = ", ".join(f"{name} {value}" for name, value in rows[0]["machine"].items())
    tables: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        title = row.pop("table")
        del row["machine"]
        tables.setdefault(title, []).append(row)
    if what == "fights":
        tables = {title: _by_phase(group) for title, group in tables.items()}
    # This table is too long for a page; readers of the JSON file can use it.
    tables.pop("each run", None)
    parts = []
    for title, group in tables.items():
        joined = [_with_intervals(row) for row in group]
        common = _common(joined)
        body = _table(
            tuple(name for name in joined[0] if name not in common),
            ([cell for name, cell in row.items() if name not in common] for row in joined),
        )
        caption = "; ".join([title, *(f"{name} {value}" for name, value in common.items())])
        parts.append(f"*{caption}*\n\n{body}\n")
    return "\n".join([*parts, f"Measured on: {machine}."])


def _with_intervals(row: dict[str, Any]) -> dict[str, str]:
    """Return the cells of a row, with the ends of an interval in the cell of the value before them."""
    cells: dict[str, str] = {}
    names = list(row)
    while names:
        name, ends = names[0], names[1:3]
        cells[name] = _cell(row[name])
        has_interval = len(ends) == 2 and _is_interval(*ends)
        if has_interval and row[name] is not None:
            cells[name] += f" ({_cell(row[ends[0]])} to {_cell(row[ends[1]])})"
        del names[: 3 if has_interval else 1]
    return cells


def _is_interval(low: str, high: str) -> bool:
    """Return whether two columns are the ends of an interval, such as ``from (%)`` and ``to (%)``."""
    return re.fullmatch(r"(.* )?from( \(.*\))?", low) is not None and high == re.sub(r"\bfrom\b", "to", low)


def _common(rows: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return the cells of a wide table that are equal in all rows; the caption names them instead of a column."""
    if len(rows) == 1 or len(rows[0]) <= _MAX_COLUMNS:
        return {}
    return {name: cell for name, cell in rows[0].items() if all(row[name] == cell for row in rows)}


def _by_phase(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per boss and player, with the share of fights won in each phase."""
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["boss"], row["player"])
        line = merged.setdefault(key, {"boss": row["boss"], "player": row["player"], "fights each": row["fights"]})
        line[f"won, phase {row['phase']} (%)"] = row["won (%)"]
    return list(merged.values())


def _cell(value: Any) -> str:
    """Return a number with three significant digits, and any other value as text."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value) if value is not None else "-"


_KINDS: dict[str, Callable[[str], str]] = {
    "settings": settings_table,
    "options": options_table,
    "table": duel_table,
    "keys": key_table,
    "bosses": boss_table,
    "recipes": recipe_table,
    "messages": message_table,
    "results": results_table,
}
