"""What a data set of recorded fights holds, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from soulslab.learn.demonstrations.data_set_metadata import Description

UNKNOWN = "-"


def overview_tables(description: Description, outcomes: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return a table of what a data set is, and one of the environment's options.

    Args:
        description: Of the data set.
        outcomes: From :func:`soulslab.learn.demonstrations.reading.read_outcomes`.
    """
    told = [bool(outcome["is_won"]) for outcome in outcomes if "is_won" in outcome]
    returns = [float(outcome["total_reward"]) for outcome in outcomes if "total_reward" in outcome]
    overview = Table("", "", show_header=False, box=None, pad_edge=False)
    for name, value in (
        ("environment", description.env_id),
        ("player", description.player or UNKNOWN),
        ("fights", str(description.n_episodes)),
        ("won", f"{sum(told)} of {len(told)}" if told else UNKNOWN),
        ("mean return", f"{np.mean(returns):.3f}" if returns else UNKNOWN),
        ("steps", str(description.n_steps)),
        ("written by", f"soulslab {description.origin.soulslab}" if description.origin.soulslab else UNKNOWN),
    ):
        overview.add_row(name, value)
    options = Table("option", "value", box=None, pad_edge=False)
    for name, value in sorted({**description.origin.defaults, **description.options}.items()):
        options.add_row(name, str(value))
    return [overview, options] if options.row_count else [overview]
