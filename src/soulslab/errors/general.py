"""Errors of settings, environments, learning and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


def cut(text: str, n_characters: int = 8000) -> str:
    """Return a text for a message, shortened in the middle if it is long: names in files can have any length."""
    half = n_characters // 2
    return text if len(text) <= n_characters else f"{text[:half]}...{text[-half:]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: a similar name if there is one, and all known names."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} (known: {', '.join(known)})"


class SoulslabError(Exception):
    """Base class of all errors that soulslab raises deliberately."""


class _UnknownNameError(Exception):
    """A name is unknown; the message suggests a similar one."""

    kind: str

    def __init__(self, name: str, known: Iterable[str], others: str = "") -> None:
        self.name = name
        self.known = tuple(known)
        also = f"; also allowed: {others}" if others else ""
        super().__init__(f"unknown {self.kind} {name!r}{did_you_mean(name, self.known)}{also}")


# --- settings and environments ------------------------------------------------------------------------------


class ConfigError(SoulslabError):
    """A setting is unknown, missing, of the wrong type or out of range.

    Attributes:
        problem: The message without the place and the source.
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
    """A setting that selects code, a file, a server or a process is in a file that was not marked as trusted."""

    def __init__(self, path: str, value: object, source: str | Path) -> None:
        self.value = value
        name = path.removeprefix("env.options.")
        own = {"env.id": "--env ID", "env.options.boss": "--boss NAME", "env.options.phase": "--phase PHASE"}
        option = own.get(path) or (f"--option {name}=VALUE" if name != path else "")
        flags = f"{option} or --set {path}=VALUE" if option else f"--set {path}=VALUE"
        super().__init__(
            f"{value!r:.200} selects code, a file, a server or a process, which an untrusted file may not do; give it "
            f"on the command line, with {flags}, or trust the file with --trust, where the command has these options",
            path=path,
            source=source,
        )


class BossFileError(ConfigError):
    """A boss file is malformed; ``path`` is the place of the mistake."""


class FitError(SoulslabError):
    """A boss cannot be fitted to the recorded fights."""


class MissingFactError(ConfigError):
    """Needed facts about a boss, such as ``poses.fog_wall``, are not published; ``recipes`` say how to record each."""

    def __init__(self, boss: str, facts: Sequence[str], recipes: Sequence[str]) -> None:
        self.boss = boss
        self.facts = tuple(facts)
        self.recipes = tuple(recipes)
        steps = "".join(f"\n  {fact}: {recipe}" for fact, recipe in zip(facts, recipes, strict=False))
        super().__init__(f"not known about {boss}: {', '.join(facts)}; record it, and add it to the fact file:{steps}")


class EnvironmentUsageError(SoulslabError):
    """An environment was created or used wrongly."""


class UnknownBossError(EnvironmentUsageError, _UnknownNameError):
    """The boss is unknown; the message suggests a name, and says what else is allowed (``others``)."""

    kind = "boss"

    def __init__(self, name: str, known: Iterable[str], others: str) -> None:
        self.others = others
        super().__init__(name, known, others)


class UnknownRewardError(EnvironmentUsageError, _UnknownNameError):
    """The reward preset or reward term is unknown."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = f"reward {kind}"
        super().__init__(name, known)


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
    """An environment returned NaN or infinity; ``what`` is ``reward`` or ``observation``, ``step`` 0 is the reset."""

    def __init__(self, what: str, env_index: int, step: int, value: str) -> None:
        self.what = what
        self.env_index = env_index
        self.step = step
        super().__init__(
            f"{what} of environment {env_index} at step {step} of its episode is not finite ({value}); "
            f"check the code that computes it"
        )


# --- files, learning and programs ---------------------------------------------------------------------------


class FileError(SoulslabError):
    """A file or folder cannot be used; ``problem`` says what to do about it, without the path."""

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


class ChannelError(FileError):
    """A resource shared by the processes of a run cannot be used: its folder, or the memory of actor and learner."""


class VideoError(FileError):
    """A video of a fight could not be made."""


class KeyLogError(FileError):
    """A key log cannot be written, read, or replayed.

    ``tick`` is the first tick at which the replayed fight differs from the log; None for other problems.
    """

    def __init__(self, path: str | Path, problem: str, *, tick: int | None = None) -> None:
        self.tick = tick
        super().__init__(path, problem)


class InstallError(FileError):
    """The clock library cannot be installed beside a game, or be removed; nothing has been changed."""


class SaveFileError(FileError):
    """A save file of a game cannot be found, copied or restored."""


class StudyError(FileError):
    """A tuning study cannot be created, resumed, or completed; ``path`` is its folder, or a file in it."""


class DemonstrationError(SoulslabError):
    """Recorded fights cannot be written, read, or learned from in this environment.

    ``path`` is the data set. Episodes count from 0, steps from 1 (0 is the reset); None if the error concerns no
    single one.
    """

    def __init__(self, path: str | Path, problem: str, *, episode: int | None = None, step: int | None = None) -> None:
        self.path = Path(path)
        self.episode = episode
        self.step = step
        where = f", episode {episode}" + (f", step {step}" if step is not None else "") if episode is not None else ""
        super().__init__(f"{path}{where}: {cut(problem)}")


class ActorError(SoulslabError):
    """An actor process of a run failed too often, or does not exit; ``log_tail`` is the end of its log."""

    def __init__(self, run_dir: str | Path, problem: str, *, log_tail: str = "") -> None:
        self.run_dir = Path(run_dir)
        self.log_tail = log_tail
        super().__init__(f"{run_dir}: {problem}" + (f"; the end of its log:\n{log_tail}" if log_tail else ""))


class FleetError(SoulslabError):
    """A fleet cannot be used: its Redis server, its learner, or a game; ``place`` is an address, a file or a game."""

    def __init__(self, place: str | Path, problem: str) -> None:
        self.place = str(place)
        self.problem = problem
        super().__init__(f"{place}: {cut(problem)}")


class ChunkRefusedError(FleetError):
    """A message of a game is malformed, so the learner takes nothing more from that game."""


class ReplayError(SoulslabError):
    """A replay buffer was used wrongly: rows of a wrong shape, a sample from an empty buffer, or foreign indices."""


class NonFinitePriorityError(ReplayError):
    """The error of a transition is NaN or infinite, so it cannot be a priority; ``index`` is its place in the batch."""

    def __init__(self, index: int, value: float) -> None:
        self.index = index
        self.value = value
        super().__init__(
            f"the error of transition {index} of the batch is {value}, so no priority was changed; the learner has "
            "diverged: start a new run with a smaller learner.lr or learner.max_grad_norm, from the policy of this run "
            "if you like (run.start_from)"
        )


class DivergedError(SoulslabError):
    """The weights of a learner are NaN or infinite after ``env_steps`` decisions."""

    def __init__(self, env_steps: int, grad_norm: float) -> None:
        self.env_steps = env_steps
        super().__init__(
            f"the learner has diverged after {env_steps} decisions (gradient norm {grad_norm}); the last saved "
            "state is from before: start a new run with a smaller learner.lr or learner.max_grad_norm"
        )


class LayoutError(SoulslabError):
    """A memory layout cannot satisfy a profile: the fact at ``place`` is impossible, or it contradicts ``other``."""

    def __init__(self, problem: str, *, place: str = "", other: str = "") -> None:
        self.place = place
        self.other = other
        super().__init__(f"{place}: {problem}" if place else problem)


class NoWinError(SoulslabError):
    """No fight was won, so no video can be made."""

    def __init__(self, attempts: int) -> None:
        self.attempts = attempts
        super().__init__(f"none of {attempts} fights was won, so no video was made; train longer")


class TerminalError(SoulslabError):
    """The terminal cannot be used to play: standard input or output is not a terminal, or the terminal is too small."""


class BenchmarkError(SoulslabError):
    """A benchmark process failed; ``run`` is its name, and ``said`` the end of its standard error."""

    def __init__(self, run: str, problem: str, said: str) -> None:
        self.run = run
        self.said = said
        super().__init__(
            f"{run}: {problem}; completed runs are kept, and the same command continues after them. "
            f"End of standard error:\n"
            f"{said or '(nothing)'}"
        )


class MissingDependencyError(SoulslabError):
    """An optional package is not installed; ``extra`` is the extra of soulslab that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{package} is not installed; install it with: pip install 'soulslab[{extra}]'")


#: Optional packages by the extra that installs them.
_PACKAGES = {
    "siphon": (
        "psutil",
        "xcffib",
        "windows-capture",
        "dxcam",
        "grpcio",
        "protobuf",
        "hyperscan",
        "simplejpeg",
        "h5py",
        "tomlkit",
        "av",
    ),
    "window": ("panda3d", "setproctitle"),
    "learn": ("torch", "safetensors", "tensorboard", "matplotlib", "prometheus-client", "minari", "pillow"),
    "tune": ("optuna",),
    "fleet": ("redis", "hiredis"),
    "ray": ("ray", "dm-tree", "lz4", "ormsgpack", "pandas", "pyarrow", "pyyaml", "tensorboardx"),
    "dashboard": ("nicegui",),
    "wandb": ("wandb",),
    "peers": ("stable-baselines3", "sb3-contrib", "torchrl", "scipy", "shapely"),
    "dev": ("pysiphon",),
}
_MODULES = {
    "grpcio": "grpc",
    "protobuf": "google",
    "pillow": "PIL",
    "dm-tree": "tree",
    "pyyaml": "yaml",
    "tensorboardx": "tensorboardX",
}
#: Modules of optional packages, with the package that provides each and the extra that installs it.
OPTIONAL_MODULES = {
    _MODULES.get(package, package.replace("-", "_")): (package, extra)
    for extra, packages in _PACKAGES.items()
    for package in packages
}


def missing_dependency(error: ModuleNotFoundError) -> MissingDependencyError | None:
    """Return the error for a failed import; None if the module does not belong to an optional package."""
    known = OPTIONAL_MODULES.get((error.name or "").partition(".")[0])
    return MissingDependencyError(*known) if known else None


@contextmanager
def optional_imports() -> Iterator[None]:
    """Raise `MissingDependencyError` if an import of an optional package within the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_dependency(error)
        if missing is None:
            raise
        raise missing from error
