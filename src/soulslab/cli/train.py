"""``soulslab train`` and ``soulslab demo``."""

# ruff: noqa: PLC0415  (imports in commands keep `soulslab --help` fast)

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
        env: Gymnasium id of the environment; by default, that of the config.
        config: TOML file, or the name of a shipped config, such as demo.toml; by default, the shipped config of the
            environment.
        overrides: Change one setting, as learner.lr=1e-4; may be repeated.
        token_file: File with the token of the environment's server; - asks for the token. By default, the environment
            variable SOULSLAB_TOKEN is used.
    """

    env: str | None = None
    config: Path | None = None
    overrides: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None
    token_file: TokenFile = None

    def changes(self) -> list[str]:
        """Return the settings that the flags change, in the form of ``--set``."""
        env = [f"env.id={self.env}"] if self.env else []
        return [*env, *(self.overrides or []), *token_overrides(self.token_file)]


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class ResumeFlags:
    """The run to resume.

    Attributes:
        resume: Folder of a run to resume, with the settings that it was started with.
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
        run_dir: Folder for the files of the run; by default, runs/ and the current time.
        resuming: The run to resume.
        prometheus: Port on this machine for Prometheus metrics of the run; 0 chooses a free port.
    """
    from soulslab.learn.configs import config_path
    from soulslab.learn.run_folder import CONFIG_NAME, StopReason
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
    won = f", {100 * result.win_rate:.1f} % of fights won" if result.win_rate is not None else ""
    _log.info("%s: %d steps in %.0f s%s; %s", result.reason, result.env_steps, result.train_seconds, won, folder)
    if result.reason is StopReason.INTERRUPTED:
        _log.info("to resume: soulslab train --resume %s%s", folder, trust_flag(settings))
        return EXIT_INTERRUPTED
    return EXIT_OK


def demo(
    *,
    config: Path = Path("demo.toml"),
    overrides: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None,
    run_dir: Path = Path("runs/demo"),
) -> int:
    """Train an agent on the built-in boss fight, evaluate it, and film a won fight.

    Args:
        config: TOML file, or the name of a shipped config.
        overrides: Change one setting, as run.seed=1; may be repeated.
        run_dir: Folder for all files; a finished demo in it is renamed, an interrupted demo is resumed.
    """
    from rich.console import Console

    from soulslab.demo import run_demo
    from soulslab.learn.configs import config_path

    report = run_demo(config_path(config), run_dir, overrides or [])
    if report is None:
        _log.info("to resume: soulslab demo --run-dir %s", run_dir)
        return EXIT_INTERRUPTED
    Console(soft_wrap=True).print(f"{report.line()}; see {run_dir}", highlight=False)
    return EXIT_OK


def _new_run_dir() -> Path:
    """Return a new folder, named after the current time."""
    from datetime import datetime

    return Path("runs") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
