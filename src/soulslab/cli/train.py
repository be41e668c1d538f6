"""``soulslab train``, ``demo`` and ``tune``."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, print_line, table_console
from soulslab.cli.parameters import (
    SEED,
    Flag,
    NewFolder,
    OptionalNewFolder,
    Overrides,
    PrometheusPort,
    Repeated,
    TokenFile,
    option_group,
    token_options,
    token_overrides,
)
from soulslab.config.shell_words import shell_word
from soulslab.errors import ConfigError

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from soulslab.learn.training import AnySettings
    from soulslab.learn.tuning.settings import TuneSettings


@option_group
class TrainFlags:
    """The settings and the folder of a run.

    Attributes:
        env: Gymnasium id of the environment; by default, that of the config.
        config: TOML file, or the name of a shipped config, such as demo.toml; by default, the shipped config of the
            environment.
        overrides: Change one setting, as learner.lr=1e-4; may be repeated.
        run_dir: Folder for the files of the run; by default, runs/ and the current time.
        resume: Folder of a run to resume, with the settings that it was started with.
        trust: With --resume: the settings in the folder may choose programs, profiles, servers and modules.
        prometheus: Port on this machine for Prometheus metrics of the run; 0 chooses a free port.
        dashboard: Show the run in a browser until it ends; prints the link.
    """

    env: str | None = None
    config: Path | None = None
    overrides: Overrides = None
    token_file: TokenFile = None
    run_dir: OptionalNewFolder = None
    resume: Path | None = None
    trust: Flag = False
    prometheus: PrometheusPort = None
    dashboard: Flag = False

    def changes(self) -> list[str]:
        """Return the settings that the flags change, in the form of ``--set``."""
        env = [f"env.id={self.env}"] if self.env else []
        return [*env, *(self.overrides or []), *token_overrides(self.token_file)]


def train(*, flags: TrainFlags = TrainFlags()) -> int:
    """Train an agent."""
    from soulslab.learn.configs import config_path
    from soulslab.learn.run_folder import CONFIG_NAME, StopReason
    from soulslab.learn.sinks import run_sinks
    from soulslab.learn.train import train as train_policy
    from soulslab.learn.training import load_new_run_settings, load_run_settings
    from soulslab.learn.untrusted import check_stored_settings, trust_flag

    check_resume(flags.resume, flags.config, flags.run_dir)
    resume = flags.resume
    folder = resume or flags.run_dir or _new_folder("runs")
    if resume is not None:
        settings = load_run_settings(resume / CONFIG_NAME, flags.changes())
        if not flags.trust:
            check_stored_settings(settings, resume / CONFIG_NAME, flags.changes())
    else:
        file = config_path(flags.config) if flags.config else None
        settings = load_new_run_settings(file, flags.changes())
    sinks = run_sinks(folder, settings.sinks, prometheus_port=flags.prometheus)
    with dashboard_beside(folder.resolve().parent, f"/run/{folder.resolve().name}", is_on=flags.dashboard):
        result = train_policy(settings, folder, resume=resume is not None, sinks=sinks)
    won = f", {100 * result.win_rate:.1f} % of fights won" if result.win_rate is not None else ""
    _log.info("%s: %d steps in %.0f s%s; %s", result.reason, result.env_steps, result.train_seconds, won, folder)
    if result.reason is StopReason.INTERRUPTED:
        _log.info("to resume: soulslab train --resume %s%s", shell_word(folder), trust_flag(settings))
        return EXIT_INTERRUPTED
    if result.reason is StopReason.TIME:
        log_completion(f"soulslab train --resume {shell_word(folder)}{trust_flag(settings)}")
    return EXIT_OK


def check_resume(resume: Path | None, config: Path | None, run_dir: Path | None) -> None:
    """Raise `ConfigError` if the flags of a resumed run also name a config or a folder."""
    if resume is not None and (config is not None or run_dir is not None):
        raise ConfigError(
            "takes its settings and its folder from the run: no --config, no --run-dir", source="--resume"
        )


def log_completion(command: str) -> None:
    """Write the command that completes a run that its time limit has ended."""
    _log.info("to complete the training: %s --set run.max_seconds=inf", command)


def demo(
    *,
    config: Path | None = None,
    overrides: Overrides = None,
    run_dir: NewFolder = Path("runs/demo"),
    trust: Flag = False,
    no_dashboard: Flag = False,
) -> int:
    """Train an agent on the built-in boss fight, evaluate it, and film a won fight.

    Args:
        config: TOML file, or the name of a shipped config, for a new demo; by default, demo.toml.
        overrides: Change one setting, as run.seed=1; may be repeated.
        run_dir: Folder for all files; a finished demo in it is renamed, an interrupted demo is resumed.
        trust: The settings of an interrupted demo may choose a boss file.
        no_dashboard: Do not show the demo in a browser while it runs.
    """
    from soulslab.demo import run_demo
    from soulslab.learn.run_folder import CONFIG_NAME
    from soulslab.learn.training import load_run_settings
    from soulslab.learn.untrusted import trust_flag

    if Path.cwd().is_relative_to(run_dir.resolve()):
        run_dir = run_dir.resolve()  # a relative path would be that of the renamed folder
    is_shown = not no_dashboard and find_spec("nicegui") is not None
    with dashboard_beside(run_dir.resolve().parent, f"/run/{run_dir.resolve().name}", is_on=is_shown):
        report = run_demo(config, run_dir, overrides or [], is_trusted=trust)
    if report is None:
        needed = trust_flag(load_run_settings(run_dir / CONFIG_NAME))
        _log.info("to resume: soulslab demo --run-dir %s%s", shell_word(run_dir), needed)
        return EXIT_INTERRUPTED
    print_line(f"{report.line()}; see {run_dir}")
    _log.info("to see the run in a browser: soulslab dashboard %s", shell_word(run_dir.parent))
    return EXIT_OK


def dashboard_beside(root: Path, page: str, *, is_on: bool) -> AbstractContextManager[None]:
    """Return a context with a dashboard in another process, or without one."""
    if not is_on:
        return nullcontext()
    from soulslab.dashboard.companion import companion

    return companion(root, page, print_line)


def _new_folder(parent: str) -> Path:
    from datetime import datetime

    # Microseconds, because scripts start several runs within a second.
    return Path(parent) / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"


@option_group
class TuneFlags:
    """The search.

    Attributes:
        config: TOML file with the initial settings, or the name of a shipped config; by default, the shipped config of
            the environment.
        overrides: Change one setting of the config, as run.total_steps=50_000; may be repeated.
        space: TOML file with the tables [study] and [search].
        search: Search one setting, as learner.lr=1e-4..1e-2:log, learner.n_steps=1..10, learner.clip=0.1..0.3:step=0.1
            or network.widths=[[128,128],[256,256]]; may be repeated.
        objective: Objective, instead of that in the file; by default win_rate.
        trials: Total number of trials, instead of that in the file; by default 40.
        seeds: Seeds of the runs of each trial, instead of those in the file; by default 0.
        trust: With the folder of an existing study: its files may choose programs, profiles, servers and modules.
    """

    config: Path | None = None
    overrides: Overrides = None
    space: Path | None = None
    search: Repeated = None
    objective: Literal["win_rate", "decisions_to_50", "decisions_to_80", "return"] | None = None
    trials: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    seeds: Annotated[list[int] | None, Parameter(validator=SEED, consume_multiple=True, negative="")] = None
    token_file: TokenFile = None

    trust: Flag = False

    def study(self) -> dict[str, Any]:
        """Return the changes of the table [study]."""
        given = {"objective": self.objective, "n_trials": self.trials, "seeds": self.seeds}
        return {name: value for name, value in given.items() if value is not None}


def tune(
    *,
    study: OptionalNewFolder = None,
    processes: Annotated[int, Parameter(validator=Number(gte=1, lte=256))] = 1,
    dashboard: Flag = False,
    flags: TuneFlags = TuneFlags(),
) -> int:
    """Search for good settings with many short runs; poor runs are stopped early.

    Args:
        study: Folder of the study; an existing study is resumed, and needs no other flag. By default, studies/ and the
            current time.
        processes: Number of parallel training runs.
        dashboard: Show the study in a browser until it ends; prints the link.
    """
    from soulslab.envs.registration import register_all
    from soulslab.learn.tuning.running import tune as run_study
    from soulslab.learn.tuning.study_folder import BEST_NAME
    from soulslab.learn.tuning.study_report import StudyBar, study_report, summary
    from soulslab.learn.untrusted import trust_flag

    folder = study or _new_folder("studies")
    settings, tuning = _load_study(folder, flags)
    with (
        dashboard_beside(folder.resolve(), "/", is_on=dashboard),
        StudyBar(tuning.study.objective, settings.run.total_steps) as bar,
    ):
        result = run_study(settings, tuning, folder, processes=processes, prepare=register_all, listener=bar.show)
    table_console().print(study_report(result))
    _log.info("%s; see %s", summary(result), folder)
    if result.is_interrupted:
        _log.info("to resume: soulslab tune --study %s%s", shell_word(folder), trust_flag(settings))
        return EXIT_INTERRUPTED
    if result.best is None:
        return EXIT_FAILED
    _log.info("to train with the best settings: soulslab train --config %s", shell_word(folder / BEST_NAME))
    return EXIT_OK


def _load_study(folder: Path, flags: TuneFlags) -> tuple[AnySettings, TuneSettings]:
    """Return the initial settings and the search; from the folder of a study that is resumed."""
    import msgspec

    from soulslab.config.checking import check
    from soulslab.errors import ConfigError
    from soulslab.learn.configs import config_path
    from soulslab.learn.training import load_new_run_settings, with_env_options
    from soulslab.learn.tuning.settings import StudySettings, check_stored_study, load_tune_settings
    from soulslab.learn.tuning.study_folder import StudyFolder

    stored, token = StudyFolder(folder), token_options(flags.token_file)
    if any((flags.config, flags.overrides, flags.space, flags.search)) or not stored.has_study():
        file = config_path(flags.config) if flags.config else None
        settings = load_new_run_settings(file, flags.overrides or [])
        tuning = load_tune_settings(flags.space, flags.search or [], flags.study())
        return with_env_options(settings, token), tuning.with_absolute_paths()
    settings, tuning = stored.load()
    if not flags.trust:
        check_stored_study(settings, tuning, folder)
    table = {**msgspec.to_builtins(tuning.study), **flags.study()}

    def error(problem: str, place: str) -> ConfigError:
        return ConfigError(problem, path=f"study.{place}")

    return with_env_options(settings, token), msgspec.structs.replace(tuning, study=check(table, StudySettings, error))
