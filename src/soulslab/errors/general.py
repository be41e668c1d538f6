"""Errors of settings, environments, learning and pictures; the tree is drawn in `soulslab.errors`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

_SHOWN_CHARACTERS = 8000


def cut(text: str) -> str:
    """Return a text for a message, cut in its middle where it is long: a file may hold names of any length."""
    half = _SHOWN_CHARACTERS // 2
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:half]}...{text[-half:]}"


class SoulslabError(Exception):
    """Root of all errors that soulslab raises on purpose."""


class ConfigError(SoulslabError):
    """A setting is unknown, missing, of the wrong type or out of range.

    Attributes:
        path: Where the mistake is, as in the file: ``learner.lr`` or ``moves[2].windows[0].damage``.
        source: The file or the command-line flag that holds it.
    """

    def __init__(self, problem: str, *, path: str = "", source: str | Path = "") -> None:
        self.problem = problem
        self.path = path
        self.source = str(source)
        where = ": ".join(cut(part) for part in (self.source, path) if part)
        super().__init__(f"{where}: {cut(problem)}" if where else cut(problem))


class UntrustedFileError(ConfigError):
    """A file that was not said to be trusted decides what runs on this machine.

    Attributes:
        value: What the file asks for at ``path``.
    """

    def __init__(self, path: str, value: object, source: str | Path) -> None:
        self.value = value
        super().__init__(
            f"{value!r:.200} decides what runs on this machine, and a file alone must not; give this setting on the "
            "command line, or trust the file with --trust where the command has this flag",
            path=path,
            source=source,
        )


class BossFileError(ConfigError):
    """A boss file is malformed; ``path`` names the place in the file."""


class MissingFactError(ConfigError):
    """Something that is needed is not known of a boss, as nobody has published it.

    Attributes:
        boss: Its name.
        facts: What is not known: ``poses.fog_wall``.
        recipes: How to record each.
    """

    def __init__(self, boss: str, facts: Sequence[str], recipes: Sequence[str]) -> None:
        self.boss = boss
        self.facts = tuple(facts)
        self.recipes = tuple(recipes)
        ways = "".join(f"\n  {fact}: {recipe}" for fact, recipe in zip(facts, recipes, strict=False))
        super().__init__(
            f"not known of {boss}: {', '.join(facts)}; record it, and write it into the boss's file:{ways}"
        )


class EnvironmentUsageError(SoulslabError):
    """An environment was created or used wrongly."""


class UnknownBossError(EnvironmentUsageError):
    """There is no boss of that name.

    Attributes:
        name: The name that was asked for.
        known: The names that exist.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"unknown boss {name!r}{did_you_mean(name, self.known)}")


class UnknownRewardError(EnvironmentUsageError):
    """There is no reward preset or reward term of that name.

    Attributes:
        name: The name that was asked for.
        known: The names that exist.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"unknown reward {kind} {name!r}{did_you_mean(name, self.known)}")


class UnknownOptionError(EnvironmentUsageError, TypeError):
    """An environment has no option of that name.

    It is also a `TypeError`, as for an unknown keyword argument: libraries such as TorchRL catch that.
    ``gymnasium.make`` raises a `TypeError` again with a longer message and nothing else, so there are no fields.
    """


class NotResetError(EnvironmentUsageError):
    """``step`` or ``render`` was called before ``reset``, or after the end of a fight."""


class InvalidActionError(EnvironmentUsageError):
    """An action lies outside the action space."""


class NonFiniteError(EnvironmentUsageError):
    """An environment gave NaN or infinity as a reward or an observation.

    Attributes:
        what: ``reward`` or ``observation``.
        env_index: Which environment of the batch.
        step: Which step of that environment's episode, from 1; 0 is the reset.
    """

    def __init__(self, what: str, env_index: int, step: int, value: str) -> None:
        self.what = what
        self.env_index = env_index
        self.step = step
        super().__init__(
            f"{what} of environment {env_index} at step {step} of its episode is not finite ({value}); "
            f"check the code that computes it"
        )


class CheckpointError(SoulslabError):
    """A checkpoint cannot be used.

    Attributes:
        path: The file or folder.
    """

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = Path(path)
        super().__init__(f"{path}: {cut(problem)}")


class CorruptCheckpointError(CheckpointError):
    """The file is truncated or its contents do not match its checksum."""


class IncompatibleCheckpointError(CheckpointError):
    """The file was written by another version, for another environment or another shape."""


class DemonstrationError(SoulslabError):
    """Recorded fights cannot be written, read, or learned from in this environment.

    Attributes:
        path: The data set.
        episode: Which episode of it, from 0; None where it is not about one.
        step: Which step of that episode, from 1; 0 is the reset, None where it is not about one.
    """

    def __init__(self, path: str | Path, problem: str, *, episode: int | None = None, step: int | None = None) -> None:
        self.path = Path(path)
        self.episode = episode
        self.step = step
        where = "" if episode is None else f", episode {episode}" + ("" if step is None else f", step {step}")
        super().__init__(f"{path}{where}: {cut(problem)}")


class ChannelError(SoulslabError):
    """What the processes of a run share cannot be used: its folder, or the memory of an actor and a learner.

    Attributes:
        path: Its file or folder.
        problem: The problem and what to do about it, without the path.
    """

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = Path(path)
        self.problem = problem
        super().__init__(f"{path}: {problem}")


class ActorError(SoulslabError):
    """The process that plays for a learner failed too often, or does not end.

    Attributes:
        run_dir: Folder of the run that it plays for.
        log_tail: The end of what it wrote to its log.
    """

    def __init__(self, run_dir: str | Path, problem: str, *, log_tail: str = "") -> None:
        self.run_dir = Path(run_dir)
        self.log_tail = log_tail
        super().__init__(f"{run_dir}: {problem}" + (f"; the end of its log:\n{log_tail}" if log_tail else ""))


class ReplayError(SoulslabError):
    """A replay buffer was used wrongly: rows that do not fit it, a draw from an empty one, places of another."""


class NonFinitePriorityError(ReplayError):
    """A transition's error is NaN or infinite, so it can have no priority; the learner has diverged.

    Attributes:
        index: Which transition of the batch, from 0.
        value: Its error.
    """

    def __init__(self, index: int, value: float) -> None:
        self.index = index
        self.value = value
        super().__init__(
            f"the error of transition {index} of the batch is {value}, so it has no priority, and none was changed; "
            "the learner has diverged: begin a new run with a smaller learner.lr or learner.max_grad_norm, from this "
            "one's policy if you like (run.start_from)"
        )


class DivergedError(SoulslabError):
    """A learner's weights are NaN or infinite.

    Attributes:
        env_steps: Game decisions that it had taken.
    """

    def __init__(self, env_steps: int, grad_norm: float) -> None:
        self.env_steps = env_steps
        super().__init__(
            f"the learner has diverged after {env_steps} decisions (the norm of its gradient is {grad_norm}); what was "
            "saved last is from before: begin a new run with a smaller learner.lr or learner.max_grad_norm"
        )


class LayoutError(SoulslabError):
    """The memory of a fight cannot be laid out as a profile says: two facts exclude each other, or one cannot be.

    Attributes:
        place: Place in the profile.
        other: The other place, where two exclude each other; else "".
    """

    def __init__(self, problem: str, *, place: str = "", other: str = "") -> None:
        self.place = place
        self.other = other
        super().__init__(f"{place}: {problem}" if place else problem)


class VideoError(SoulslabError):
    """A film of a fight could not be made.

    Attributes:
        path: The file that it was meant for.
    """

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = Path(path)
        super().__init__(f"{path}: {problem}")


class KeyLogError(SoulslabError):
    """A key log cannot be written, read, or played again.

    Attributes:
        path: The file.
        tick: In which tick of the log its fight and the one that is played part ways; None for other problems.
    """

    def __init__(self, path: str | Path, problem: str, *, tick: int | None = None) -> None:
        self.path = Path(path)
        self.tick = tick
        super().__init__(f"{path}: {cut(problem)}")


class SaveFileError(SoulslabError):
    """A save file of a game cannot be found, copied or put back.

    Attributes:
        path: The file.
    """

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = Path(path)
        super().__init__(f"{path}: {problem}")


class NoWinError(SoulslabError):
    """No fight was won that could be shown.

    Attributes:
        attempts: How many fights were played.
    """

    def __init__(self, attempts: int) -> None:
        self.attempts = attempts
        super().__init__(f"none of {attempts} fights was won, so there is nothing to film; train longer")


class TerminalError(SoulslabError):
    """This terminal cannot be played in: it is none, or it is too small."""


class BenchmarkError(SoulslabError):
    """A run of a benchmark failed in a process of its own.

    Attributes:
        run: The run.
        said: The end of what it said on standard error.
    """

    def __init__(self, run: str, problem: str, said: str) -> None:
        self.run = run
        self.said = said
        super().__init__(
            f"{run}: {problem}; the runs that were done are kept, and the same command goes on after them. It said:\n"
            f"{said or '(nothing)'}"
        )


class StudyError(SoulslabError):
    """A study of settings cannot be begun, gone on with, or brought to an end.

    Attributes:
        path: Its folder, or the file in it.
    """

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = Path(path)
        super().__init__(f"{path}: {problem}")


class MissingDependencyError(SoulslabError):
    """An optional part of soulslab is not installed.

    Attributes:
        package: The package that is missing.
        extra: The extra that installs it.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{package} is not installed; it comes with: pip install 'soulslab[{extra}]'")


#: Modules of optional packages: the package that provides each, and the extra that installs it.
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
        error: What an import statement raised.

    Returns:
        The error that names the package and its extra; None if the module belongs to no optional package.
    """
    known = OPTIONAL_MODULES.get((error.name or "").partition(".")[0])
    return MissingDependencyError(*known) if known else None


@contextmanager
def optional_imports() -> Iterator[None]:
    """Name the extra to install if an import within the block fails.

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
    """Return the end of an error message: a close match if there is one, and all known names."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} (known: {', '.join(known)})"
