"""``soulslab train`` and ``soulslab demo``."""

# ruff: noqa: PLC0415  (`soulslab --help` has to answer at once)

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_INTERRUPTED, EXIT_OK
from soulslab.cli.parameters import TokenFile, token_overrides
from soulslab.errors import ConfigError

_log = logging.getLogger(__name__)


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
    from soulslab.learn.training import load_new_run_settings, load_run_settings, train_run
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
    result = train_run(settings, folder, resume=resume is not None, sinks=sinks)
    won = "" if result.win_rate is None else f", {100 * result.win_rate:.1f} % of fights won"
    _log.info("%s: %d steps in %.0f s%s; %s", result.reason, result.env_steps, result.train_seconds, won, folder)
    if result.reason is StopReason.INTERRUPTED:
        _log.info("to go on: soulslab train --resume %s%s", folder, trust_flag(settings))
        return EXIT_INTERRUPTED
    return EXIT_OK


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


def _new_run_dir() -> Path:
    """Return a folder that no other run has: the time is unique enough for a person."""
    from datetime import datetime

    return Path("runs") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
