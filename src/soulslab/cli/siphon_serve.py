"""``soulslab siphon serve``: serve a game to other programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.game_session import AttachFlags, open_local
from soulslab.cli.parameters import Flag, option_group
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.siphon.profile import Profile
    from soulslab.siphon.rpc.public.service import PublicOptions


@option_group
class ServeFlags:
    """The server.

    Attributes:
        address: host:port or unix:/path; with port 0, the system chooses a port. Access from other machines needs TLS.
        token_file: File with the token that clients have to send; created if it does not exist.
        token: Require a token; without one, every program of the same user on this machine may connect.
        tls_certificate: PEM file.
        tls_key: PEM file.
        read_only: Let clients of both protocols observe only: no write, no key, no control of time, no restart.
        allow_raw_writes: Let clients write numbers at any address of the game, which event flags need. Clients can then
            run code as the user who runs the game.
        public: Also serve the public Siphon protocol, which pysiphon uses. Programs of the same user on this machine
            need no token.
        allow_program: Program that clients of the public protocol may run; by default none; may be repeated.
        recordings: Folder for recordings of clients of the public protocol.
        recordings_gib: Maximum size of this folder in GiB.
    """

    address: str = "127.0.0.1:0"
    token_file: Path | None = None
    token: bool = True
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    read_only: Flag = False
    allow_raw_writes: Flag = False
    public: bool = False
    allow_program: Annotated[list[Path] | None, Parameter(negative="")] = None
    recordings: Path = Path("recordings")
    recordings_gib: Annotated[float, Parameter(validator=Number(gt=0))] = 16.0


def serve(profile: Path, *, flags: AttachFlags = AttachFlags(), where: ServeFlags = ServeFlags()) -> None:
    """Serve a game to programs on this machine or others; Ctrl-C ends it.

    Args:
        profile: Profile of the game, or name of a shipped game (doom).
    """
    from rich.console import Console

    from soulslab.siphon.rpc.foreground_server import serve_until_stopped
    from soulslab.siphon.rpc.server import ServerOptions, check_access

    if where.allow_program and not where.public:
        raise ConfigError("is for the public protocol: add --public", source="--allow-program")
    if where.allow_program and os.name == "nt":
        raise ConfigError("is not available on Windows, where a program could not be ended", source="--allow-program")
    if where.token_file and not where.token:
        raise ConfigError("--no-token disables tokens; leave out one of the two", source="--token-file --no-token")
    if where.read_only and where.allow_raw_writes:
        raise ConfigError("a read-only server permits no writes", source="--read-only --allow-raw-writes")
    options = ServerOptions(
        address=where.address,
        needs_token=where.token,
        tls_certificate=where.tls_certificate,
        tls_key=where.tls_key,
        allow_raw_writes=where.allow_raw_writes,
    )
    check_access(options)  # before a game is started
    with open_local(profile, flags, is_read_only=where.read_only, with_window=True) as session:
        public = _public_options(session.profile, flags, where) if where.public else None
        serve_until_stopped(session, options, where.token_file, Console(soft_wrap=True), public)


def _public_options(served: Profile, flags: AttachFlags, where: ServeFlags) -> PublicOptions:
    """Return the options of the public protocol. It has no game time, so its clients open the game in real time."""
    from soulslab.games import known_games, profile_path
    from soulslab.siphon.local import open_session
    from soulslab.siphon.profile import load_profile
    from soulslab.siphon.rpc.public.service import PublicOptions
    from soulslab.siphon.session import SessionOptions

    known = [*(load_profile(profile_path(Path(game))) for game in known_games()), served]
    return PublicOptions(
        open_session=open_session,
        session=SessionOptions(
            launch="never",
            clock="realtime",
            input_backend=flags.input,
            allow_unknown_version=flags.allow_unknown_version,
            deadline_s=10.0,
        ),
        known={profile.process.executable: profile for profile in known},
        programs=tuple(where.allow_program or ()),
        recordings=where.recordings,
        recordings_bytes=round(where.recordings_gib * 2**30),
    )
