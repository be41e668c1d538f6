"""``soulslab fights``: record demonstrations, and show data sets of them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_OK, counted, table_console
from soulslab.cli.parameters import Flag, Minutes, Overrides, Seed, TokenFile, find_run, option_group, token_overrides
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from soulslab.fights.recording import FightRecorder

_log = logging.getLogger(__name__)

#: Fights of a recording without --fights and --minutes.
N_FIGHTS: Final = 20

fights = App(name="fights", help="Record fights as demonstrations, and show recorded data sets.")


@option_group
class FightFlags:
    """The player and the fight.

    Attributes:
        env: Gymnasium id of the environment, such as soulslab/EldenRingMargit-v0; by default, that of the config.
        player: reference: a script that knows the arena's bosses, the default there; probe: a script that knows no
            boss, and plays to show how it fights, the default elsewhere; human: you, in this terminal.
        policy: Folder of a run, a policy file, or the name of a shipped policy, such as judge, to use as the player.
        keys: Key log of fights in the window (soulslab arena --log); its complete fights are recorded.
        config: Config with the environment and its options, to be used for training later.
        boss: Boss; by default, that of the config.
        phase: 1, 2 or full; by default, that of the config.
        overrides: Change one setting of the environment, as env.options.skip_locked=true; may be repeated.
        top_up: Restore the player's health in the game below 70 %, so that fights show the second phase; only with
            the probe.
    """

    env: str | None = None
    player: Literal["reference", "probe", "human"] | None = None
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
        from soulslab.learn.path_settings import absolute_options

        env = [f"env.id={self.env}"] if self.env else []
        changes = [*env, *(self.overrides or []), *token_overrides(self.token_file)]
        settings = env_settings(config_path(self.config) if self.config else None, changes)
        chosen = {name: value for name, value in (("boss", self.boss), ("phase", self.phase)) if value is not None}
        return settings.id, absolute_options({**settings.options, **chosen})

    def player_in(self, env_id: str) -> str:
        """Return the kind of player in an environment: policy, keys, reference, probe or human."""
        from soulslab.envs.registration import ARENA_ID

        if self.policy and self.keys:
            raise ConfigError("cannot be combined; give one of them", source="--policy and --keys")
        if self.policy:
            find_run(self.policy)  # an error before the data set is made
            return "policy"
        return "keys" if self.keys else self.player or ("reference" if env_id == ARENA_ID else "probe")


@fights.command
def record(
    out: Path,
    *,
    flags: FightFlags = FightFlags(),
    n_fights: Annotated[int | None, Parameter(name="--fights", validator=Number(gte=1))] = None,
    minutes: Minutes | None = None,
    seed: Seed = 0,
    append: Flag = False,
) -> int:
    """Record fights as a Minari data set, for learning from demonstrations and for soulslab boss fit.

    Args:
        out: Folder of the data set.
        n_fights: Number of fights, by default 20; not for a human player or a key log.
        minutes: Game time to record, for duels only, instead of a number of fights; the last fight is completed.
        seed: Seed of the fights, which differ from those of every evaluation.
        append: Append to an existing data set; fights that it contains are not recorded again.
    """
    from soulslab.arena.fitting.recorded_fight import TOPPED_UP_PROBE
    from soulslab.fights.recording import FightRecorder

    env_id, options = flags.environment()
    player = flags.player_in(env_id)
    limits = [name for name, value in (("--fights", n_fights), ("--minutes", minutes)) if value is not None]
    if len(limits) > 1:
        raise ConfigError("cannot be combined; give one of them", source=" and ".join(limits))
    if limits and player in ("keys", "human"):
        problem = "is not for key logs, of which all complete fights are recorded, or people, who end with Q"
        raise ConfigError(problem, source=limits[0])
    if flags.top_up and player != "probe":
        raise ConfigError("only restores the health of --player probe", source="--top-up")
    name = {"policy": str(flags.policy), "keys": "human"}.get(player, TOPPED_UP_PROBE if flags.top_up else player)
    with FightRecorder(out, env_id, options, name, is_continued=append) as recorder:
        try:
            _fight(recorder, flags, player, _Amount(seed, n_fights if limits else N_FIGHTS, minutes))
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


@dataclass(frozen=True)
class _Amount:
    """How much is recorded: a number of fights, or minutes of game time."""

    seed: int
    n_fights: int | None
    minutes: float | None


def _fight(recorder: FightRecorder, flags: FightFlags, player: str, amount: _Amount) -> None:
    from soulslab.fights import recording
    from soulslab.learn.sinks.console_sink import make_progress

    first = next(recorder.seeds(amount.seed))
    if flags.keys:
        recording.record_key_log(recorder, flags.keys)
    elif player == "human":
        recording.record_in_terminal(recorder, first)
    else:
        play = _make_player(recorder, flags, player, first)
        total = 60.0 * amount.minutes if amount.minutes else amount.n_fights
        with make_progress(None) as progress:
            task = progress.add_task("recording", total=total, numbers="0 fights")
            for seed in recorder.seeds(amount.seed, n_fights=amount.n_fights, minutes=amount.minutes):
                play(seed)
                numbers, done = counted(recorder.n_fights, "fight"), float(recorder.n_fights)
                if amount.minutes:
                    done = recorder.game_time_s
                    numbers += f"  {done / 60:.1f} of {amount.minutes:g} minutes"
                progress.update(task, completed=done, numbers=numbers)


def _make_player(recorder: FightRecorder, flags: FightFlags, player: str, first: int) -> Callable[[int], object]:
    """Return a function that plays and records a fight, given its seed; ``first`` is that of the first fight."""
    if flags.policy:
        from soulslab.learn.players import load_player

        policy = load_player(find_run(flags.policy))
        return lambda seed: recorder.play(policy, seed)
    if player == "probe":
        from soulslab.arena.probe_player import ProbePlayer

        probe = ProbePlayer(1, first)
        return lambda seed: recorder.probe(probe, seed, is_restored=flags.top_up)
    from soulslab.fights.recording import record_fight

    return lambda seed: record_fight(recorder, seed)
