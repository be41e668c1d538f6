"""``soulslab siphon verify`` and ``compare``: whether the time of a game is exact, and where two runs differ."""

# ruff: noqa: PLC0415  (`soulslab --help` has to answer at once)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import check_json, make_folder, table_console, write_json
from soulslab.cli.parameters import SEED, read_pairs
from soulslab.errors import ConfigError


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class VerifyFlags:
    """How the games are verified.

    Attributes:
        episodes: How often the same episode is played, each time in a new process.
        steps: Steps of an episode.
        seed: Seed of the keys.
        ticks: Ticks of a step; of a game without ticks, multiples of its env.step_s.
        load: Busy processes that run at the same time.
        option: Change a launch option of the profile, as skill=2; may be given many times.
        record: Folder for a trace of each episode, which soulslab siphon compare reads; old ones are replaced.
        json: Also write the table to this file.
    """

    episodes: Annotated[int, Parameter(validator=Number(gte=2, lte=1000))] = 5
    steps: Annotated[int, Parameter(validator=Number(gte=1, lte=1_000_000))] = 2000
    seed: Annotated[int, Parameter(validator=SEED)] = 0
    ticks: Annotated[int, Parameter(validator=Number(gte=1, lte=1000))] = 1
    load: Annotated[int, Parameter(validator=Number(gte=0, lte=1024))] = 0
    option: Annotated[list[str] | None, Parameter(negative="")] = None
    record: Path | None = None
    json: Path | None = None


def verify(*profiles: Path, flags: VerifyFlags | None = None) -> int:
    """Verify that the time of games is exact, with other keys in every step; 1 if it is not.

    Each game is started several times and plays the same episode. It is verified if its clock is lockstep, if it stands
    still while it is paused, if no step loses or doubles a tick, and if all episodes have the same values and pixels.

    Args:
        profiles: Profiles of games, or names of games that come with soulslab (doom).
        flags: How they are verified.
    """
    from soulslab.envs.verification import VerifySettings, verify_game
    from soulslab.envs.verification_report import verification_rows, verification_table
    from soulslab.games import profile_path
    from soulslab.siphon.profile import load_profile

    flags = flags or VerifyFlags()
    if not profiles:
        raise ConfigError("needs at least one profile, such as my_game.toml", source="soulslab siphon verify")
    if flags.record is not None and len({game.stem for game in profiles}) < len(profiles):
        raise ConfigError("the traces of two of the profiles have the same name; rename a profile", source="--record")
    check_json(flags.json)
    games = [(game, load_profile(profile_path(game))) for game in profiles]
    if flags.record is not None:
        make_folder(flags.record)
    found = []
    try:
        for game, profile in games:
            settings = VerifySettings(
                n_episodes=flags.episodes,
                n_steps=flags.steps,
                seed=flags.seed,
                step_ticks=flags.ticks,
                n_load=flags.load,
                options=read_pairs(flags.option or [], "--option"),
                record_dir=flags.record,
                name=game.stem,
            )
            found.append(verify_game(profile, settings, source=str(game)))
            if flags.json:
                write_json(flags.json, verification_rows(found))
    finally:  # also after Ctrl-C
        table_console().print(verification_table(found))
    return 0 if all(one.is_verified for one in found) else 1


def compare(one: Path, two: Path, *, json: Path | None = None) -> int:
    """Print the first difference between two traces that soulslab siphon verify recorded; 1 if there is one.

    Args:
        one: A trace, such as doom-1.h5.
        two: Another trace.
        json: Also write the difference to this file.
    """
    from rich.console import Console

    from soulslab.envs.trace import first_difference, read_trace
    from soulslab.envs.verification_report import describe, difference_row

    check_json(json)
    first, second = read_trace(one), read_trace(two)
    difference = first_difference(first, second)
    text = f"the traces are equal in all {len(first)} steps" if difference is None else describe(difference)
    Console(soft_wrap=True).print(text, markup=False, highlight=False)
    row = difference_row(difference)
    if json:
        write_json(json, [] if row is None else [row])
    return 0 if difference is None else 1
