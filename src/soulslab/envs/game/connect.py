"""Connection options of an environment: where its game runs, and how the session is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from soulslab.config import Secret
from soulslab.envs.game.session_holder import SessionFactory, SessionHolder
from soulslab.errors import EnvironmentUsageError, optional_imports
from soulslab.siphon.profile import Profile
from soulslab.siphon.read_only import ObservedSession
from soulslab.siphon.session import Session, SessionOptions


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an environment that say where its game runs.

    Attributes:
        pid: Attach to this process; 0 finds or starts the game.
        server: ``host:port`` of a soulslab server that has the game; "" for a game on this machine.
        token: The server's token, a `soulslab.config.Secret`.
        token_file: File with the server's token; with neither, the environment variable ``SOULSLAB_TOKEN`` is read.
        tls: File with the server's certificate, for a server on another machine.
        display: See `SessionOptions.display`; "" with ``render_mode="human"``.
        input_backend: See `SessionOptions.input_backend`; ``pad`` plays the game with a gamepad, which needs no focus.
        clock: See `SessionOptions.clock`: ``lockstep`` for a game whose profile has the grade ``scaled``, if soulslab
            starts it or the clock library is installed beside it (docs/windows.md); "" for the profile's grade.
        allow_unknown_version: Attach although the profile does not know this version of the game. As in any other
            version, every value that is needed has to pass the self-check (docs/games.md) before anything is written.
        read_only: Observe a game that a person or another program plays: no write, no key, no control of time, no
            restart. The game must already run, and only the action without keys is allowed. A step waits for its length
            in wall time.
        session: An open session, or a function that opens one, instead of the options above.
    """

    pid: Annotated[int, msgspec.Meta(ge=0)] = 0
    server: str = ""
    token: Any = None
    token_file: str = ""
    tls: str = ""
    display: str | None = None
    input_backend: str = ""
    clock: Literal["", "lockstep", "scaled", "realtime"] = ""
    allow_unknown_version: bool = False
    read_only: bool = False
    session: Any = None

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that contradicts another."""
        if self.token is not None and not isinstance(self.token, Secret):
            raise EnvironmentUsageError(
                "token must be a soulslab.config.Secret, because Gymnasium and others write the options of an "
                "environment to files; give token_file, the environment variable SOULSLAB_TOKEN, or token=Secret(...)"
            )
        if self.token and self.token_file:
            raise EnvironmentUsageError("give either token or token_file, not both")
        if bool(self.server) + bool(self.pid) + (self.session is not None) > 1:
            raise EnvironmentUsageError("give only one of server, pid and session")
        for name in ("token", "token_file", "tls"):
            if getattr(self, name) and not self.server:
                raise EnvironmentUsageError(f"{name} is for a server; give its address with server='host:port'")
        for name in ("input_backend", "clock"):
            if getattr(self, name) and (self.server or self.session is not None):
                raise EnvironmentUsageError(
                    f"{name} is for a game that the environment opens; open the session or the game of the "
                    "server with it"
                )
        if self.session is not None and not self.has_open_session and not callable(self.session):
            raise EnvironmentUsageError(
                f"session must be an open session, or a function that opens one, not {self.session!r}"
            )

    @property
    def has_open_session(self) -> bool:
        """Whether `session` is an open session, whose profile is used."""
        return isinstance(getattr(self.session, "profile", None), Profile)

    @property
    def has_running_game(self) -> bool:
        """Whether the game already runs: as a process, on a server, or in a session."""
        return bool(self.server or self.pid or self.session is not None)


def hold_session(
    connect: ConnectOptions,
    profile: Profile,
    *,
    launch: str = "",
    options: Mapping[str, Any] | None = None,
    display: str = "private",
) -> SessionHolder:
    """Return the holder of the session of an environment; the session is opened when it is first needed.

    Args:
        connect: Where the game runs.
        profile: Profile of the game.
        launch: See `SessionOptions.launch`; "" starts a game that does not run yet if the profile has a command.
        options: Options of the command that starts the game (the profile's ``process.options``).
        display: Used where `ConnectOptions.display` is None.
    """
    if connect.session is not None and not callable(connect.session):
        return SessionHolder(None, ObservedSession(connect.session) if connect.read_only else connect.session)
    is_to_start = profile.process.command and not connect.pid and not connect.read_only
    session_options = SessionOptions(
        pid=connect.pid,
        display=connect.display if connect.display is not None else display,
        launch=launch or ("always" if is_to_start else "never"),
        options={name: str(value) for name, value in (options or {}).items()},
        input_backend=connect.input_backend,
        clock=connect.clock,
        is_read_only=connect.read_only,
        allow_unknown_version=connect.allow_unknown_version,
        controller="" if connect.read_only else f"an environment of {profile.name}",
    )
    factory = _session_factory(connect, profile, session_options)
    return SessionHolder((lambda seed: ObservedSession(factory(seed))) if connect.read_only else factory)


def _session_factory(connect: ConnectOptions, profile: Profile, options: SessionOptions) -> SessionFactory:
    """Return the function that opens sessions: that of the user, or one for a game on a server or on this machine."""
    if connect.session is not None:

        def open_given(seed: int | None) -> Session:
            session: Session = connect.session()
            if seed is not None:
                session.restart(seed=seed)
            return session

        return open_given
    if connect.server:
        return lambda seed: _connect(connect, profile, options.options, seed)

    def open_here(seed: int | None) -> Session:
        with optional_imports():
            from soulslab.siphon.local import open_session  # noqa: PLC0415  (X only where a game is opened)

        if seed is None:
            return open_session(profile, options)
        return open_session(profile, msgspec.structs.replace(options, deterministic=True, seed=seed))

    return open_here


def _connect(connect: ConnectOptions, profile: Profile, launch_options: Mapping[str, str], seed: int | None) -> Session:
    with optional_imports():
        from soulslab.siphon.rpc.access import find_token  # noqa: PLC0415  (as above)
        from soulslab.siphon.rpc.client import connect as connect_client  # noqa: PLC0415  (gRPC only where needed)

    token = find_token(connect.token, connect.token_file)
    session = connect_client(connect.server, token=token, tls=connect.tls or None)
    try:
        _refuse_other_profile(session.profile, profile, connect.server)
        if launch_options or seed is not None:
            session.restart(launch_options or None, seed=seed)
    except BaseException:
        session.close()
        raise
    return session


def _refuse_other_profile(theirs: Profile, ours: Profile, server: str) -> None:
    for name in ("attributes", "keys", "clock"):
        if getattr(theirs, name) != getattr(ours, name):
            raise EnvironmentUsageError(
                f"the server at {server} has a profile with other {name}; use a copy of its file, or serve this "
                f"profile (with --boss, for a boss that the profile of a real game does not name)"
            )
    for name, entity in ours.entities.items():
        # The source of an id may differ between two files.
        if name not in theirs.entities or theirs.entities[name].id != entity.id:
            raise EnvironmentUsageError(
                f"the server at {server} does not look for the {name} with the id {entity.id}; serve it with --boss"
            )
