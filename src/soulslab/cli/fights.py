"""``soulslab fights``: record demonstrations, and show data sets of them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_OK, counted, table_console
from soulslab.cli.parameters import Flag, Overrides, Seed, TokenFile, find_run, option_group, token_overrides
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soulslab.fights.recording import FightRecorder

_log = logging.getLogger(__name__)

fights = App(name="fights", help="Record fights as demonstrations, and show recorded data sets.")


@option_group
class FightFlags:
    """The player and the fight.

    Attributes:
        player: reference: a script that knows the arena's bosses; human: you, in this terminal; probe: a script that
            knows no boss, and plays to show how it fights.
        policy: Folder of a run, a policy file, or the name of a shipped policy, such as judge, to use as the player.
        keys: Key log of fights in the window (soulslab arena --log); its complete fights are recorded.
        config: Config with the environment and its options, to be used for training later.
        boss: Boss; by default, that of the config.
        phase: 1, 2 or full; by default, that of the config.
        overrides: Change one setting of the environment, as env.options.skip_locked=true; may be repeated.
        top_up: Restore the player's health in the game below 70 %, so that fights show the second phase; only with
            the probe.
    """

    player: Literal["reference", "probe", "human"] = "reference"
    policy: Path | None = None
    keys: Path | None = None
    config: Path | None = None
    boss: str | None = None
    phase: str | None = None
    overrides: Overrides = None
    top_up: Flag = False
    token_file: TokenFile = None

    def environment(self) -> tuple[str, dict[str, Any]]:
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
    flags: FightFlags = FightFlags(),
    n_fights: Annotated[int, Parameter(name="--fights", validator=Number(gte=1))] = 20,
    seed: Seed = 0,
    append: Flag = False,
) -> int:
    """Record fights as a Minari data set for learning from demonstrations.

    Args:
        out: Folder of the data set.
        n_fights: Number of fights; ignored for a human player and a key log.
        seed: Seed of the fights, which differ from those of every evaluation.
        append: Append to an existing data set; fights that it contains are not recorded again.
    """
    from soulslab.arena.fitting.recorded_fight import TOPPED_UP_PROBE
    from soulslab.fights.recording import FightRecorder, fight_seeds

    env_id, options = flags.environment()
    if flags.policy and flags.keys:
        raise ConfigError("cannot be combined; give one of them", source="--policy and --keys")
    if flags.policy:
        find_run(flags.policy)  # an error before the data set is made
    name = str(flags.policy or ("human" if flags.keys else flags.player))
    if flags.top_up:
        if name != "probe":
            raise ConfigError("only restores the health of --player probe", source="--top-up")
        name = TOPPED_UP_PROBE
    with FightRecorder(out, env_id, options, name, is_continued=append) as recorder:
        try:
            _fight(recorder, flags, fight_seeds(seed, n_fights, recorder.writer.seeds))
        finally:
            if recorder.n_fights:
                recorded = counted(recorder.n_fights, "fight")
                n_steps = counted(recorder.n_steps, "step")
                _log.info("%s, %d of them won, %s: %s", recorded, recorder.n_wins, n_steps, out)
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


def _fight(recorder: FightRecorder, flags: FightFlags, seeds: Sequence[int]) -> None:
    from rich.progress import track

    from soulslab.fights import recording

    if flags.policy:
        from soulslab.learn.players import load_player

        player = load_player(find_run(flags.policy))
        for seed in track(seeds, "fighting", transient=True):
            recorder.play(player, seed)
    elif flags.keys:
        recording.record_key_log(recorder, flags.keys)
    elif flags.player == "human":
        recording.record_in_terminal(recorder, seeds[0])
    elif flags.player == "probe":
        from soulslab.arena.probe_player import ProbePlayer

        probe = ProbePlayer(1, seeds[0])
        for seed in track(seeds, "fighting", transient=True):
            recorder.probe(probe, seed, is_restored=flags.top_up)
    else:
        for seed in track(seeds, "fighting", transient=True):
            recording.record_fight(recorder, seed)
