"""``soulslab join``, ``film`` and ``remove-tokens``."""

# ruff: noqa: PLC0415  (imports in commands keep `soulslab --help` fast)

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_FAILED, EXIT_OK
from soulslab.cli.parameters import check_run

_log = logging.getLogger(__name__)


def join(
    *runs: Path,
    feature: str,
    at_most: Annotated[list[float], Parameter(negative="")],
    out: Path,
    phase: str = "full",
    trust: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Join policies for the phases of a fight into one policy that switches between them.

    Args:
        runs: Folders of runs, or policy files, in the order of the phases.
        feature: Feature of the observation that identifies the phase, by name or number, such as boss_hp.
        at_most: The next phase begins when the feature is at most this; once for each policy except the first.
        out: File of the joined policy.
        phase: Default phase of the joined policy, if the fights have phases.
        trust: The first policy's file may choose programs, profiles, servers and modules of the environment, which is
            created if the feature is given by name.
    """
    from soulslab.learn.players import join_runs

    for run in runs:
        check_run(run)
    policy = join_runs(runs, feature, at_most, {"phase": phase}, trust=trust)
    policy.save(out)
    switch = policy.switch
    name = switch.name or f"feature {switch.feature}"
    switches = [f"{run} from {name} <= {below:g}" for run, below in zip(runs[1:], switch.at_most, strict=True)]
    _log.info("%s: %s, then %s", out, runs[0], ", ".join(switches))
    return EXIT_OK


def remove_tokens(path: Path) -> int:
    """Remove the token of a server from files of earlier versions, which wrote it as plain text.

    Change the token of the server too if anyone else could read the files.

    Args:
        path: Folder of a run, a study or a data set, or one file.
    """
    from soulslab.learn.token_removal import remove_tokens as remove

    removal = remove(path)
    for file in removal.changed:
        _log.info("%s: removed a token", file)
    for file in removal.left:
        _log.warning("%s: still holds a token; remove this file, or the token in it", file)
    if not removal.changed:
        _log.info("%s: no token found", path)
    return EXIT_FAILED if removal.left else EXIT_OK


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class FilmFlags:
    """The fight to film.

    Attributes:
        boss: A shipped boss, or the path of a boss file; by default, that of the policy, or judge.
        phase: 1, 2 or full; by default, that of the policy, or full.
        seed: Seed of the first fight.
        window: Film the window of the fight; by default, a top view is drawn.
        won: Film the first fight that the policy wins, of at most 100.
    """

    boss: str | None = None
    phase: str | None = None
    seed: Annotated[int, Parameter(validator=Number(gte=0, lt=2**31))] = 0
    window: Annotated[bool, Parameter(negative="")] = False
    won: Annotated[bool, Parameter(negative="")] = False


def film(policy: Path, file: Path = Path("fight.mp4"), *, flags: FilmFlags | None = None) -> int:
    """Film a fight of a trained policy.

    Args:
        policy: Folder of a run, or a policy file.
        file: MP4 file to write.
        flags: The fight to film.
    """
    check_run(policy)
    from soulslab.film import film_policy
    from soulslab.learn.players import load_player

    flags = flags or FilmFlags()
    fight = {"boss": flags.boss, "phase": flags.phase}
    player = load_player(policy)
    is_won = film_policy(player, file, fight, in_window=flags.window, seed=flags.seed, needs_win=flags.won)
    _log.info("%s: a fight that was %s", file, "won" if is_won else "lost")
    return EXIT_OK
