"""``soulslab boss``: boss files of the built-in fight, and their fit to recorded fights."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_OK, check_file, counted, print_line, table_console
from soulslab.cli.parameters import EnvironmentFlags, Flag, Minutes, Repeated, Seed, TokenFile, find_run
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.fights.prediction import TrainedFacts

_log = logging.getLogger(__name__)

#: Lines of what to record next that are printed.
MAX_ADVICE: Final = 12

boss = App(name="boss", help="Boss files of the built-in fight, and their fit to recorded fights.")


@boss.command
def write(name: str, out: Path) -> int:
    """Write a boss as a boss file, to read or to change.

    Args:
        name: A shipped boss, generated:SEED, or the path of a boss file.
        out: The file, which must not exist.
    """
    from soulslab.arena.boss_catalog import find_boss
    from soulslab.config.writing import dump_settings

    if out.suffix != ".toml":
        raise ConfigError("must end in .toml, as the path of every boss file", source=out)
    check_file(out)
    text = dump_settings(find_boss(name))
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError("already exists; choose another name, or remove the file", source=out) from error
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", source=out) from error
    _log.info("%s", out)
    return EXIT_OK


@boss.command
def record(
    out: Path,
    *,
    name: Annotated[str, Parameter(name="--boss")] = "judge",
    player: Literal["probe", "reference"] = "probe",
    minutes: Minutes = 20.0,
    seed: Seed = 0,
    no_top_up: Flag = False,
) -> int:
    """Record fights of the built-in boss at the game's frame rate, for a fit.

    Args:
        out: Folder of the recording; fights are added to those in it, which must be of the same boss.
        name: A shipped boss, generated:SEED, or the path of a boss file.
        player: probe: a script that shows how an unknown boss fights; reference: the script that knows the bosses.
        minutes: Game time.
        seed: Seed of the first fight in a new folder; the others follow, also in later recordings.
        no_top_up: Do not restore the player's health during a fight.
    """
    from msgspec.structs import replace

    from soulslab.arena.boss_catalog import find_boss
    from soulslab.arena.fitting.recorded_fight import fight_files, last_number, read_fight, save_fight
    from soulslab.arena.fitting.simulated import record_simulated
    from soulslab.arena.probe_player import ProbePlayer
    from soulslab.arena.reference_player import ReferencePlayer
    from soulslab.learn.archive import remove_temporary_files
    from soulslab.learn.sinks.console_sink import make_progress

    opponent, shown_name = find_boss(name), Path(name).name
    for file in fight_files(out)[-1:]:
        recorded = read_fight(file).boss
        if recorded not in ("", shown_name):
            raise ConfigError(f"holds fights of {recorded}, not of {shown_name}; choose another folder", source=out)
    remove_temporary_files(out)
    seed += last_number(out)  # a fit would count the same fights twice
    # One player for all fights: the probe learns from each of them.
    plays = ProbePlayer(1, seed) if player == "probe" else ReferencePlayer(opponent, 1)
    fights = record_simulated(
        opponent,
        lambda _: plays,
        seed=seed,
        minutes=minutes,
        top_up=not no_top_up,
    )
    n_fights, game_time_s = 0, 0.0
    try:
        with make_progress(None) as progress:
            task = progress.add_task("recording", total=60 * minutes, numbers="0 fights")
            for fight in fights:
                save_fight(out, replace(fight, player=player, boss=shown_name))
                n_fights, game_time_s = n_fights + 1, game_time_s + fight.game_time_s
                numbers = f"{counted(n_fights, 'fight')}  {game_time_s / 60:.1f} of {minutes:g} minutes"
                progress.update(task, completed=game_time_s, numbers=numbers)
    except KeyboardInterrupt:
        n_saved = counted(len(fight_files(out)), "fight")
        _log.info("%s contains %s; the same command adds further fights", out, n_saved)
        raise
    _log.info("%s, %.1f minutes: %s", counted(n_fights, "fight"), game_time_s / 60, out)
    return EXIT_OK


@boss.command
def fit(
    *recordings: Path,
    out: Path,
    profile: Path | None = None,
    name: str = "The Fitted Boss",
    ground: str | None = None,
    known: Path | None = None,
) -> int:
    """Fit a boss file to recorded fights, with an interval for each number.

    Writes the boss file, its uncertainty file and a picture, and prints what is known, and what to record next.

    Args:
        recordings: Folders of boss record, data sets of fights record or evaluate --record, or files of siphon record.
        out: The boss file, which is replaced if it exists.
        profile: Game or profile of a file of siphon record.
        name: Name of the boss.
        ground: Boss whose ground it is, if that is known from elsewhere.
        known: TOML file of numbers of the boss that are known from elsewhere, by animation; see "Known numbers" in the
            documentation of fits.
    """
    from soulslab.arena.boss_catalog import find_boss
    from soulslab.arena.fitting.fit import fit_boss
    from soulslab.arena.fitting.known_numbers import read_known_numbers
    from soulslab.arena.knight_file import load_knight
    from soulslab.fights.fit_picture import write_picture
    from soulslab.fights.fit_recordings import read_recorded_fights, write_fit
    from soulslab.fights.fit_report import advice, fit_tables, unexplained

    if out.suffix != ".toml":
        raise ConfigError("must end in .toml, as the path of every boss file", source=out)
    check_file(out)
    if not recordings:
        raise ConfigError("name at least one recording, such as a folder of soulslab boss record", source="boss fit")
    known_ground = find_boss(ground).ground if ground else None
    numbers = read_known_numbers(known) if known else {}
    fights = read_recorded_fights(recordings, profile)
    result = fit_boss(fights, load_knight(), name=name, ground=known_ground, known=numbers)
    if result.unused:
        raise ConfigError("; ".join(result.unused), source=known or "")
    for contradiction in result.contradictions:
        _log.warning("%s: %s", known, contradiction)
    write_fit(result, out, recordings)
    write_picture(result, out.with_suffix(".png"))
    console = table_console()
    for table in fit_tables(result):
        console.print(table, "")
    n_measured = len(result.uncertainty.intervals) - len(result.known)
    seen = f"{counted(len(fights), 'fight')}, {result.uncertainty.game_time_s / 60:.1f} minutes"
    from_elsewhere = f", {counted(len(result.known), 'number')} known from elsewhere" if result.known else ""
    print_line(f"{seen}, {counted(n_measured, 'number')} measured{from_elsewhere}")
    print_line(f"{result.n_hits - result.n_unexplained_hits} of {result.n_hits} hits are explained by the fit")
    print_line(f"attacks that never hit: {', '.join(unexplained(result)) or 'none'}")
    lines = advice(result)
    for number, line in enumerate(lines[:MAX_ADVICE]):
        print_line(f"{'record next:' if number == 0 else '            '} {line}")
    if len(lines) > MAX_ADVICE:
        print_line(f"             and {len(lines) - MAX_ADVICE} more, which are less useful")
    _log.info("%s, %s and %s", out, out.with_suffix(".uncertainty.toml").name, out.with_suffix(".png").name)
    return EXIT_OK


@boss.command
def predict(
    run: Path,
    *recordings: Path,
    profile: Path | None = None,
    bosses: Annotated[int, Parameter(validator=Number(gte=1))] = 20,
    fights: Annotated[int, Parameter(validator=Number(gte=1))] = 100,
    seed: Seed = 0,
) -> int:
    """Predict how often a policy wins against a recorded boss, without fighting it.

    Args:
        run: Folder of a run of fitted.toml, or its policy file.
        recordings: Recordings of the boss; by default, those to which the boss of the run was fitted.
        profile: Game or profile of a file of siphon record.
        bosses: Bosses that the recordings allow; the 90 % interval is calibrated with 20.
        fights: Fights with each of them, in the simulator.
        seed: Seed of the bosses and the fights.
    """
    run = find_run(run)
    from soulslab.envs.duels import TRAINING_CONDITIONS
    from soulslab.fights.fit_recordings import read_recorded_fights
    from soulslab.fights.prediction import PredictionSettings, trained_facts
    from soulslab.fights.prediction import predict as predict_wins
    from soulslab.learn.players import load_player
    from soulslab.learn.untrusted import check_named_environment

    player = load_player(run)
    trained = player.header.env_options
    check_named_environment("", _without_boss(trained), run)
    options = {name: value for name, value in trained.items() if name not in TRAINING_CONDITIONS}
    settings = PredictionSettings(env_options=options, n_bosses=bosses, n_fights=fights, seed=seed)
    facts = trained_facts(trained, run)
    recorded = read_recorded_fights(recordings or _recordings_of(facts, run), profile)
    found = predict_wins(player, recorded, settings, facts.ground, facts.known)
    low, high = found.interval
    print_line(f"expected wins: {100 * found.win_rate:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)")
    return EXIT_OK


@boss.command
def refine(
    run: Path,
    *recordings: Path,
    out: Path | None = None,
    env: str,
    option: Repeated = None,
    profile: Path | None = None,
    minutes: Minutes = 4.0,
    rounds: Annotated[int, Parameter(validator=Number(gte=1))] = 5,
    decisions: Annotated[int, Parameter(validator=Number(gt=0))] = 8_000_000,
    seed: Seed = 0,
    token_file: TokenFile = None,
    trust: Flag = False,
    resume: Flag = False,
) -> int:
    """Improve a policy for a fitted boss: it fights, its fights are recorded and fitted, and it trains on.

    Ends after the training that follows the last round, or when all fights of the last rounds were won, at least ten.

    Args:
        run: Folder of a run of fitted.toml.
        recordings: Recordings to which its boss was fitted; by default, those that its uncertainty file names.
        out: Folder of the rounds, which must not exist, except with --resume; by default RUN_refined.
        env: Environment of the fights, such as soulslab/EldenRingMargit-v0.
        option: Value of an option of the environment, as boss=judge; may be repeated.
        profile: Game or profile of a file of siphon record.
        minutes: Game time of the fights of each round; its last fight is completed.
        rounds: Greatest number of rounds.
        decisions: Decisions of the training of each round, in the simulator.
        seed: Seed of the fights.
        trust: The files of the run may choose programs, profiles, servers and modules of the environment.
        resume: Continue an interrupted refinement in its folder, with the same values; only --rounds may differ.
    """
    run = find_run(run)
    out = out or run.with_name(f"{run.name}_refined")
    from soulslab.fights.prediction import trained_facts
    from soulslab.fights.refinement import STATE_NAME, RefineSettings, refine
    from soulslab.learn.path_settings import absolute_paths
    from soulslab.learn.players import load_player
    from soulslab.learn.run_folder import CONFIG_NAME
    from soulslab.learn.sinks import run_sinks
    from soulslab.learn.training import load_run_settings
    from soulslab.learn.untrusted import check_named_environment

    header = load_player(run).header
    flags = EnvironmentFlags(env=env, option=option, token_file=token_file, trust=trust)
    env_id, options = flags.choose(header.env_id, header.env_options, run)
    trained = load_run_settings(run / CONFIG_NAME).env
    if not trust:
        check_named_environment(trained.id, _without_boss(trained.options), run / CONFIG_NAME)
    settings = RefineSettings(
        env_id=env_id,
        env_options=options,
        minutes=minutes,
        max_rounds=rounds,
        decisions=decisions,
        seed=seed,
        profile=absolute_paths("env.options.profile", str(profile)) if profile is not None else "",
    )
    rows = []
    try:
        used = recordings or _recordings_of(trained_facts(trained.options, run), run)
        for each in refine(run, used, out, settings, run_sinks, resume=resume):
            low, high = each.interval
            wins = f"{each.n_wins} of {counted(each.n_fights, 'fight')} won ({100 * low:.0f} to {100 * high:.0f} %)"
            print_line(f"round {each.number}: {wins}, {each.game_time_s / 60:.1f} minutes: {each.run}")
            rows.append(each)
    except KeyboardInterrupt:
        if (out / STATE_NAME).exists():
            _log.info("to resume: the same command with --resume")
        raise
    last = rows[-1]
    how = "won all fights of the last rounds" if last.refined == last.run else "was trained with all recordings"
    _log.info("the policy that %s: %s", how, last.refined)
    return EXIT_OK


def _without_boss(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a training without its boss, which the fit to the recordings replaces."""
    return {name: value for name, value in options.items() if name != "boss"}


def _recordings_of(facts: TrainedFacts, run: Path) -> tuple[Path, ...]:
    """Return the recordings to which the boss of a run was fitted; raise `ConfigError` if they are unknown."""
    if not facts.recordings:
        raise ConfigError(
            "its boss does not name the recordings to which it was fitted; give them after the run",
            source=run,
        )
    return facts.recordings
