"""The tables of the page of a run: attacks, phases, actions by situation, and saved policies."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from soulslab.dashboard.pages.frame import UNKNOWN, percent, short, time_html
from soulslab.dashboard.run_log import RunLog
from soulslab.errors import SoulslabError
from soulslab.learn import telemetry
from soulslab.learn.archive import read_archive_header
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.run_folder import BEST_POLICY_NAME, CHECKPOINTS_NAME, POLICY_NAME

_ROLES: Final = {POLICY_NAME: "newest policy", BEST_POLICY_NAME: "best evaluated policy"}

_Fights = telemetry.FightStats | telemetry.Evaluated


class SavedPolicy(NamedTuple):
    """A policy file or a checkpoint of a run.

    Attributes:
        name: Path relative to the folder of the run.
        env_steps: Game decisions of its training; None if the policy cannot be read.
        wall_s: Time at which it was written (Unix time, s).
    """

    name: str
    env_steps: int | None
    wall_s: float


def saved_policies(folder: Path) -> list[SavedPolicy]:
    """Return the policies and checkpoints of a run, the policies first, then the newest checkpoint."""
    found = []
    checkpoints = CheckpointStore(folder / CHECKPOINTS_NAME, keep=1).paths()
    for path in [folder / BEST_POLICY_NAME, folder / POLICY_NAME, *reversed(checkpoints)]:
        try:
            wall_s = path.stat().st_mtime
        except OSError:  # a running run removes old checkpoints, and may have no policy yet
            continue
        found.append(SavedPolicy(path.relative_to(folder).as_posix(), _env_steps(path), wall_s))
    return found


def _env_steps(path: Path) -> int | None:
    """Return the game decisions of a policy, or those in the name of a checkpoint; None if they are unknown."""
    if path.parent.name == CHECKPOINTS_NAME:
        number = path.stem.removeprefix("step_")
        return int(number) if number.isdecimal() else None
    try:
        steps = read_archive_header(path).get("env_steps")
    except SoulslabError:
        return None
    return steps if isinstance(steps, int) else None


def saved_html(saved: Sequence[SavedPolicy], log: RunLog) -> str:
    """Return a table of the saved policies, each with the last evaluation until it was saved; "" without any."""
    if not saved:
        return ""
    evaluations = [event.message for event in log.events if isinstance(event.message, telemetry.Evaluated)]
    rows = []
    for each in saved:
        steps = each.env_steps
        before = [found for found in evaluations if steps is not None and found.env_steps <= steps]
        result, at = (_result(before[-1]), short(before[-1].env_steps)) if before else (UNKNOWN, UNKNOWN)
        role = f" <small>{_ROLES[each.name]}</small>" if each.name in _ROLES else ""
        decisions = short(steps) if steps is not None else "cannot be read"
        cells = (f"<code>{escape(each.name)}</code>{role}", decisions, result, at, time_html(each.wall_s))
        kind = ' class="best"' if each.name == BEST_POLICY_NAME else ""
        rows.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return _table("Saved policies", ("file", "decisions", "last evaluation", "evaluated at", "saved"), rows, "saved")


def attacks_html(log: RunLog) -> str:
    """Return tables of the boss's attacks, the most harmful first, in training and evaluated; "" without any."""
    columns = _columns(log)
    if not columns:
        return ""
    names = dict.fromkeys(
        name
        for _, message in columns
        for values in (message.damage_by_attack, message.uses_by_attack)
        for name, value in values.items()
        if value
    )
    order = sorted(names, key=lambda name: -columns[0][1].damage_by_attack.get(name, 0.0))
    head = ("attack", "used", "avoided", "hit points", "fights ended")
    tables = []
    for title, message in columns:
        rows = [_row(name.replace("_", " "), *_attack_cells(message, name)) for name in order]
        tables.append(f"<div>{_table(f'Attacks, {title}', head, rows)}</div>")
    note = (
        '<p class="faint">Uses and hit points per fight. An attack is avoided if its use does not hit the player.</p>'
    )
    return f'<div class="pair">{"".join(tables)}</div>{note}'


def phases_html(log: RunLog) -> str:
    """Return a table of the phases of the last training fights; "" if the environment does not report them."""
    fights = log.last.get(telemetry.FightStats)
    if not isinstance(fights, telemetry.FightStats) or not any(fights.decisions_by_phase.values()):
        return ""
    rows = []
    for phase, decisions in fights.decisions_by_phase.items():
        dealt, taken = fights.damage_dealt_by_phase.get(phase), fights.damage_taken_by_phase.get(phase)
        rate = 100.0 * dealt / decisions if dealt is not None and decisions else None
        rows.append(_row(phase, short(decisions), short(dealt), short(taken), short(rate)))
    head = ("phase", "decisions", "damage dealt", "damage taken", "dealt per 100 decisions")
    return _table("Phases, last training fights", head, rows) + '<p class="faint">Means per fight, in hit points.</p>'


def situations_html(log: RunLog, action_names: Sequence[str]) -> str:
    """Return a table of the share of each action in each situation; "" if they are not counted."""
    fights = log.last.get(telemetry.FightStats)
    if not isinstance(fights, telemetry.FightStats) or not any(fights.actions_by_situation.values()):
        return ""
    situations = fights.actions_by_situation
    n = max(map(len, situations.values()))
    names = action_names if len(action_names) == n else [str(i) for i in range(n)]
    largest = max(max(shares, default=0.0) for shares in situations.values())
    rows = []
    for i, name in enumerate(names):
        cells = [f"<td>{escape(name)}</td>"]
        for shares in situations.values():
            share = shares[i] if shares else None
            tint = f' style="--share:{100.0 * share / largest:.0f}%"' if share else ""
            cells.append(f"<td{tint}>{UNKNOWN if share is None else f'{100.0 * share:.1f} %'}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _table("Actions by situation, last training fights", ("action", *situations), rows, "heat")


def _columns(log: RunLog) -> list[tuple[str, _Fights]]:
    """Return the last messages with numbers by attack, with their titles."""
    found = (
        ("last training fights", log.last.get(telemetry.FightStats)),
        ("last evaluation", log.last.get(telemetry.Evaluated)),
    )
    return [(title, message) for title, message in found if isinstance(message, _Fights) and message.damage_by_attack]


def _attack_cells(message: _Fights, name: str) -> list[str]:
    uses, hits = message.uses_by_attack.get(name), message.hits_by_attack.get(name)
    avoided = f"{100.0 * (1.0 - hits / uses):.1f} %" if uses and hits is not None else UNKNOWN
    return [
        f"{uses:.2f}" if uses is not None else UNKNOWN,
        avoided,
        f"{message.damage_by_attack.get(name, 0.0):.1f}",
        f"{100.0 * message.kills_by_attack.get(name, 0.0):.1f} %",
    ]


def _row(*cells: str) -> str:
    """Return a row of texts."""
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _result(message: telemetry.Evaluated) -> str:
    if message.win_rate is None:
        return f"return {short(message.mean_return)}"
    ends = [100.0 * end if end is not None else None for end in (message.low, message.high)]
    return percent(100.0 * message.win_rate, *ends)


def _table(title: str, head: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    cells = "".join(f"<th>{escape(each)}</th>" for each in head)
    table = f'<table class="plain numbers {kind}"><thead><tr>{cells}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<h2>{escape(title)}</h2><div class="scroll">{table}</div>'
