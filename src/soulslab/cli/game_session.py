"""Flags that select a game, and the session that commands open with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.parameters import Flag, Repeated, option_group, read_pairs
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.siphon.local import LocalSession
    from soulslab.siphon.rpc.client import RemoteSession


@option_group
class AttachFlags:
    """The game to attach to.

    Attributes:
        pid: Process id; by default, the process is found by the name in the profile.
        window_title: Part of the window title; selects one of several processes.
        start: Start the game with the command of the profile.
        private: Start the game on a private X server, which is not visible.
        option: Change a launch option of the profile, as skill=2; may be repeated.
        clock: Grade of the clock: lockstep, scaled or realtime; by default, the best available one.
        input: Input backend: auto, pad (a gamepad; the game has to be started with it), or one of the platform.
        seed: Start the game deterministically with this seed, and leave it paused.
        allow_unknown_version: Attach even if the profile does not list this version of the game.
        boss: Boss that the attributes boss.* describe: a name, or the path of a fact file; by default, the profile's.
    """

    pid: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    window_title: str = ""
    start: Flag = False
    private: Flag = False
    option: Repeated = None
    clock: Literal["lockstep", "scaled", "realtime"] | None = None
    input: str = ""
    seed: Annotated[int | None, Parameter(validator=Number(gte=0, lt=2**32))] = None
    allow_unknown_version: Flag = False
    boss: str = ""


@option_group
class GameFlags(AttachFlags):
    """The game to attach to, or the connection to its server if the game is an address.

    Attributes:
        token_file: File with the server's token; by default, the environment variable SOULSLAB_TOKEN is used.
        certificate: File with the certificate of the server, or of its certificate authority.
    """

    token_file: Path | None = None
    certificate: Path | None = None


def open_game(game: Path, flags: GameFlags, *, is_read_only: bool, with_window: bool) -> LocalSession | RemoteSession:
    """Open a session with a game on this machine, or with the game of a server."""
    from soulslab.siphon.rpc.address import is_address

    if is_address(str(game)) and not game.exists():
        return _connect(str(game), flags)
    for name in ("token_file", "certificate"):
        if getattr(flags, name):
            raise ConfigError(f"is for the game of a server; {game} is not an address", source=flag_name(name))
    return open_local(game, flags, is_read_only=is_read_only, with_window=with_window)


def _connect(address: str, flags: GameFlags) -> RemoteSession:
    from soulslab.siphon.rpc.access import find_token
    from soulslab.siphon.rpc.client import connect

    for name, default in vars(AttachFlags()).items():
        if getattr(flags, name) != default:
            raise ConfigError("is for a game on this machine; the server has opened its game", source=flag_name(name))
    return connect(address, token=find_token(file=flags.token_file), tls=flags.certificate)


def open_local(game: Path, flags: AttachFlags, *, is_read_only: bool, with_window: bool) -> LocalSession:
    """Attach to a game on this machine, or start it."""
    from soulslab.games.boss_facts import load_profile_with
    from soulslab.siphon.local import open_session
    from soulslab.siphon.session import SessionOptions

    check_start(flags.pid, is_started=flags.start, is_private=flags.private)
    options = SessionOptions(
        pid=flags.pid,
        launch="always" if flags.start else "never",
        display="private" if flags.private else "",
        options=read_pairs(flags.option or [], "--option"),
        is_read_only=is_read_only,
        with_window=with_window,
        window_title=flags.window_title,
        clock=flags.clock or "",
        input_backend=flags.input,
        deterministic=flags.seed is not None,
        seed=flags.seed or 0,
        allow_unknown_version=flags.allow_unknown_version,
    )
    return open_session(load_profile_with(game, flags.boss), options)


def check_start(pid: int, *, is_started: bool, is_private: bool) -> None:
    """Raise `ConfigError` for flags that contradict each other."""
    if pid and is_started:
        raise ConfigError("either names a running game or starts one", source="--pid --start")
    if is_private and not is_started:
        raise ConfigError("is for a game that is started: add --start", source="--private")


def flag_name(name: str) -> str:
    """Return the command-line flag of a field."""
    return f"--{name.replace('_', '-')}"
