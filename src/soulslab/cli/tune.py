"""``soulslab tune``: it parses, wires and exits with a code."""

# ruff: noqa: PLC0415  (`soulslab --help` has to answer at once)

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, table_console
from soulslab.cli.parameters import SEED, TokenFile, token_options

if TYPE_CHECKING:
    from soulslab.learn.training import AnySettings
    from soulslab.learn.tuning.settings import TuneSettings

_log = logging.getLogger(__name__)


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class TuneFlags:
    """What to search.

    Attributes:
        config: TOML file that the search begins with, or the name of one that comes with soulslab; by default the one
            that comes with soulslab for the environment.
        overrides: Change one setting of it, as run.total_steps=50_000; may be given many times.
        space: TOML file with the tables [study] and [search].
        search: Search one setting, as learner.lr=1e-4..1e-2:log, learner.n_steps=1..10, learner.clip=0.1..0.3:step=0.1
            or network.widths=[[128,128],[256,256]]; may be given many times.
        objective: What is best, in place of the one in the file; win_rate by default.
        trials: Candidates to try in all, in place of the number in the file; 40 by default.
        seeds: Seeds of the runs of each candidate, in place of those in the file; 0 by default.
        token_file: File with the token of the environment's server; - asks for the token. By default it is in the
            environment variable SOULSLAB_TOKEN.
        trust: With the folder of an existing study: its files may choose programs, profiles, servers and modules.
    """

    config: Path | None = None
    overrides: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None
    space: Path | None = None
    search: Annotated[list[str] | None, Parameter(negative="")] = None
    objective: Literal["win_rate", "decisions_to_50", "decisions_to_80", "return"] | None = None
    trials: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    seeds: Annotated[list[int] | None, Parameter(validator=SEED, consume_multiple=True, negative="")] = None
    token_file: TokenFile = None

    trust: Annotated[bool, Parameter(negative="")] = False

    def study(self) -> dict[str, Any]:
        """Return what changes in the table [study]."""
        given = {"objective": self.objective, "n_trials": self.trials, "seeds": self.seeds}
        return {name: value for name, value in given.items() if value is not None}

    def is_about_a_new_study(self) -> bool:
        """Tell whether anything is given that only a study's beginning decides."""
        return any(given for given in (self.config, self.overrides, self.space, self.search))


def tune(
    *,
    study: Path | None = None,
    processes: Annotated[int, Parameter(validator=Number(gte=1, lte=256))] = 1,
    flags: TuneFlags | None = None,
) -> int:
    """Search for good settings: many short runs, of which the hopeless ones end early.

    Args:
        study: Folder of the study; one that was begun is gone on with, and needs no other flag. studies/ and the time
            of day by default.
        processes: Candidates trained at once.
        flags: What to search.
    """
    from soulslab.envs.registration import register_all
    from soulslab.learn.tuning.console import StudyBar
    from soulslab.learn.tuning.folder import BEST_NAME
    from soulslab.learn.tuning.report import study_report, summary
    from soulslab.learn.tuning.running import tune as run_study
    from soulslab.learn.untrusted import trust_flag

    flags = flags or TuneFlags()
    folder = study or _new_folder()
    settings, tuning = _what(folder, flags)
    with StudyBar(tuning.study.objective, settings.run.total_steps) as bar:
        result = run_study(settings, tuning, folder, processes=processes, prepare=register_all, listener=bar.show)
    table_console().print(study_report(result))
    _log.info("%s; see %s", summary(result), folder)
    if result.is_interrupted:
        _log.info("to go on: soulslab tune --study %s%s", folder, trust_flag(settings))
        return EXIT_INTERRUPTED
    if result.best is None:
        return EXIT_FAILED
    _log.info("to train with the best: soulslab train --config %s", folder / BEST_NAME)
    return EXIT_OK


def _what(folder: Path, flags: TuneFlags) -> tuple[AnySettings, TuneSettings]:
    """Return what the search begins with and what it asks: from the folder, where nothing else is said."""
    import msgspec

    from soulslab.config.checking import check
    from soulslab.errors import ConfigError
    from soulslab.learn.configs import config_path
    from soulslab.learn.training import load_new_run_settings, with_env_options
    from soulslab.learn.tuning.folder import StudyFolder
    from soulslab.learn.tuning.settings import StudySettings, check_stored_study, load_tune_settings

    held, token = StudyFolder(folder), token_options(flags.token_file)
    if flags.is_about_a_new_study() or not held.has_study():
        file = config_path(flags.config) if flags.config else None
        settings = load_new_run_settings(file, flags.overrides or [])
        return with_env_options(settings, token), load_tune_settings(flags.space, flags.search or [], flags.study())
    settings, tuning = held.load()
    if not flags.trust:
        check_stored_study(settings, tuning, folder)
    table = {**msgspec.to_builtins(tuning.study), **flags.study()}

    def error(problem: str, place: str) -> ConfigError:
        return ConfigError(problem, path=f"study.{place}")

    return with_env_options(settings, token), msgspec.structs.replace(tuning, study=check(table, StudySettings, error))


def _new_folder() -> Path:
    """Return a folder that no other study has: the time is unique enough for a person."""
    from datetime import datetime

    return Path("studies") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
