"""``soulslab fights``: record demonstrations, and show data sets of them."""

# ruff: noqa: PLC0415  (imports in commands keep `soulslab --help` fast)

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_OK, table_console
from soulslab.cli.parameters import SEED, TokenFile, check_run, token_overrides
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soulslab.fights.recording import FightRecorder

_log = logging.getLogger(__name__)

fights = App(name="fights", help="Record fights as demonstrations, and show recorded data sets.")


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class WhoFlags:
    """The player.

    Attributes:
        player: reference: a script that knows the arena's bosses; human: you, in this terminal.
        policy: Folder of a run, or a policy file, to use as the player.
        keys: Key log of fights in the window (soulslab arena --log); its complete fights are recorded.
    """

    player: Literal["reference", "human"] = "reference"
    policy: Path | None = None
    keys: Path | None = None


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class WhereFlags:
    """The fight.

    Attributes:
        config: Config with the environment and its options, to be used for training later.
        boss: Boss; by default, that of the config.
        phase: 1, 2 or full; by default, that of the config.
        overrides: Change one setting of the environment, as env.options.skip_locked=true; may be repeated.
        token_file: File with the token of the environment's server; - asks for the token. By default, the environment
            variable SOULSLAB_TOKEN is used.
    """

    config: Path | None = None
    boss: str | None = None
    phase: str | None = None
    overrides: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None
    token_file: TokenFile = None

    def env(self) -> tuple[str, dict[str, Any]]:
        """Return the environment's id and its options."""
        from soulslab.fights.recording import env_settings
        from soulslab.learn.configs import config_path

        changes = [*(self.overrides or []), *token_overrides(self.token_file)]
        settings = env_settings(config_path(self.config) if self.config else None, changes)
        chosen = {name: value for name, value in (("boss", self.boss), ("phase", self.phase)) if value is not None}
        return settings.id, {**settings.options, **chosen}


@fights.command
def record(
    out: Path,
    *,
    who: WhoFlags | None = None,
    where: WhereFlags | None = None,
    n_fights: Annotated[int, Parameter(name="--fights", validator=Number(gte=1))] = 20,
    seed: Annotated[int, Parameter(validator=SEED)] = 0,
    append: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Record fights as a Minari data set for learning from demonstrations.

    Args:
        out: Folder of the data set.
        who: The player.
        where: The fight.
        n_fights: Number of fights; ignored for a human player and a key log.
        seed: Seed of the fights, which differ from those of every evaluation.
        append: Append to an existing data set; fights that it contains are not recorded again.
    """
    from soulslab.fights.recording import FightRecorder, fight_seeds

    who, (env_id, options) = who or WhoFlags(), (where or WhereFlags()).env()
    if who.policy and who.keys:
        raise ConfigError("cannot be combined; give one of them", source="--policy and --keys")
    if who.policy:
        check_run(who.policy)
    name = str(who.policy or ("human" if who.keys else who.player))
    with FightRecorder(out, env_id, options, name, is_continued=append) as recorder:
        try:
            _fight(recorder, who, fight_seeds(seed, n_fights, recorder.writer.seeds))
        finally:
            if recorder.n_fights:
                _log.info(
                    "%d fights, %d of them won, %d steps: %s", recorder.n_fights, recorder.n_wins, recorder.n_steps, out
                )
    return EXIT_OK


@fights.command
def show(data: str) -> int:
    """Show the contents of a data set of recorded fights.

    Args:
        data: Folder of the data set, or its Minari id on this machine.
    """
    from soulslab.learn.demonstrations.data_set_metadata import describe
    from soulslab.learn.demonstrations.reading import read_outcomes
    from soulslab.report import data_set_tables

    description = describe(data)
    for table in data_set_tables(description, read_outcomes(description)):
        table_console().print(table, "")
    return EXIT_OK


def _fight(recorder: FightRecorder, who: WhoFlags, seeds: Sequence[int]) -> None:
    """Record fights of the chosen player."""
    from rich.progress import track

    from soulslab.fights import recording

    if who.policy:
        from soulslab.learn.players import load_player

        player = load_player(who.policy)
        for seed in track(seeds, "fighting", transient=True):
            recorder.play(player, seed)
    elif who.keys:
        recording.record_key_log(recorder, who.keys)
    elif who.player == "human":
        recording.record_in_terminal(recorder, seeds[0])
    else:
        for seed in track(seeds, "fighting", transient=True):
            recording.record_fight(recorder, seed)
