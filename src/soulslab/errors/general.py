"""Errors of settings, environments, learning and pictures; `soulslab.errors` shows the hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

__all__ = [
    "ActorError",
    "BenchmarkError",
    "BossFileError",
    "ChannelError",
    "CheckpointError",
    "ConfigError",
    "CorruptCheckpointError",
    "DemonstrationError",
    "DivergedError",
    "EnvironmentUsageError",
    "FileError",
    "IncompatibleCheckpointError",
    "InvalidActionError",
    "KeyLogError",
    "LayoutError",
    "MissingDependencyError",
    "MissingFactError",
    "NoWinError",
    "NonFiniteError",
    "NonFinitePriorityError",
    "NotResetError",
    "ReplayError",
    "SaveFileError",
    "SoulslabError",
    "StudyError",
    "TerminalError",
    "UnknownBossError",
    "UnknownOptionError",
    "UnknownRewardError",
    "UntrustedFileError",
    "VideoError",
    "did_you_mean",
    "missing_dependency",
    "optional_imports",
]

_SHOWN_CHARACTERS = 8000


def cut(text: str) -> str:
    """Return a text for a message, shortened in the middle if it is long: names in files can have any length."""
    half = _SHOWN_CHARACTERS // 2
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:half]}...{text[-half:]}"


class SoulslabError(Exception):
    """Base class of all errors that soulslab raises deliberately."""


class ConfigError(SoulslabError):
    """A setting is unknown, missing, of the wrong type or out of range.

    Attributes:
        path: Place of the mistake in the file: ``learner.lr`` or ``moves[2].windows[0].damage``.
        source: File or command-line option that contains the mistake.
    """

    def __init__(self, problem: str, *, path: str = "", source: str | Path = "") -> None:
        self.problem = problem
        self.path = path
        self.source = str(source)
        where = ": ".join(cut(part) for part in (self.source, path) if part)
        super().__init__(f"{where}: {cut(problem)}" if where else cut(problem))


class UntrustedFileError(ConfigError):
    """A file that was not marked as trusted selects code, a file, a server or a process.

    Attributes:
        value: Value of the setting at ``path``.
    """

    def __init__(self, path: str, value: object, source: str | Path) -> None:
        self.value = value
        super().__init__(
            f"{value!r:.200} selects code, a file, a server or a process, which an untrusted file may not do; give "
            "this setting on the command line, or trust the file with --trust where the command has this option",
            path=path,
            source=source,
        )


class BossFileError(ConfigError):
    """A boss file is malformed; ``path`` is the place of the mistake."""


class MissingFactError(ConfigError):
    """A needed fact about a boss is not published.

    Attributes:
        boss: Name of the boss.
        facts: Names of the missing facts: ``poses.fog_wall``.
        recipes: Instructions for recording each fact.
    """

    def __init__(self, boss: str, facts: Sequence[str], recipes: Sequence[str]) -> None:
        self.boss = boss
        self.facts = tuple(facts)
        self.recipes = tuple(recipes)
        steps = "".join(f"\n  {fact}: {recipe}" for fact, recipe in zip(facts, recipes, strict=False))
        super().__init__(f"not known about {boss}: {', '.join(facts)}; record it, and add it to the boss file:{steps}")


class EnvironmentUsageError(SoulslabError):
    """An environment was created or used wrongly."""


class UnknownBossError(EnvironmentUsageError):
    """The boss is unknown.

    Attributes:
        name: The given name.
        known: The known names.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"unknown boss {name!r}{did_you_mean(name, self.known)}")


class UnknownRewardError(EnvironmentUsageError):
    """The reward preset or reward term is unknown.

    Attributes:
        name: The given name.
        known: The known names.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"unknown reward {kind} {name!r}{did_you_mean(name, self.known)}")


class UnknownOptionError(EnvironmentUsageError, TypeError):
    """The environment option is unknown.

    This is also a `TypeError`, as for an unknown keyword argument, because libraries such as TorchRL catch that.
    ``gymnasium.make`` raises a new `TypeError` with a longer message only, so this class has no fields.
    """


class NotResetError(EnvironmentUsageError):
    """``step`` or ``render`` was called before ``reset``, or after the end of a fight."""


class InvalidActionError(EnvironmentUsageError):
    """An action is outside the action space."""


class NonFiniteError(EnvironmentUsageError):
    """An environment returned NaN or infinity as a reward or an observation.

    Attributes:
        what: ``reward`` or ``observation``.
        env_index: Index of the environment in the batch.
        step: Step of that environment's episode, from 1; 0 is the reset.
    """

    def __init__(self, what: str, env_index: int, step: int, value: str) -> None:
        self.what = what
        self.env_index = env_index
        self.step = step
        super().__init__(
            f"{what} of environment {env_index} at step {step} of its episode is not finite ({value}); "
            f"check the code that computes it"
        )


class FileError(SoulslabError):
    """A file or folder cannot be used.

    Attributes:
        path: The file or folder.
        problem: The problem and what to do about it, without the path.
    """

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = Path(path)
        self.problem = problem
        super().__init__(f"{path}: {cut(problem)}")


class CheckpointError(FileError):
    """A checkpoint cannot be used."""


class CorruptCheckpointError(CheckpointError):
    """The file is truncated or its contents do not match its checksum."""


class IncompatibleCheckpointError(CheckpointError):
    """The file was written by another version, or for another environment or shape."""


class DemonstrationError(SoulslabError):
    """Recorded fights cannot be written, read, or learned from in this environment.

    Attributes:
        path: The data set.
        episode: Index of the episode, from 0; None if the error does not concern one episode.
        step: Step of that episode, from 1; 0 is the reset; None if the error does not concern one step.
    """

    def __init__(self, path: str | Path, problem: str, *, episode: int | None = None, step: int | None = None) -> None:
        self.path = Path(path)
        self.episode = episode
        self.step = step
        where = f", episode {episode}" + (f", step {step}" if step is not None else "") if episode is not None else ""
        super().__init__(f"{path}{where}: {cut(problem)}")


class ChannelError(FileError):
    """A resource shared by the processes of a run cannot be used: its folder, or the memory of actor and learner."""


class ActorError(SoulslabError):
    """An actor process failed too often, or does not exit.

    Attributes:
        run_dir: Folder of the run.
        log_tail: End of the actor's log.
    """

    def __init__(self, run_dir: str | Path, problem: str, *, log_tail: str = "") -> None:
        self.run_dir = Path(run_dir)
        self.log_tail = log_tail
        super().__init__(f"{run_dir}: {problem}" + (f"; the end of its log:\n{log_tail}" if log_tail else ""))


class ReplayError(SoulslabError):
    """A replay buffer was used wrongly: rows of a wrong shape, a sample from an empty buffer, or foreign indices."""


class NonFinitePriorityError(ReplayError):
    """The error of a transition is NaN or infinite, so it cannot be a priority; the learner has diverged.

    Attributes:
        index: Index of the transition in the batch, from 0.
        value: The error.
    """

    def __init__(self, index: int, value: float) -> None:
        self.index = index
        self.value = value
        super().__init__(
            f"the error of transition {index} of the batch is {value}, so no priority was changed; the learner has "
            "diverged: start a new run with a smaller learner.lr or learner.max_grad_norm, from the policy of this run "
            "if you like (run.start_from)"
        )


class DivergedError(SoulslabError):
    """The weights of a learner are NaN or infinite.

    Attributes:
        env_steps: Decisions taken in the game until then.
    """

    def __init__(self, env_steps: int, grad_norm: float) -> None:
        self.env_steps = env_steps
        super().__init__(
            f"the learner has diverged after {env_steps} decisions (gradient norm {grad_norm}); the last saved "
            "state is from before: start a new run with a smaller learner.lr or learner.max_grad_norm"
        )


class LayoutError(SoulslabError):
    """A memory layout cannot satisfy a profile: two facts contradict each other, or one is impossible.

    Attributes:
        place: Place in the profile.
        other: The other place, if two facts contradict each other; otherwise "".
    """

    def __init__(self, problem: str, *, place: str = "", other: str = "") -> None:
        self.place = place
        self.other = other
        super().__init__(f"{place}: {problem}" if place else problem)


class VideoError(FileError):
    """A video of a fight could not be made."""


class KeyLogError(FileError):
    """A key log cannot be written, read, or replayed.

    Attributes:
        tick: First tick at which the replayed fight differs from the log; None for other problems.
    """

    def __init__(self, path: str | Path, problem: str, *, tick: int | None = None) -> None:
        self.tick = tick
        super().__init__(path, problem)


class SaveFileError(FileError):
    """A save file of a game cannot be found, copied or restored."""


class NoWinError(SoulslabError):
    """No fight was won, so no video can be made.

    Attributes:
        attempts: Number of fights.
    """

    def __init__(self, attempts: int) -> None:
        self.attempts = attempts
        super().__init__(f"none of {attempts} fights was won, so no video was made; train longer")


class TerminalError(SoulslabError):
    """The terminal cannot be used to play: standard input or output is not a terminal, or the terminal is too small."""


class BenchmarkError(SoulslabError):
    """A benchmark process failed.

    Attributes:
        run: Name of the run.
        said: End of its standard error.
    """

    def __init__(self, run: str, problem: str, said: str) -> None:
        self.run = run
        self.said = said
        super().__init__(
            f"{run}: {problem}; completed runs are kept, and the same command continues after them. "
            f"End of standard error:\n"
            f"{said or '(nothing)'}"
        )


class StudyError(FileError):
    """A tuning study cannot be created, resumed, or completed; ``path`` is its folder, or a file in it."""


class MissingDependencyError(SoulslabError):
    """An optional package is not installed.

    Attributes:
        package: Name of the package.
        extra: Extra of soulslab that installs it.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{package} is not installed; install it with: pip install 'soulslab[{extra}]'")


#: Modules of optional packages, with the package that provides each and the extra that installs it.
OPTIONAL_MODULES = {
    "psutil": ("psutil", "siphon"),
    "xcffib": ("xcffib", "siphon"),
    "grpc": ("grpcio", "siphon"),
    "google": ("protobuf", "siphon"),
    "hyperscan": ("hyperscan", "siphon"),
    "simplejpeg": ("simplejpeg", "siphon"),
    "h5py": ("h5py", "siphon"),
    "tomlkit": ("tomlkit", "siphon"),
    "av": ("av", "siphon"),
    "panda3d": ("panda3d", "window"),
    "setproctitle": ("setproctitle", "window"),
    "torch": ("torch", "learn"),
    "safetensors": ("safetensors", "learn"),
    "tensorboard": ("tensorboard", "learn"),
    "matplotlib": ("matplotlib", "learn"),
    "prometheus_client": ("prometheus-client", "learn"),
    "minari": ("minari", "learn"),
    "PIL": ("pillow", "learn"),
    "optuna": ("optuna", "tune"),
    "stable_baselines3": ("stable-baselines3", "peers"),
    "sb3_contrib": ("sb3-contrib", "peers"),
    "scipy": ("scipy", "peers"),
    "shapely": ("shapely", "peers"),
    "pysiphon": ("pysiphon", "dev"),
}


def missing_dependency(error: ModuleNotFoundError) -> MissingDependencyError | None:
    """Return the error for a module of an optional package that could not be imported.

    Args:
        error: Exception of an import statement.

    Returns:
            The error with the package and its extra; None if the module does not belong to an optional package.
    """
    known = OPTIONAL_MODULES.get((error.name or "").partition(".")[0])
    return MissingDependencyError(*known) if known else None


@contextmanager
def optional_imports() -> Iterator[None]:
    """Raise an error with the extra to install if an import within the block fails.

    Raises:
        MissingDependencyError: A module of an optional package is not installed.
        ModuleNotFoundError: Any other module does not exist.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_dependency(error)
        if missing is None:
            raise
        raise missing from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: a similar name if there is one, and all known names."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} (known: {', '.join(known)})"
