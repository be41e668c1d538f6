"""The state that all public clients share: one configuration, and one session with the game of the server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import PureWindowsPath
from typing import Any, TypeVar

import msgspec

from soulslab.errors import (
    AccessRefusedError,
    PatternError,
    ProfileError,
    SessionStateError,
    SiphonError,
    SoulslabError,
    UnknownAttributeError,
)
from soulslab.siphon.profile import Attribute, Profile
from soulslab.siphon.profile.public_format import PublicProfile, from_public, resolve_injected
from soulslab.siphon.rpc.public import siphon_service_pb2 as pb2
from soulslab.siphon.session import Session, SessionInfo, SessionOptions

T = TypeVar("T")
SessionOpener = Callable[[Profile, SessionOptions], Session]
SOURCE = "SetProcessConfig"

_log = logging.getLogger(__name__)


class Attachment:
    """The configuration and the session that it leads to.

    Args:
        open_session: Attaches to a running game.
        known: Our profiles by the name of the executable, with the entities for ``method = "dll"``.
        options: Session options that the protocol does not set.
        on_window: Called after a session with a window is opened.

    Attributes:
        served: Session of the server, set before the first call. Only its process can be attached to, and the session
            is read-only if this one is.
        pid: Process id; 0 if no process is attached.
        parts: The initialised parts, of ``memory``, ``input`` and ``capture``.
        profile: The configuration; None before the first one.
        window_name: Text in the title of the window that is or will be used.
    """

    served: Session

    def __init__(
        self,
        open_session: SessionOpener,
        known: Mapping[str, Profile],
        options: SessionOptions,
        *,
        on_window: Callable[[], None],
    ) -> None:
        self._open_session = open_session
        self._known = {_file_name(name): profile for name, profile in known.items()}
        self._options = options
        self._on_window = on_window
        # Held while attaching, which may take long; reading clients do not wait for it.
        self._changing = threading.Lock()
        self._public: PublicProfile | None = None
        self.profile: Profile | None = None
        self.window_name = ""
        self._session: Session | None = None
        self.pid = 0
        self.parts: frozenset[str] = frozenset()

    def configure(self, request: pb2.SetProcessConfigRequest) -> str:
        """Set the configuration; return a message. Raises `ProfileError`; `AccessRefusedError` for another game."""
        public = from_public(_tables_of(request), SOURCE)
        profile, note = self._resolve(public)
        self._served_game(profile)
        with self._changing:
            if self._public != public:
                self._replace(None, frozenset())
                self.window_name = profile.process.window_title
            self._public, self.profile = public, profile
        return f"{len(request.attributes)} attributes of {profile.process.executable}{note}"

    def open_memory(self) -> int:
        """Attach to the configured process; return its id. Raises the errors of `open_session`."""
        with self._changing:
            has_window = bool(self.parts - {"memory"})
            if not self._is_alive(self.window_name if has_window else None):
                self._attach(self.window_name if has_window else None)
            self.parts |= {"memory"}
            return self.pid

    def missing(self) -> dict[str, str]:
        """Return the reason for each attribute whose pattern has no match in the game."""
        session = self._current()
        reasons: dict[str, str] = {}
        for name in session.profile.attributes:
            try:
                session.read(name)
            except PatternError as error:
                reasons[name] = str(error)
            except SiphonError as error:  # its pattern has a match; it may be readable later
                _log.debug("attribute %r cannot be read now: %r", name, error)
        return reasons

    def open_window(self, title: str, part: str) -> tuple[int, int]:
        """Find the window for ``input`` or ``capture``, which share it; return its width and height."""
        with self._changing:
            profile = self._configured()
            title = title or profile.process.window_title
            if not self._is_alive(title):
                self._attach(title)
                self.window_name = title
            self.parts |= {part}
            return self._current().info.window_px

    def use(self, part: str, action: Callable[[Session], T]) -> T:
        """Execute an action, again if the session is replaced. Raises `SessionStateError` without the part."""
        if part not in self.parts:
            self._configured()
            raise SessionStateError(f"{part} is not initialised; call Initialize{part.capitalize()} first")
        session = self._current()
        try:
            return action(session)
        except SessionStateError:
            if self._session in (None, session):
                raise
        return action(self._current())

    def attribute(self, name: str) -> Attribute:
        """Return the definition of an attribute. Raises `SiphonError` if it needs an injected library."""
        session = self._session  # another thread may close it in the meantime
        profile = session.profile if session is not None else self._configured()
        if name in profile.attributes:
            return profile.attributes[name]
        if self._public is not None and name in self._public.injected:
            raise SiphonError(
                f"attribute {name!r} has method 'dll': it starts from an object that other servers learn by injecting "
                f"a library into the game. soulslab injects nothing, and knows no profile with an entity for "
                f"{profile.process.executable}; start the server with one"
            )
        raise UnknownAttributeError(name, profile.attributes)

    def close(self) -> None:
        """Release the game; a second call does nothing."""
        with self._changing:
            self._replace(None, frozenset())

    def _resolve(self, public: PublicProfile) -> tuple[Profile, str]:
        """Start the attributes that need an entity from the entity of one of our profiles, if there is one."""
        known = self._known.get(_file_name(public.profile.process.executable))
        if known is None:
            n = len(public.injected)
            note = f"; {n} with method 'dll' cannot be read: no profile is known that has their entity" if n else ""
            return public.profile, note
        note = ""
        try:
            profile = resolve_injected(public, known)
        except ProfileError as error:
            profile, note = public.profile, f"; those with method 'dll' cannot be read: {error}"
        # Anti-cheats of our profile are refused for public clients too.
        process = msgspec.structs.replace(
            profile.process, anti_cheat=known.process.anti_cheat, versions=known.process.versions
        )
        return msgspec.structs.replace(profile, process=process), note

    def _attach(self, title: str | None) -> None:
        """Attach, with the window with a title; None for no window."""
        profile = self._configured()
        process = msgspec.structs.replace(profile.process, window_title=title or "")
        game = self._served_game(profile)
        options = msgspec.structs.replace(
            self._options,
            launch="never",
            pid=game.pid,
            is_read_only=game.is_read_only,
            allow_missing=True,
            with_window=title is not None,
        )
        self._replace(self._open_session(msgspec.structs.replace(profile, process=process), options), self.parts)
        if title is not None:
            self._on_window()

    def _served_game(self, profile: Profile) -> SessionInfo:
        """Return the game of the server. Raises `AccessRefusedError` if the configuration names another game."""
        served = self.served
        info = served.info
        # A game that a script or another program runs is identified by the name in its profile, not by its file name.
        names = {_file_name(info.executable), _file_name(served.profile.process.executable)}
        if _file_name(profile.process.executable) not in names:
            raise AccessRefusedError(
                f"the configuration names {profile.process.executable!r}, and this server serves "
                f"{served.profile.process.executable!r} only (process {info.pid}); name that one, or start a server "
                f"of the other game"
            )
        return info

    def _is_alive(self, title: str | None) -> bool:
        """Return whether the process runs and, if a title is asked for, the session has its window."""
        if self._session is None or (title is not None and (title != self.window_name or self.parts <= {"memory"})):
            return False
        try:
            self._session.info  # noqa: B018  (raises if the window is gone)
            self._session.snapshot(())
        except SoulslabError as error:
            _log.info("attaching again: %r", error)
            return False
        return True

    def _replace(self, session: Session | None, parts: frozenset[str]) -> None:
        """Replace the session, and then close the old one, which no call gets any more."""
        try:
            pid = session.info.pid if session is not None else 0
        except SoulslabError:
            if session is not None:
                session.close()
            raise
        old, self._session, self.pid, self.parts = self._session, session, pid, parts
        if old is not None:
            old.close()

    def _configured(self) -> Profile:
        if self.profile is None:
            raise SessionStateError("no configuration was sent; call SetProcessConfig first")
        return self.profile

    def _current(self) -> Session:
        if self._session is None:
            raise SessionStateError("the game is not attached to; call InitializeMemory first")
        return self._session


def _file_name(path: str) -> str:
    """Return the last part of a Linux or Windows path, without regard to case."""
    return PureWindowsPath(path).name.lower()


def _tables_of(request: pb2.SetProcessConfigRequest) -> dict[str, Any]:
    """Return a configuration as the tables of a public TOML file."""
    attributes: dict[str, Any] = {}
    for i, attribute in enumerate(request.attributes):
        if attribute.name in attributes:
            raise ProfileError(f"{attribute.name!r} is there twice", path=f"attributes[{i}].name", source=SOURCE)
        attributes[attribute.name] = {
            "pattern": attribute.pattern,
            "offsets": list(attribute.offsets),
            "type": attribute.type,
            "length": attribute.length,
            "method": attribute.method,
            "mask": attribute.mask,
        }
    info = {"name": request.process_name, "window_name": request.process_window_name}
    return {"process_info": info, "attributes": attributes}
