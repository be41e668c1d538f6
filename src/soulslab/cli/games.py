"""``soulslab games``: list shipped profiles, and check a profile on a running game."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.cli.game_session import GameFlags, open_game
from soulslab.cli.output import check_file, print_line, table_console, write_json
from soulslab.cli.parameters import Game, PositiveFloat, Repeated

games = App(name="games", help="List shipped profiles, and check a profile on a running game.")


@games.command(name="list")
def list_games() -> None:
    """List the games that have a shipped profile."""
    from soulslab.games import known_games, profile_path
    from soulslab.siphon.profile import load_profile

    for name in known_games():
        profile = load_profile(profile_path(Path(name)))
        versions = f", versions {', '.join(profile.process.versions)}" if profile.process.versions else ""
        print_line(f"{name}  {profile.process.executable}, {len(profile.attributes)} attributes{versions}")


@games.command
def check(
    game: Game,
    *,
    flags: GameFlags = GameFlags(),
    need: Repeated = None,
    seconds: PositiveFloat = 1.0,
    looks: Annotated[int, Parameter(validator=Number(gte=2, lte=1000))] = 5,
    json: Path | None = None,
) -> int:
    """Check every attribute of a profile on a running game, without writing; exit code 1 if a needed one fails.

    Args:
        need: Attribute that must pass; may be repeated. By default, all that the fight of the profile needs.
        seconds: Game time from the first reading to the last.
        looks: Number of readings.
        json: Also write the table to this file.
    """
    from soulslab.games.self_check import check_session
    from soulslab.games.self_check_table import check_rows, check_table

    check_file(json)
    with open_game(game, flags, is_read_only=True, with_window=False) as session:
        found = check_session(session, need, span_s=seconds, n_looks=looks)
    write_json(json, check_rows(found))
    table_console().print(check_table(found))
    return 0 if found.is_ok else 1
