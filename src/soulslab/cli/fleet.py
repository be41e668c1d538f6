"""``soulslab fleet``: many games on many machines feed one learner."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, counted, print_line, table_console
from soulslab.cli.parameters import Flag, Overrides, PrometheusPort, Repeated, TokenFile, option_group, token_options
from soulslab.cli.train import check_resume, dashboard_beside, log_completion
from soulslab.config.shell_words import shell_word
from soulslab.errors import ConfigError
from soulslab.fleet.defaults import EPSILON_ALPHA, FROZEN_S, MAX_MEMORY_MB, SPOOL_MB

if TYPE_CHECKING:
    from soulslab.fleet.fleet_folder import FleetSettings
    from soulslab.fleet.messages import EvaluationStatus, Lease
    from soulslab.fleet.operating import FleetStatus, Order

_log = logging.getLogger(__name__)

fleet = App(name="fleet", help="Many games on many machines feed one learner.", help_format="plaintext")

_Count = Annotated[int, Parameter(validator=Number(gte=1, lte=1024))]


@option_group
class LearnFlags:
    """The run and its server.

    Attributes:
        config: TOML file of a run of Rainbow or PPO, or the name of a shipped config; by default, rainbow.toml.
        overrides: Change one setting, as learner.lr=1e-4; may be repeated.
        run_dir: Folder of the run; its join file is join.toml.
        resume: Folder of a run to resume, of a fleet or of one process.
        trust: With --resume: the settings in the folder may choose programs, profiles, servers and modules.
        redis: File with the administrator's access (address, run, user, password, ca) to a Redis server that already
            runs; by default, the learner starts a server.
        listen: Address at which other machines reach the Redis server, as 192.168.1.5:6390; with TLS. By default, only
            this machine reaches it.
        max_memory_mb: Memory of the Redis server that the learner starts (MB).
        reward: Name of the function that computes the reward; each machine of the fleet has its own function of that
            name, and must allow it with --allow-reward.
        epsilon_alpha: Spread of the shares of random actions over the games; 0 gives all games the same share.
        prometheus: Port on this machine for Prometheus metrics of the run; 0 chooses a free port.
        dashboard: Show the fleet in a browser until the learner ends; prints the link.
    """

    config: Path | None = None
    overrides: Overrides = None
    run_dir: Path | None = None
    resume: Path | None = None
    trust: Flag = False
    redis: Path | None = None
    listen: str = ""
    max_memory_mb: Annotated[int, Parameter(validator=Number(gte=16, lte=1 << 20))] = MAX_MEMORY_MB
    reward: str = ""
    epsilon_alpha: Annotated[float, Parameter(validator=Number(gte=0, lte=100))] = EPSILON_ALPHA
    prometheus: PrometheusPort = None
    dashboard: Flag = False


@fleet.command
def learn(*, flags: LearnFlags = LearnFlags()) -> int:
    """Learn from the games of a fleet."""
    from soulslab.fleet.access import read_access
    from soulslab.fleet.fleet_folder import FleetSettings
    from soulslab.fleet.learning import learn as learn_from_fleet
    from soulslab.learn.configs import config_path
    from soulslab.learn.environment import describe_function
    from soulslab.learn.run_folder import CONFIG_NAME, StopReason
    from soulslab.learn.sinks import run_sinks
    from soulslab.learn.training import load_run_settings, with_env_options
    from soulslab.learn.untrusted import check_stored_settings, trust_flag

    if flags.listen and flags.redis is not None:
        raise ConfigError("has no meaning with --redis, because that server runs already", source="--listen")
    check_resume(flags.resume, flags.config, flags.run_dir)
    overrides = flags.overrides or []
    folder = flags.resume or flags.run_dir
    if folder is None:
        raise ConfigError("is missing; name the folder of the run", source="--run-dir")
    if flags.resume is not None:
        settings = load_run_settings(folder / CONFIG_NAME, overrides)
        if not flags.trust:
            check_stored_settings(settings, folder / CONFIG_NAME, overrides)
    else:
        settings = load_run_settings(config_path(flags.config or Path("rainbow.toml")), overrides)
    if flags.reward:
        _check_function_name(flags.reward, "--reward")
        settings = with_env_options(settings, {"reward": describe_function(flags.reward)})
    fleet_settings = FleetSettings(
        listen=flags.listen, max_memory_mb=flags.max_memory_mb, epsilon_alpha=flags.epsilon_alpha
    )
    with dashboard_beside(folder.resolve().parent, f"/fleet/{folder.resolve().name}", is_on=flags.dashboard):
        result = learn_from_fleet(
            settings,
            folder,
            redis=read_access(flags.redis) if flags.redis is not None else None,
            fleet=fleet_settings,
            resume=flags.resume is not None,
            sinks=run_sinks(folder, settings.sinks, prometheus_port=flags.prometheus),
        )
    won = f", {100 * result.win_rate:.1f} % of fights won" if result.win_rate is not None else ""
    _log.info("%s: %d steps in %.0f s%s; %s", result.reason, result.env_steps, result.train_seconds, won, folder)
    again = f"soulslab fleet learn --resume {shell_word(folder)}{trust_flag(settings)}{_changed_flags(fleet_settings)}"
    if result.reason in (StopReason.INTERRUPTED, StopReason.REQUESTED):
        _log.info("to resume: %s", again)
    if result.reason is StopReason.TIME:
        log_completion(again)
    return EXIT_INTERRUPTED if result.reason is StopReason.INTERRUPTED else EXIT_OK


def _changed_flags(settings: FleetSettings) -> str:
    """Return the flags that a resumed learner needs in order to have the same settings of the fleet."""
    flags = {
        "--max-memory-mb": (settings.max_memory_mb, MAX_MEMORY_MB),
        "--epsilon-alpha": (settings.epsilon_alpha, EPSILON_ALPHA),
    }
    return "".join(f" {flag} {value}" for flag, (value, default) in flags.items() if value != default)


@option_group
class PlayFlags:
    """The games of this machine.

    Attributes:
        games: Number of games; each has its own process.
        envs: Environments in each process; more than 1 only for simulators.
        evaluate: The games of this command evaluate: they play the averaged policy greedily, run.evaluate_fights fights
            at a time; the best policy is kept.
        human: Play yourself, in this terminal. Your fights are sent to the learner, and also recorded in this folder
            as a data set, from which other runs can learn. Only for soulslab/Arena-v0.
        record: Record the fights of the games in this folder: each game has a data set, 0, 1 and so on, from which
            other runs can learn (demonstrations.path).
        name: Name of this machine in the status; by default, its host name.
        dashboard: Show the games in a browser until they end; prints the link.
        allow_reward: Allow the learner to name a function of this machine as the reward, as name=module:function; may
            be repeated.
        overrides: Set an option of the environment that only this machine may determine, as env.options.launch=...; may
            be repeated.
        spool_mb: Size of the file of each game for steps while the server cannot be reached or is full (MB).
        frozen_s: Time without a step after which a game is started again (s).
    """

    games: _Count = 1
    envs: _Count = 1
    evaluate: Flag = False
    human: Path | None = None
    record: Path | None = None
    name: str = ""
    dashboard: Flag = False
    allow_reward: Repeated = None
    overrides: Overrides = None
    token_file: TokenFile = None
    spool_mb: Annotated[int, Parameter(validator=Number(gte=1, lte=1 << 20))] = SPOOL_MB
    frozen_s: Annotated[float, Parameter(validator=Number(gt=0))] = FROZEN_S


@fleet.command
def play(join: Path, *, flags: PlayFlags = PlayFlags()) -> int:
    """Play games for a learner, until it ends or Ctrl-C is pressed.

    Args:
        join: Join file of the fleet.
    """
    if flags.human is not None:
        return _play_yourself(join, flags, flags.human)
    from soulslab.config import read_overrides
    from soulslab.fleet.game_settings import game_name
    from soulslab.fleet.playing import PlaySettings
    from soulslab.fleet.playing import play as play_games

    given = read_overrides(flags.overrides or [], "--set")
    env = given.pop("env", {})
    if given or not isinstance(env, dict) or not env.keys() <= {"id", "options"}:
        raise ConfigError(
            "only env.options and env.id are settings of a game; the learner sets the others", source="--set"
        )
    if flags.evaluate and flags.envs > 1:
        raise ConfigError("must be 1 with --evaluate; use --games for more evaluation fights at a time", path="--envs")
    with ExitStack() as parts:
        feeds = ""
        if flags.dashboard:
            feeds = _show_games(join.resolve().parent, game_name(flags.name, 0), parts)
        settings = PlaySettings(
            n_games=flags.games,
            n_envs=flags.envs,
            name=flags.name,
            env_id=str(env.get("id", "")),
            role="evaluating" if flags.evaluate else "exploring",
            options={**env.get("options", {}), **token_options(flags.token_file)},
            functions=_functions(flags),
            spool_mb=flags.spool_mb,
            frozen_s=flags.frozen_s,
            feeds=feeds,
            record=str(flags.record) if flags.record is not None else "",
        )
        return EXIT_FAILED if play_games(join, settings) else EXIT_OK


def _show_games(run_dir: Path, name: str, parts: ExitStack) -> str:
    """Start a dashboard of the games; return the folder for their feeds, or "" for that of the run.

    It shows the page of the fleet if the run is on this machine, else the games alone, of which ``name`` is the first.
    """
    from tempfile import TemporaryDirectory

    from soulslab.dashboard.companion import companion
    from soulslab.fleet.fleet_folder import FLEET_NAME
    from soulslab.learn.live_feed import game_feed

    if (run_dir / FLEET_NAME).is_dir():
        parts.enter_context(dashboard_beside(run_dir.parent, f"/fleet/{run_dir.name}", is_on=True))
        return ""
    feeds = parts.enter_context(TemporaryDirectory(prefix="soulslab_games_"))
    first = game_feed(Path(feeds), name).parent.name
    parts.enter_context(companion(Path(feeds), f"/live/{first}", print_line, is_read_only=True))
    return feeds


def _functions(flags: PlayFlags) -> dict[str, str]:
    """Return the functions that the learner may name."""
    found = {}
    for each in flags.allow_reward or []:
        name, _, target = each.partition("=")
        if not name or ":" not in target:
            raise ConfigError(f"{each!r} is not of the form name=module:function", source="--allow-reward")
        _check_function_name(name, "--allow-reward")
        found[name] = target
    return found


def _check_function_name(name: str, source: str) -> None:
    from soulslab.learn.untrusted import FUNCTION_NAME

    if not FUNCTION_NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name of letters, digits, _ and ., of at most 128 characters", source=source
        )


def _play_yourself(join: Path, flags: PlayFlags, out: Path) -> int:
    from soulslab.fights.recording import FightRecorder, fight_seeds, record_in_terminal
    from soulslab.fleet.recorded_game import RecordedGame

    if flags.evaluate or flags.games > 1 or flags.envs > 1 or flags.overrides or flags.record:
        raise ConfigError("cannot be combined with --evaluate, --games, --envs, --set or --record", source="--human")
    with RecordedGame(join, flags.name, _functions(flags)) as game:
        recorder = FightRecorder(out, game.header.env_id, game.options, "human", is_continued=out.exists())
        with recorder:
            tally = record_in_terminal(recorder, fight_seeds(0, 1, recorder.writer.seeds)[0], game.send)
    played = f"{counted(tally.fights, 'fight')}, {tally.wins} of them won"
    if not game.is_sent:
        print_line(f"{played}; recorded in {out}, but not all of them could be sent to the learner")
        return EXIT_FAILED
    print_line(f"{played}; sent to the learner and recorded in {out}")
    return EXIT_OK


@fleet.command
def up(cluster: Path) -> int:
    """Start a learner and games on a Ray cluster, and wait until the run is complete or Ctrl-C is pressed.

    Args:
        cluster: YAML file of the cluster.
    """
    from soulslab.fleet.ray_cluster import read_cluster
    from soulslab.fleet.ray_cluster import up as start_cluster
    from soulslab.learn.run_folder import StopReason

    settings = read_cluster(cluster)
    result = start_cluster(settings)
    _log.info("%s: %d steps in %.0f s; %s", result.reason, result.env_steps, result.train_seconds, settings.run_dir)
    return EXIT_INTERRUPTED if result.reason is StopReason.INTERRUPTED else EXIT_OK


@fleet.command
def status(run_dir: Path, *, json: Flag = False) -> int:
    """Show the learner and all games; the exit code is 0 only if the learner runs.

    Args:
        run_dir: Folder of the run.
        json: Print JSON instead of a table.
    """
    import msgspec

    from soulslab.fleet.fleet_folder import FleetFolder
    from soulslab.fleet.operating import read_status

    found = read_status(FleetFolder(run_dir))
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
    else:
        _print_status(found)
    return EXIT_OK if found.learner is not None else EXIT_FAILED


@fleet.command
def stop(run_dir: Path) -> int:
    """Save the run, and end the learner and all games.

    Args:
        run_dir: Folder of the run.
    """
    return _order(run_dir, "stop", "the run is saved and ends, and so do all games")


@fleet.command
def save(run_dir: Path) -> int:
    """Write a checkpoint now.

    Args:
        run_dir: Folder of the run.
    """
    return _order(run_dir, "save", "a checkpoint is written")


@fleet.command
def pause(run_dir: Path) -> int:
    """Let all games wait after their episodes; the learner waits for them.

    Args:
        run_dir: Folder of the run.
    """
    return _order(run_dir, "pause", "each game waits when its episode has ended; soulslab fleet resume continues")


@fleet.command
def resume(run_dir: Path) -> int:
    """Let games that were paused continue.

    Args:
        run_dir: Folder of the run.
    """
    return _order(run_dir, "run", "the games continue")


@fleet.command(name="set")
def change(run_dir: Path, *changes: str) -> int:
    """Change settings of the learner while it trains.

    Of Rainbow: learner.lr, learner.epsilon and learner.epsilon_end. Of PPO: learner.lr, learner.lr_end,
    learner.entropy, learner.entropy_end, learner.clip and learner.target_kl. Of both: the weights of the reward that
    the config has, as env.options.reward.win=2.

    Args:
        run_dir: Folder of the run.
        changes: Settings with their values, as learner.lr=1e-4.
    """
    from soulslab.config import read_overrides
    from soulslab.fleet.fleet_folder import FleetFolder
    from soulslab.fleet.operating import change_settings

    if not changes:
        raise ConfigError("is missing; name a setting and its value, as learner.lr=1e-4", path="changes")
    print_line(change_settings(FleetFolder(run_dir), dict(_paths(read_overrides(list(changes), "fleet set")))))
    return EXIT_OK


@fleet.command
def invite(run_dir: Path, join: Path) -> int:
    """Write a further join file, with a credential that can be revoked on its own.

    Args:
        run_dir: Folder of the run.
        join: Join file to write.
    """
    from soulslab.fleet.fleet_folder import FleetFolder
    from soulslab.fleet.operating import invite as make_user

    folder = FleetFolder(run_dir)
    user = folder.invite(join)
    make_user(folder, user)
    print_line(f"{join} has the credential of the user {user.name}")
    return EXIT_OK


@fleet.command
def revoke(run_dir: Path, user: str) -> int:
    """Revoke the credential of a join file; games that use it end.

    Args:
        run_dir: Folder of the run.
        user: User in the join file.
    """
    from soulslab.fleet.fleet_folder import FleetFolder
    from soulslab.fleet.operating import revoke as remove_user

    remove_user(FleetFolder(run_dir), user)
    print_line(f"the user {user} is revoked")
    return EXIT_OK


def _paths(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables with their paths, as ``learner.lr``."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _order(run_dir: Path, order: Order, effect: str) -> int:
    from soulslab.fleet.fleet_folder import FleetFolder
    from soulslab.fleet.operating import give_order

    give_order(FleetFolder(run_dir), order)
    print_line(effect)
    return EXIT_OK


def _print_status(found: FleetStatus) -> None:
    from rich.table import Table

    learner = found.learner
    if learner is None:
        print_line("the learner does not run")
    else:
        delay = f"{learner.delay_p95_ms:.0f} ms" if learner.delay_p95_ms is not None else "unknown"
        print_line(
            f"learner on {learner.host}, process {learner.pid}: {learner.env_steps} decisions, "
            f"{learner.n_updates} updates, {learner.n_games} games, delay {delay} (p95), order: {found.state}"
        )
        if learner.evaluation is not None:
            print_line(_describe(learner.evaluation))
        for refusal in learner.refusals:
            print_line(f"refused: {refusal}")
    shown = (
        f"{found.redis_mb:.0f} MB" if found.redis_mb is not None else "unknown, because it refuses INFO to this user"
    )
    print_line(f"memory of the Redis server: {shown}")
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    titles = ("steps", "steps\n/s", "late\nms", "idle\ns", "weights", "age\ns", "unsent\nMB", "dropped", "restarts")
    for title in ("game", "state"):
        table.add_column(title, no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for game in found.games:
        table.add_row(*_row(game))
    table_console().print(table)
    for game in found.games:
        if game.last_fault:
            print_line(f"{game.worker} was restarted: it {game.last_fault}")


def _describe(evaluation: EvaluationStatus) -> str:
    """Return the last evaluation and the progress of the running one in words."""
    running = f"{evaluation.n_done} of {evaluation.n_fights} fights of the next are played"
    last = evaluation.last
    if last is None or last.win_rate is None or last.low is None or last.high is None:
        return f"evaluation: no result yet; {running}"
    return (
        f"evaluation at {last.env_steps} decisions: {100 * last.win_rate:.1f} % of {last.n_fights} fights won "
        f"(95 % interval {100 * last.low:.1f} to {100 * last.high:.1f}); {running}"
    )


def _row(game: Lease) -> tuple[str, ...]:
    numbers = (
        game.steps_per_second,
        game.lateness_p99_ms,
        game.idle_s,
        game.weights_version,
        game.age_of_weights_s,
        game.n_unsent_bytes / 1e6,
        game.n_dropped,
        game.n_restarts,
    )
    shown = ("" if each is None else f"{each:.1f}" if isinstance(each, float) else str(each) for each in numbers)
    return (game.worker, game.activity, str(game.n_steps), *shown)
