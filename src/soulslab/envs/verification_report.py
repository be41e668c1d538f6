"""Reports of verifications: a table with a sentence for each failure, and rows of plain values for files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec
import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from soulslab.envs.trace import Difference
from soulslab.envs.verification import Verification
from soulslab.siphon.profile import Value
from soulslab.siphon.terminal_output import format_value

#: Largest number of attributes that the description of a difference names.
MAX_NAMED = 4
TITLES = (
    "game", "clock", "lost", "doubled", "equal\nsteps", "stands\nstill", "steps\nper s", "x real\ntime", "CPU\nms",
    "slow\nsteps", "max\nms", "exact",
)  # fmt: skip


def verification_table(found: Sequence[Verification]) -> Group:
    """Return a table with a row for each game and their median, and sentences about failures and slow steps."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for i, title in enumerate(TITLES):
        # In a narrow terminal only the name of the game is wrapped.
        table.add_column(title, justify="left" if i < 2 else "right", overflow="fold", no_wrap=i > 0)
    for one in found:
        table.add_row(*_cells(one))
    played = [one for one in found if one.n_played]
    if len(played) > 1:
        cells = {"game": "median", "steps\nper s": f"{median(one.steps_per_s for one in played):.0f}"}
        cells["x real\ntime"] = f"{median(one.times_real_time for one in played):.1f}"
        cells["CPU\nms"] = f"{1e3 * median(one.processor_s for one in played):.1f}"
        table.add_row(*(cells.get(title, "") for title in TITLES))
    sentences = [f"{one.game}: {failure}" for one in found for failure in failures_of(one)]
    sentences += [
        f"{one.game}: in the slowest step ({1e3 * one.slowest_s:.0f} ms), the game, its X server or soulslab waited "
        f"{1e3 * one.slowest_waited_s:.0f} ms for a processor that other programs used"
        for one in found
        if one.n_slow
    ]
    sentences += [
        f"{one.game}: no effect at the start of an episode: {', '.join(_named_keys(one.without_effect))}. If an action "
        f"should have an effect there, bind its keys in the settings of the game as [keys] of the profile says, or "
        f"write the bindings of the game to [keys]"
        for one in found
        if one.without_effect
    ]
    parts: list[RenderableType] = [table]
    if sentences:
        parts += [Text(), Text("\n".join(sentences))]
    if found:
        settings = found[0].settings  # all rows have the same
        load = f", {settings.n_load} busy processes" if settings.n_load else ""
        ticks = _ticks(settings.step_ticks)
        text = f"{settings.n_episodes} episodes of {settings.n_steps} steps of {ticks}, seed {settings.seed}{load}"
        parts = [Text(text), Text(), *parts]
    return Group(*parts)


def _cells(found: Verification) -> Iterator[Text]:
    """Yield the cells of a game in the order of `TITLES`."""
    yield Text(found.game)
    yield Text(found.grade or "none")
    if found.n_played:
        unknown = "unknown" if found.has_ticks else "-"
        yield from (Text(str(n) if found.n_counted else unknown) for n in (found.n_lost, found.n_doubled))
        yield Text(str(found.n_equal_steps) if found.n_played > 1 else "")
        yield Text("no" if found.motion else "yes")
        yield Text(f"{found.steps_per_s:.0f}")
        yield Text(f"{found.times_real_time:.1f}")
        yield Text(f"{1e3 * found.processor_s:.1f}")
        yield Text(str(found.n_slow))
        yield Text(f"{1e3 * found.slowest_s:.0f}")
    else:
        yield from (Text("") for _ in range(9))
    yield Text("yes", style="green") if found.is_verified else Text("no", style="bold red")


def failures_of(found: Verification) -> list[str]:
    """Return a sentence for each failure of a verification, with the cause, the place and a remedy."""
    failures = []
    if found.error:
        played = f" after {found.n_played} of {found.settings.n_episodes} episodes" if found.n_played else ""
        failures.append(f"an episode could not be completed{played}: {found.error}")
    if found.motion:
        failures.append(
            f"it changes while it is paused: {found.motion}. A part of the game does not take its time from the clock; "
            f'see "What it cannot catch" in docs/clock.md'
        )
    if found.first_wrong is not None:
        wrong = found.first_wrong
        failures.append(
            f"of {found.n_counted} steps {found.n_lost} lost ticks and {found.n_doubled} had too many; the first is "
            f"step {wrong.step} of episode {wrong.episode}, with {_ticks(wrong.n_ticks)} instead of "
            f"{found.settings.step_ticks} and {_keys(wrong.held)}. Check clock.tick_hz and clock.tick_attribute of the "
            f"profile, then try another clock.boundary (docs/clock.md)"
        )
    if found.n_played and found.has_ticks and not found.n_counted:
        failures.append(
            "its ticks could not be counted: set clock.tick_attribute to the attribute that increases by one in each "
            "step of the simulation; if there is none, remove clock.tick_hz and set env.step_s "
            "(docs/add_your_own_game.md)"
        )
    if found.difference is not None:
        failures.append(
            f"episode {found.different_episode} differs from episode 1: {describe(found.difference)}. Something in the "
            f"game depends on more than the keys and the clock; see docs/clock.md"
        )
    return failures


def describe(difference: Difference) -> str:
    """Return a difference as text."""
    keys = _keys(difference.held[0])
    if difference.problem:
        other = "" if difference.held[0] == difference.held[1] else f" ({keys}; {_keys(difference.held[1])})"
        return f"step {difference.step}: {difference.problem}{other}"
    parts = [
        f"attribute {name!r} is {_shown(one)} and {_shown(two)}"
        for name, (one, two) in list(difference.values.items())[:MAX_NAMED]
    ]
    if len(difference.values) > MAX_NAMED:
        parts.append(f"{len(difference.values) - MAX_NAMED} more attributes differ")
    if difference.has_other_frame:
        parts.append(
            f"the picture differs in {difference.region}" if difference.region is not None else "the picture differs"
        )
    return f"step {difference.step} ({keys}): {', '.join(parts)}"


def verification_rows(found: Iterable[Verification]) -> list[dict[str, Any]]:
    """Return verifications as rows of plain values, with the sentences of their failures."""
    rows = []
    for one in found:
        row = msgspec.structs.asdict(one)
        row["difference"] = difference_row(one.difference)
        row["settings"] = msgspec.to_builtins({**msgspec.structs.asdict(one.settings), "record_dir": None})
        row["first_wrong"] = msgspec.to_builtins(one.first_wrong)
        rows.append({**row, "is_verified": one.is_verified, "failures": failures_of(one)})
    return rows


def difference_row(difference: Difference | None) -> dict[str, Any] | None:
    """Return a difference as plain values."""
    if difference is None:
        return None
    values = {name: [_plain(value) for value in pair] for name, pair in difference.values.items()}
    return {**msgspec.structs.asdict(difference), "values": values, "region": msgspec.to_builtins(difference.region)}


def _named_keys(actions: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{action} ({' + '.join(keys)})" for action, keys in actions.items()]


def _ticks(n: int) -> str:
    return f"{n} tick{'' if n == 1 else 's'}"


def _keys(held: tuple[str, ...]) -> str:
    return f"keys {' '.join(held)}" if held else "no keys"


def _shown(value: Value | None) -> str:
    # With fewer digits, different values might look equal.
    if value is None:
        return "unreadable"
    return repr(value) if isinstance(value, float) else format_value(value)


def _plain(value: Value | None) -> Any:
    """Return a value of a JSON type."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value.hex() if isinstance(value, bytes) else value
