"""The command line: it parses, wires and exits with a code; what the commands do lives elsewhere.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted.

Everything heavy is imported inside the command that needs it, so that ``soulslab --help`` answers at once.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number

from soulslab.cli_arena import arena
from soulslab.cli_bench import A_SEED, bench
from soulslab.cli_fights import fights
from soulslab.cli_files import (
    TokenFile,
    check_json,
    check_run,
    table_console,
    token_options,
    token_overrides,
    write_json,
)
from soulslab.cli_games import games
from soulslab.cli_policies import film, join, remove_tokens
from soulslab.cli_serve import serve
from soulslab.cli_siphon import siphon
from soulslab.cli_siphon_control import shell as _shell  # noqa: F401 (adds its commands to siphon)
from soulslab.cli_tune import tune
from soulslab.cli_verify import compare, verify
from soulslab.errors import ConfigError, EnvironmentUsageError, SoulslabError, missing_dependency
from soulslab.version import VERSION

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
TRACEBACK_VERBOSITY = 2
HELP_FLAGS = {"--help", "-h", "--version"}

_log = logging.getLogger(__name__)

app = App(
    name="soulslab",
    help="Reinforcement learning on Souls games, with a built-in boss fight.",
    version=VERSION,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # it is handled below
)
siphon.command(serve)
siphon.command(verify)
siphon.command(compare)
app.command(siphon)
app.command(arena)
app.command(bench)
app.command(tune)
app.command(fights)
app.command(games)
app.command(join)
app.command(remove_tokens)
app.command(film)


def main() -> None:
    """Run the command of this process and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: What stands after ``soulslab``.

    Returns:
        The exit code.
    """
    try:
        return app.meta(arguments, exit_on_error=False, result_action="return_value") or EXIT_OK
    except CycloptsError:  # cyclopts has printed it
        return EXIT_USAGE


@app.meta.default
def _launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    verbose: Annotated[int, Parameter(name=["-v", "--verbose"], count=True, show_default=False)] = 0,
) -> int:
    """Run a command with its logging and its errors.

    Args:
        tokens: The command and its arguments.
        verbose: Say more; -vv says everything, with tracebacks.
    """
    # What follows -- is the command line of a game, whose own flags are no business of ours.
    if not HELP_FLAGS.isdisjoint(tokens[: tokens.index("--")] if "--" in tokens else tokens):
        return app(tokens, exit_on_error=False, result_action="return_value") or EXIT_OK
    import gymnasium

    from soulslab.envs.registration import register_all
    from soulslab.log import configure

    register_all()
    configure(verbose)
    try:
        return app(tokens, exit_on_error=False, result_action="return_value") or EXIT_OK
    except (SoulslabError, gymnasium.error.Error, ModuleNotFoundError) as error:
        missing = missing_dependency(error) if isinstance(error, ModuleNotFoundError) else None
        if verbose >= TRACEBACK_VERBOSITY or (isinstance(error, ModuleNotFoundError) and missing is None):
            raise
        sys.stderr.write(f"soulslab: {missing or error}\n")
        is_usage = isinstance(error, ConfigError | EnvironmentUsageError | gymnasium.error.UnregisteredEnv)
        return EXIT_USAGE if is_usage else EXIT_FAILED
    except KeyboardInterrupt:
        sys.stderr.write("soulslab: interrupted\n")
        return EXIT_INTERRUPTED


# --- environments and machine -------------------------------------------------------------------------------


@app.command
def envs() -> None:
    """List the environments."""
    from soulslab.envs.registration import DESCRIPTIONS

    width = max(map(len, DESCRIPTIONS))
    sys.stdout.write("".join(f"{name:{width}}  {text}\n" for name, text in sorted(DESCRIPTIONS.items())))


@app.command
def doctor(*, dev: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Show what works on this machine, and what to do about the rest.

    The exit code is 0 if only optional parts are missing.

    Args:
        dev: Also check what the tests and the development of soulslab need.
    """
    from soulslab.doctor import State, examine, lines, table

    checks = examine(is_dev=dev)
    if sys.stdout.isatty():
        table_console().print(table(checks))
    else:
        sys.stdout.write(lines(checks))
    return EXIT_FAILED if any(check.state is State.MISSING for check in checks) else EXIT_OK


# --- learning -----------------------------------------------------------------------------------------------


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class SettingsFlags:
    """Settings of a run.

    Attributes:
        env: Gymnasium id of the environment; the config's own by default.
        config: TOML file, or the name of one that comes with soulslab, such as demo.toml; by default the one that comes
            with soulslab for the environment.
        overrides: Change one setting, as learner.lr=1e-4; may be given many times.
        token_file: File with the token of the environment's server; - asks for the token. By default it is in the
            environment variable SOULSLAB_TOKEN.
    """

    env: str | None = None
    config: Path | None = None
    overrides: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None
    token_file: TokenFile = None

    def changes(self) -> list[str]:
        """Return the flags that change single settings, in the form of ``--set``."""
        env = [f"env.id={self.env}"] if self.env else []
        return [*env, *(self.overrides or []), *token_overrides(self.token_file)]


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class ResumeFlags:
    """Which run to go on with.

    Attributes:
        resume: Folder of a run to go on with, with the settings that it was started with.
        trust: With --resume: the settings in the folder may choose programs, profiles, servers and modules.
    """

    resume: Path | None = None
    trust: Annotated[bool, Parameter(negative="")] = False


@app.command
def train(
    *,
    flags: SettingsFlags | None = None,
    run_dir: Path | None = None,
    resuming: ResumeFlags | None = None,
    prometheus: Annotated[int | None, Parameter(validator=Number(gte=0, lte=65535))] = None,
) -> int:
    """Train an agent.

    Args:
        flags: Settings of the run.
        run_dir: Folder for what the run leaves behind; runs/ and the time of day by default.
        resuming: Which run to go on with.
        prometheus: Port on this machine where Prometheus can read the run's numbers; 0 takes a free one.
    """
    from soulslab.learn.configs import config_path
    from soulslab.learn.runs import CONFIG_NAME, StopReason
    from soulslab.learn.sinks import run_sinks
    from soulslab.learn.train import train as train_policy
    from soulslab.learn.training import load_new_run_settings, load_run_settings
    from soulslab.learn.untrusted import check_stored_settings, trust_flag

    flags, resuming = flags or SettingsFlags(), resuming or ResumeFlags()
    resume = resuming.resume
    if resume is not None and (flags.config is not None or run_dir is not None):
        raise ConfigError(
            "takes its settings and its folder from the run: no --config, no --run-dir", source="--resume"
        )
    folder = resume or run_dir or _new_run_dir()
    if resume is not None:
        settings = load_run_settings(resume / CONFIG_NAME, flags.changes())
        if not resuming.trust:
            check_stored_settings(settings, resume / CONFIG_NAME, flags.changes())
    else:
        file = config_path(flags.config) if flags.config else None
        settings = load_new_run_settings(file, flags.changes())
    sinks = run_sinks(folder, prometheus_port=prometheus)
    result = train_policy(settings, folder, resume=resume is not None, sinks=sinks)
    won = "" if result.win_rate is None else f", {100 * result.win_rate:.1f} % of fights won"
    _log.info("%s: %d steps in %.0f s%s; %s", result.reason, result.env_steps, result.train_seconds, won, folder)
    if result.reason is StopReason.INTERRUPTED:
        _log.info("to go on: soulslab train --resume %s%s", folder, trust_flag(settings))
        return EXIT_INTERRUPTED
    return EXIT_OK


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class EvaluateFlags:
    """What to evaluate on.

    Attributes:
        fights: Number of fresh fights.
        envs: Environments side by side, each a game of its own if it is one; by default as many as in training.
        env: Another environment that takes its policies, such as soulslab/DarkSouls3Iudex-v0.
        option: Another value of one of its options, as stand_in=true; may be given many times.
        boss: Another boss than the one it was trained on.
        phase: Another phase: 1, 2 or full.
        seed: Seed of the fights.
        greedy: Only with the likeliest action at each decision; both ways by default.
        sampled: Only with actions drawn from the policy; both ways by default.
        json: Also write the tables to this file.
        token_file: File with the token of the environment's server; - asks for the token. By default it is in the
            environment variable SOULSLAB_TOKEN.
        trust: The policy's file may choose programs, profiles, servers and modules of the environment.
    """

    fights: Annotated[int, Parameter(validator=Number(gte=1))] = 1000
    envs: Annotated[int | None, Parameter(validator=Number(gte=1, lte=65536))] = None
    env: str | None = None
    option: Annotated[list[str] | None, Parameter(negative="")] = None
    boss: str | None = None
    phase: str | None = None
    seed: Annotated[int, Parameter(validator=A_SEED)] = 0
    greedy: Annotated[bool, Parameter(negative="")] = False
    sampled: Annotated[bool, Parameter(negative="")] = False
    json: Path | None = None
    token_file: TokenFile = None
    trust: Annotated[bool, Parameter(negative="")] = False

    def environment(self, trained_id: str, trained: dict[str, Any], source: Path) -> tuple[str, dict[str, Any]]:
        """Return the environment's id and its options.

        Args:
            trained_id: Id of the environment that the agent was trained on.
            trained: Options of that environment.
            source: File of the policy, for messages.

        Raises:
            UntrustedFileError: The file decides what runs, and was not trusted.
        """
        from soulslab.config import read_overrides
        from soulslab.learn.untrusted import check_named_environment

        named = {name: value for name, value in (("boss", self.boss), ("phase", self.phase)) if value is not None}
        named |= read_overrides(self.option or (), "--option")
        # Another environment has bosses of its own.
        dropped = {*named, "boss"} if self.env else {*named}
        kept = {name: value for name, value in trained.items() if name not in dropped}
        if not self.trust:
            check_named_environment("" if self.env else trained_id, kept, source)
        return self.env or trained_id, {**kept, **named, **token_options(self.token_file)}

    def ways(self) -> list[str]:
        """Return the ways of choosing actions that were asked for; neither flag asks for both."""
        asked = [way for way, is_asked in (("greedy", self.greedy), ("sampled", self.sampled)) if is_asked]
        return asked or ["greedy", "sampled"]


@app.command
def evaluate(run: Path, *, flags: EvaluateFlags | None = None) -> int:
    """Measure how often a trained agent wins.

    Args:
        run: Folder of a run, or a policy file.
        flags: What to evaluate on.
    """
    flags = flags or EvaluateFlags()
    check_json(flags.json)
    check_run(run)
    from soulslab.config import without_secrets
    from soulslab.learn.evaluate import EvaluationSettings
    from soulslab.learn.evaluate import evaluate as evaluate_policy
    from soulslab.learn.players import load_player
    from soulslab.learn.sinks import ConsoleSink
    from soulslab.report import evaluation_rows, evaluation_tables

    policy = load_player(run)
    header = policy.header
    env_id, options = flags.environment(header.env_id, _without_functions(header.env_options), run)
    evaluations = {}
    sink = ConsoleSink()
    for way in flags.ways():
        settings = EvaluationSettings(
            env_id=env_id,
            env_options=options,
            n_fights=flags.fights,
            n_envs=flags.envs,
            seed=flags.seed,
            deterministic=way == "greedy",
        )
        evaluations[way] = evaluate_policy(policy, settings, sinks=[sink])
    for table in evaluation_tables(evaluations):
        table_console().print(table, "")
    if flags.json:
        write_json(
            flags.json, evaluation_rows(evaluations, {"env": env_id, **without_secrets(options), "seed": flags.seed})
        )
    return EXIT_OK


def _without_functions(options: dict[str, Any]) -> dict[str, Any]:
    """Leave out the options that were Python functions in training: a reward does not change who wins."""
    known = {}
    for name, value in options.items():
        if isinstance(value, str) and value.startswith("<function "):
            _log.warning("left out %s=%s, which only Python can pass; returns are those of the default", name, value)
        else:
            known[name] = value
    return known


# --- demo, play, bench -------------------------------------------------------------------------


@app.command
def demo(
    *,
    config: Path = Path("demo.toml"),
    overrides: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None,
    run_dir: Path = Path("runs/demo"),
) -> int:
    """Train an agent on the built-in boss fight, evaluate it, and film a fight that it won.

    Args:
        config: TOML file, or the name of one that comes with soulslab.
        overrides: Change one setting, as run.seed=1; may be given many times.
        run_dir: Folder for everything; a finished demo in it is moved aside, an interrupted one goes on.
    """
    from rich.console import Console

    from soulslab.demo import run_demo
    from soulslab.learn.configs import config_path

    report = run_demo(config_path(config), run_dir, overrides or [])
    if report is None:
        _log.info("to go on: soulslab demo --run-dir %s", run_dir)
        return EXIT_INTERRUPTED
    Console(soft_wrap=True).print(f"{report.line()}; see {run_dir}", highlight=False)
    return EXIT_OK


@app.command
def play(
    *,
    boss: str | None = None,
    phase: str | None = None,
    seed: Annotated[int | None, Parameter(validator=A_SEED)] = None,
    policy: Path | None = None,
    window: Annotated[bool, Parameter(negative="")] = False,
    explain: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Fight a boss yourself in the terminal, or watch a policy do it; in a window you fight with soulslab arena.

    Args:
        boss: A shipped boss, or the path of a boss file; by default the policy's own, or the judge.
        phase: 1, 2 or full; by default the policy's own, or full.
        seed: Seed of the first fight; another one each time by default.
        policy: Folder of a run, or a policy file, that plays in your place.
        window: Watch the policy in the window of the fight, in real time.
        explain: Show the policy's scores of the actions and the reward of each decision; P pauses, N plays one.
    """
    import gymnasium

    from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
    from soulslab.play.game import play as play_fights

    if policy is None:
        if window:
            raise ConfigError("shows a policy: name one with --policy; by hand: soulslab arena", source="--window")
        if explain:
            raise ConfigError("is for a policy in the terminal: name one with --policy", source="--explain")
        fight: dict[str, Any] = {"boss": boss or "judge", "phase": phase or "full", "random_pose": True}
        play_fights(gymnasium.make(ARENA_ID, **fight), seed=seed)
        return EXIT_OK
    check_run(policy)
    # A person in the terminal needs none of the packages of the learner.
    from soulslab.learn.players import load_player
    from soulslab.play.watching import act_of, fight_options
    from soulslab.play.window import watch

    if explain and window:
        raise ConfigError("is for the terminal; leave out --window", source="--explain")
    player = load_player(policy)
    env_id = ARENA_LIVE_ID if window else ARENA_ID
    fight = fight_options(env_id, player.header, boss=boss, phase=phase)
    if window:
        tally = watch(lambda env: act_of(player, env, str(policy)), fight, seed=seed)
        _log.info("%d of %d fights won", tally.wins, tally.fights)
        return EXIT_OK
    env = gymnasium.make(env_id, **fight)
    act = act_of(player, env, str(policy))
    play_fights(env, seed=seed, act=act, describe=act.describe if explain else None)
    return EXIT_OK


def _new_run_dir() -> Path:
    """Return a folder that no other run has: the time is unique enough for a person."""
    from datetime import datetime

    return Path("runs") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
