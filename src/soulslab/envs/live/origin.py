"""Options of an environment that say where its game is: on this machine, on a server, or in a session of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from soulslab.config import Secret
from soulslab.envs.live.options import DuelOptions
from soulslab.envs.process_options import check_game_options
from soulslab.errors import EnvironmentUsageError
from soulslab.siphon.profile import Profile


class OriginOptions(DuelOptions, frozen=True, kw_only=True):
    """Options of a duel in a game that is found or started, beside those of `DuelOptions`.

    Attributes:
        pid: Attach to the process of a game that runs already; 0 starts or finds one.
        server: ``host:port`` of a soulslab server that has the game; "" for one on this machine.
        token: The server's token, a `soulslab.config.Secret`.
        token_file: File with the server's token; with neither, the environment variable ``SOULSLAB_TOKEN`` is read.
        tls: File with the server's certificate, for one on another machine.
        display: See `SessionOptions.display`; "" with ``render_mode="human"``.
        session: An open session, or what opens one, in place of all that.
    """

    pid: int = 0
    server: str = ""
    token: Secret | None = None
    token_file: str | Path = ""
    tls: str = ""
    display: str | None = None
    session: Any = None

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is wrong."""
        super().check()
        check_game_options(self)
        if bool(self.server) + bool(self.pid) + (self.session is not None) > 1:
            raise EnvironmentUsageError("give only one of server, pid and session")
        for name in ("token", "token_file", "tls"):
            if getattr(self, name) and not self.server:
                raise EnvironmentUsageError(f"{name} is for a server; say which with server='host:port'")
        if self.display is not None and not isinstance(self.display, str):
            raise EnvironmentUsageError(f"display must be 'private', '' or the name of one, not {self.display!r}")
        if self.session is not None and not self.has_open_session and not callable(self.session):
            raise EnvironmentUsageError(f"session must be an open session, or what opens one, not {self.session!r}")

    @property
    def has_open_session(self) -> bool:
        """Whether `session` is an open one, whose profile holds."""
        return isinstance(getattr(self.session, "profile", None), Profile)
