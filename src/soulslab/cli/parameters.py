"""Types and values of parameters that several commands have."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar, dataclass_transform

from cyclopts import Parameter, Token
from cyclopts.validators import Number

from soulslab.errors import CheckpointError, ConfigError

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: Validator of the seeds that numpy and torch both take.
SEED: Final = Number(gte=0, lt=2**32)
Seed: TypeAlias = Annotated[int, Parameter(validator=SEED)]
Flag: TypeAlias = Annotated[bool, Parameter(negative="")]
#: An option that may be repeated.
Repeated: TypeAlias = Annotated[list[str] | None, Parameter(negative="")]
Overrides: TypeAlias = Annotated[list[str] | None, Parameter(name="--set", negative="")]
#: Game time of a recording.
Minutes: TypeAlias = Annotated[float, Parameter(validator=Number(gt=0, lte=600))]
PositiveFloat: TypeAlias = Annotated[float, Parameter(validator=Number(gt=0))]


def _nonempty_path(_: Any, tokens: Sequence[Token]) -> Path:
    """Refuse an empty text, such as an unset variable of a shell, which `pathlib` takes for the current folder."""
    if not tokens[0].value:
        raise ValueError("a path must not be empty")
    return Path(tokens[0].value)


#: Folder that a command fills.
NewFolder: TypeAlias = Annotated[Path, Parameter(converter=_nonempty_path)]
OptionalNewFolder: TypeAlias = Annotated[Path | None, Parameter(converter=_nonempty_path)]
PrometheusPort: TypeAlias = Annotated[int | None, Parameter(validator=Number(gte=0, lte=65535))]
#: The flag ``--token-file``; see `token_options`. Its value may be ``-``.
TokenFile: TypeAlias = Annotated[
    Path | None,
    Parameter(
        allow_leading_hyphen=True,
        help="File with the token of the environment's server; - asks for the token. By default, the environment "
        "variable SOULSLAB_TOKEN is used.",
    ),
]
Game: TypeAlias = Annotated[
    Path, Parameter(help="Profile of the game, name of a shipped game (doom), or address of a server.")
]


@dataclass_transform(frozen_default=True)
def option_group(group: type[T]) -> type[T]:
    """Make a frozen dataclass of a class whose fields are options of a command."""
    return Parameter(name="*")(dataclass(frozen=True)(group))


def find_run(path: Path) -> Path:
    """Return the folder of a run, a policy file, or that of a shipped policy by its name, such as ``judge``.

    Raises `ConfigError` if there is none, before other work.
    """
    from soulslab.learn.policies import find_shipped
    from soulslab.learn.run_folder import CHECKPOINTS_NAME, CONFIG_NAME, POLICY_NAME

    try:
        path = find_shipped(path)
    except CheckpointError as error:  # the words of the command are wrong, not a file
        raise ConfigError(error.problem, source=path) from None
    if path.is_dir() and not any((path / name).exists() for name in (CHECKPOINTS_NAME, CONFIG_NAME, POLICY_NAME)):
        raise ConfigError("does not contain a run; name the folder of a run, or a policy file", source=path)
    return path


def token_options(token_file: Path | None) -> dict[str, str]:
    """Return the options of an environment for the flag ``--token-file``; empty without a file.

    With ``-`` the token is read from the terminal or from standard input. It is put into the environment variable
    ``SOULSLAB_TOKEN`` for the processes of a run; other users cannot read it there. Raises `ConfigError` if the file
    cannot be used, or the entered token is empty.
    """
    if token_file is None:
        return {}
    from soulslab.siphon.rpc import access

    if token_file == Path("-"):
        from getpass import getpass

        token = getpass("token of the server: ") if sys.stdin.isatty() else sys.stdin.readline()
        if not token.strip():
            raise ConfigError("no token was entered", source="--token-file -")
        os.environ[access.TOKEN_VARIABLE] = token.strip()
        return {}
    access.read_token(token_file)  # report an error before other work
    return {"token_file": str(token_file.resolve())}


def token_overrides(token_file: Path | None) -> list[str]:
    """Return the settings of a run for the flag ``--token-file``, in the form of ``--set``; see `token_options`."""
    from soulslab.config.writing import toml_value

    return [f"env.options.{name}={toml_value(value)}" for name, value in token_options(token_file).items()]


def read_pairs(texts: list[str], source: str) -> dict[str, str]:
    """Return the names and values of ``name=value`` texts; `source` is their flag, for errors."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError("is not of the form name=value", source=f"{source} {text}")
        pairs[name.strip()] = value.strip()
    return pairs


@option_group
class EnvironmentFlags:
    """The environment in which a policy plays.

    Attributes:
        env: Environment with the same observations and actions, such as soulslab/DarkSouls3Iudex-v0. Its boss, latency
            and errors of observation are then not those of the training.
        option: Value of an option of the environment, as stand_in=true; may be repeated.
        boss: Boss; by default, that of the training.
        phase: 1, 2 or full; by default, that of the training.
        trust: The policy's file may choose programs, profiles, servers and modules of the environment.
    """

    env: str | None = None
    option: Repeated = None
    boss: str | None = None
    phase: str | None = None
    token_file: TokenFile = None
    trust: Flag = False

    def choose(self, trained_id: str, trained: Mapping[str, Any], source: Path) -> tuple[str, dict[str, Any]]:
        """Return the environment's id and its options, given those of the training and the file of the policy.

        Raises `UntrustedFileError` if the file chooses what is run, and is not trusted.
        """
        from soulslab.config import read_overrides
        from soulslab.envs.duels import TRAINING_CONDITIONS
        from soulslab.learn.path_settings import absolute_options
        from soulslab.learn.untrusted import check_named_environment

        named = {name: value for name, value in (("boss", self.boss), ("phase", self.phase)) if value is not None}
        named = absolute_options(named | read_overrides(self.option or (), "--option"))
        # Bosses, and conditions of training in the simulator, belong to an environment.
        dropped = {*named, "boss", *TRAINING_CONDITIONS} if self.env else {*named}
        kept = {name: value for name, value in _without_functions(trained).items() if name not in dropped}
        if not self.trust:
            check_named_environment("" if self.env else trained_id, kept, source)
        return self.env or trained_id, {**kept, **named, **token_options(self.token_file)}


def _without_functions(options: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out options that were Python functions in training, such as rewards; they do not change the win rate."""
    known = {}
    for name, value in options.items():
        if isinstance(value, str) and value.startswith("<function "):
            _log.warning("left out %s=%s, which only Python can pass; returns are those of the default", name, value)
        else:
            known[name] = value
    return known
