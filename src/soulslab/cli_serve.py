"""``soulslab siphon serve``: a game for programs on this machine or others. It parses, wires and exits with a code."""

# ruff: noqa: PLC0415  (`soulslab --help` has to answer at once)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli_siphon import AttachFlags, open_local
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.siphon.profile import Profile
    from soulslab.siphon.rpc.public.service import PublicOptions


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class ServeFlags:
    """Where to serve, and to whom.

    Attributes:
        address: host:port or unix:/path; port 0 lets the system choose. What other machines can reach needs TLS.
        token_file: File with the token that clients have to send; it is written if it does not exist yet.
        token: Whether clients need a token; without one, every program of the same user on this machine may connect.
        tls_certificate: PEM file.
        tls_key: PEM file.
        read_only: Let clients of both protocols observe only: no write, no key, no control of time, no restart.
        allow_raw_writes: Let clients write numbers at any address of the game, as event flags need it. This permits
            them to run code as the user who runs the game.
        public: Also speak the public Siphon protocol, as pysiphon does. On this machine it needs no token; the user has
            to be the same.
        allow_program: Program that clients of the public protocol may run; none by default; may be given many times.
        recordings: Folder for what clients of the public protocol record.
        recordings_gib: The most that this folder may hold, in GiB.
    """

    address: str = "127.0.0.1:0"
    token_file: Path | None = None
    token: bool = True
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    read_only: Annotated[bool, Parameter(negative="")] = False
    allow_raw_writes: Annotated[bool, Parameter(negative="")] = False
    public: bool = False
    allow_program: Annotated[list[Path] | None, Parameter(negative="")] = None
    recordings: Path = Path("recordings")
    recordings_gib: Annotated[float, Parameter(validator=Number(gt=0))] = 16.0


def serve(profile: Path, *, flags: AttachFlags | None = None, where: ServeFlags | None = None) -> None:
    """Serve a game to programs on this machine or others; Ctrl-C ends it.

    Args:
        profile: The game's profile, or the name of a game that comes with soulslab (doom).
        flags: Which game to attach to.
        where: Where, and to whom.
    """
    from rich.console import Console

    from soulslab.siphon.rpc.foreground_server import serve_until_stopped
    from soulslab.siphon.rpc.server import ServerOptions, check_access

    flags, where = flags or AttachFlags(), where or ServeFlags()
    if where.allow_program and not where.public:
        raise ConfigError("is for the public protocol: add --public", source="--allow-program")
    if where.token_file and not where.token:
        raise ConfigError("a token that nobody needs is of no use", source="--token-file --no-token")
    if where.read_only and where.allow_raw_writes:
        raise ConfigError("a read-only server permits no writes", source="--read-only --allow-raw-writes")
    options = ServerOptions(
        address=where.address,
        needs_token=where.token,
        tls_certificate=where.tls_certificate,
        tls_key=where.tls_key,
        allow_raw_writes=where.allow_raw_writes,
    )
    check_access(options)  # before a game is started for nothing
    with open_local(profile, flags, is_read_only=where.read_only, with_window=True) as session:
        public = _public_options(session.profile, where) if where.public else None
        serve_until_stopped(session, options, where.token_file, Console(soft_wrap=True), public)


def _public_options(served: Profile, where: ServeFlags) -> PublicOptions:
    """Return how public clients are served: they open the game anew, without its time, which their protocol lacks."""
    from soulslab.games import known_games, profile_path
    from soulslab.siphon.local import open_session
    from soulslab.siphon.profile import load_profile
    from soulslab.siphon.rpc.public.service import PublicOptions
    from soulslab.siphon.session import SessionOptions

    known = [*(load_profile(profile_path(Path(game))) for game in known_games()), served]
    return PublicOptions(
        open_session=open_session,
        session=SessionOptions(launch="never", clock="realtime", deadline_s=10.0),
        known={profile.process.executable: profile for profile in known},
        programs=tuple(where.allow_program or ()),
        recordings=where.recordings,
        recordings_bytes=round(where.recordings_gib * 2**30),
    )
