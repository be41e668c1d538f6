"""The folder of a study.

::

    study.toml         objective, budget and search space
    config.toml        the settings that the candidates are based on
    journal.jsonl      every event, appended
    trials/0007/       candidate 7: its settings, one run for each seed, error.txt if it failed
    best.toml          the settings of the best candidate, for ``soulslab train --config``
    study.png          values and importances
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from soulslab.config import dump_settings
from soulslab.config.shell_words import shell_word
from soulslab.errors import ChannelError, StudyError
from soulslab.learn.archive import remove_temporary_files, write_atomically, writing
from soulslab.learn.process_lock import ProcessLock
from soulslab.learn.run_folder import CONFIG_NAME
from soulslab.learn.training import AnySettings, load_run_settings
from soulslab.learn.tuning.settings import TuneSettings, load_tune_settings

STUDY_NAME: Final = "study.toml"
BEST_NAME: Final = "best.toml"
PICTURE_NAME: Final = "study.png"

_LOCK_NAME: Final = ".lock"
_CHANGEABLE: Final = frozenset({"study.n_trials", "study.max_failures", "env.options.token_file"})


class StudyFolder:
    """The folder of a study, locked by one process while the ``with`` block runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal.jsonl"
        self._lock: ProcessLock | None = None

    def trial(self, number: int) -> Path:
        """Return the folder of a candidate."""
        return self.path / "trials" / f"{number:04d}"

    def has_study(self) -> bool:
        """Return whether the folder holds a study."""
        return (self.path / STUDY_NAME).exists()

    def load(self) -> tuple[AnySettings, TuneSettings]:
        """Return the base settings and the definition; raises StudyError without a study, or ConfigError."""
        if not self.has_study():
            raise StudyError(self.path, "holds no study; start one with --config and --search")
        return load_run_settings(self.path / CONFIG_NAME), load_tune_settings(self.path / STUDY_NAME)

    def take(self, settings: AnySettings, tuning: TuneSettings) -> None:
        """Start or resume a study; raises StudyError for another study or other files, or if it is in use."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                self._lock = ProcessLock(self.path / _LOCK_NAME, "another soulslab tune")
            except ChannelError as error:
                problem = f"{error.problem}, or let it run more candidates at once (--processes)"
                raise StudyError(self.path, problem) from error
            is_empty = not any(path.name != _LOCK_NAME for path in self.path.iterdir())
        if self.has_study():
            self._check_same(settings, tuning)
        elif not is_empty:
            raise StudyError(self.path, "holds files that are not a study; choose an empty folder")
        remove_temporary_files(self.path)
        write_atomically(self.path / CONFIG_NAME, dump_settings(settings).encode())
        write_atomically(self.path / STUDY_NAME, dump_settings(tuning).encode())

    def _check_same(self, settings: AnySettings, tuning: TuneSettings) -> None:
        """Raise ``StudyError`` if the study in the folder differs in more than `_CHANGEABLE`."""
        for stored, given in zip(self.load(), (settings, tuning), strict=True):
            before, after = (_flat(tomllib.loads(dump_settings(each))) for each in (stored, given))
            for name in after | before:
                if name not in _CHANGEABLE and before.get(name) != after.get(name):
                    was, now = (repr(each[name]) if name in each else "not set" for each in (before, after))
                    raise StudyError(
                        self.path,
                        f"holds a study with {name} = {was}, but now it is {now}; "
                        f"resume it with: soulslab tune --study {shell_word(self.path)}, or start a new study in "
                        "another folder",
                    )

    def __enter__(self) -> StudyFolder:
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            self._lock.release()


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return all settings by their full names."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat
