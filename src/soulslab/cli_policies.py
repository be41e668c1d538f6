"""``soulslab join``: it parses, wires and exits with a code."""

# ruff: noqa: PLC0415  (`soulslab --help` has to answer at once)

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

EXIT_OK = 0

_log = logging.getLogger(__name__)


def join(
    *runs: Path,
    feature: str,
    at_most: Annotated[list[float], Parameter(negative="")],
    out: Path,
    phase: str = "full",
) -> int:
    """Join policies of the phases of a fight to one that switches between them.

    Args:
        runs: Folders of runs, or policy files, the first phase's first.
        feature: Feature of the observation that tells the phases apart, by name or number, such as boss_hp.
        at_most: The next phase begins where the feature is at most this; once for each policy but the first.
        out: File of the joined policy.
        phase: What it is played on unless somebody says otherwise, where the fights have phases.
    """
    from soulslab.learn.joining import join_runs

    policy = join_runs(runs, feature, at_most, {"phase": phase})
    policy.save(out)
    switch = policy.switch
    what = switch.name or f"feature {switch.feature}"
    turns = [f"{run} from {what} <= {below:g}" for run, below in zip(runs[1:], switch.at_most, strict=True)]
    _log.info("%s: %s, then %s", out, runs[0], ", ".join(turns))
    return EXIT_OK
