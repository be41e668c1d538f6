"""Fights of the evaluations of a run: their seeds and actions, which the simulator repeats.

Each line of ``evaluated_fights.jsonl`` in the folder of the run is one fight. Observations are not stored, so that a
fight takes about a kilobyte, and training does not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from soulslab.config.input_files import read_bytes
from soulslab.errors import DemonstrationError
from soulslab.learn.archive import writing
from soulslab.learn.demonstrations.recorded_episode import Episode

FIGHTS_NAME: Final = "evaluated_fights.jsonl"

N_FIGHTS: Final = 8
"""Number of fights that each evaluation records: the first one in each of the first environments."""

_MAX_BYTES: Final = 64 << 20


class EvaluatedFight(msgspec.Struct, frozen=True, kw_only=True):
    """A fight of an evaluation.

    Attributes:
        env_steps: Game decisions of the training before the evaluation.
        seed: Seed of the reset of the environment.
        actions: The action of each step.
        total_return: Sum of the rewards.
        is_won: Whether the fight was won; None if the environment does not report it.
        killed_by: The attack of the boss that ended it; "" for none.
    """

    env_steps: int
    seed: Annotated[int, Meta(ge=0)] | None
    actions: tuple[Annotated[int, Meta(ge=0)], ...]
    total_return: float
    is_won: bool | None
    killed_by: str = ""


def append_evaluated_fights(folder: Path, env_steps: int, episodes: Iterable[Episode]) -> None:
    """Append fights to the file of a run; raises CheckpointError if it cannot be written."""
    lines = [
        msgspec.json.encode(
            EvaluatedFight(
                env_steps=env_steps,
                seed=episode.seed,
                actions=tuple(episode.actions.tolist()),
                total_return=float(episode.rewards.sum()),
                is_won=episode.is_won,
                killed_by=episode.killed_by,
            )
        )
        for episode in sorted(episodes, key=lambda each: each.seed or 0)  # equal fights have equal places
    ]
    path = folder / FIGHTS_NAME
    with writing(path), path.open("ab") as file:
        # The line break comes first, because a killed process may have left an incomplete line.
        file.write(b"".join(b"\n" + line for line in lines))


def read_evaluated_fights(folder: Path) -> list[EvaluatedFight]:
    """Return the fights of a run, in order; raises DemonstrationError if the file cannot be read.

    Incomplete lines are left out. A resumed run repeats evaluations, whose earlier fights are replaced.
    """
    path = folder / FIGHTS_NAME
    found: dict[tuple[int, int | None], EvaluatedFight] = {}
    decoder = msgspec.json.Decoder(EvaluatedFight)
    for line in read_bytes(path, _MAX_BYTES, partial(DemonstrationError, path)).split(b"\n"):
        try:
            fight = decoder.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        found[fight.env_steps, fight.seed] = fight
    return list(found.values())
