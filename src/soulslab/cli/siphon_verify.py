"""``soulslab siphon verify`` and ``compare``: verify the time of games, and compare two traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import check_file, make_folder, print_line, table_console, write_json
from soulslab.cli.parameters import Repeated, Seed, read_pairs
from soulslab.errors import ConfigError


def verify(
    *profiles: Path,
    episodes: Annotated[int, Parameter(validator=Number(gte=2, lte=1000))] = 5,
    steps: Annotated[int, Parameter(validator=Number(gte=1, lte=1_000_000))] = 2000,
    seed: Seed = 0,
    ticks: Annotated[int, Parameter(validator=Number(gte=1, lte=1000))] = 1,
    load: Annotated[int, Parameter(validator=Number(gte=0, lte=1024))] = 0,
    option: Repeated = None,
    record: Path | None = None,
    json: Path | None = None,
) -> int:
    """Verify that the time of games is exact, with random keys; exit code 1 if it is not.

    Each game is started several times and plays the same episode. It is verified if its clock is lockstep, if it does
    not advance while it is paused, if no step loses or repeats a tick, and if the values and pixels of all episodes
    are equal. Actions whose keys change nothing at the start of an episode are named.

    Args:
        profiles: Profiles of games, or names of shipped games (doom).
        episodes: Number of repetitions of the episode, each in a new process.
        steps: Steps of an episode.
        seed: Seed of the keys.
        ticks: Ticks per step; for a game without ticks, multiples of its env.step_s.
        load: Number of busy processes that run at the same time.
        option: Change a launch option of the profile, as skill=2; may be repeated.
        record: Folder for a trace of each episode, for soulslab siphon compare; old traces are replaced.
        json: Also write the table to this file.
    """
    from soulslab.envs.verification import VerifySettings, verify_game
    from soulslab.envs.verification_report import verification_rows, verification_table
    from soulslab.games import profile_path
    from soulslab.siphon.profile import load_profile

    if not profiles:
        raise ConfigError("needs at least one profile, such as my_game.toml", source="soulslab siphon verify")
    if record is not None and len({game.stem for game in profiles}) < len(profiles):
        raise ConfigError("the traces of two of the profiles have the same name; rename a profile", source="--record")
    check_file(json)
    games = [(game, load_profile(profile_path(game))) for game in profiles]
    if record is not None:
        make_folder(record)
    found = []
    try:
        for game, profile in games:
            settings = VerifySettings(
                n_episodes=episodes,
                n_steps=steps,
                seed=seed,
                step_ticks=ticks,
                n_load=load,
                options=read_pairs(option or [], "--option"),
                record_dir=record,
                name=game.stem,
            )
            found.append(verify_game(profile, settings, source=str(game)))
            write_json(json, verification_rows(found))
    finally:  # also after Ctrl-C
        table_console().print(verification_table(found))
    return 0 if all(one.is_verified for one in found) else 1


def compare(one: Path, two: Path, *, json: Path | None = None) -> int:
    """Print the first difference between two traces of soulslab siphon verify; exit code 1 if there is one.

    Args:
        one: A trace, such as doom-1.h5.
        two: Another trace.
        json: Also write the difference to this file.
    """
    from soulslab.envs.trace import first_difference, read_trace
    from soulslab.envs.verification_report import describe, difference_row

    check_file(json)
    first, second = read_trace(one), read_trace(two)
    difference = first_difference(first, second)
    row = difference_row(difference)
    write_json(json, [row] if row else [])
    print_line(describe(difference) if difference else f"the traces are equal in all {len(first)} steps")
    return 1 if difference else 0
