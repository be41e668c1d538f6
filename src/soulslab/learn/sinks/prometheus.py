"""An endpoint from which Prometheus fetches the numbers of a run."""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from typing import Final

from soulslab.config import reveal
from soulslab.errors import ConfigError, MissingDependencyError
from soulslab.learn.sinks.exposition import Family, RemoteAccess, Snapshot
from soulslab.learn.sinks.naming import MESSAGES, NameTag, name_tag, numbers, values
from soulslab.learn.telemetry import Message

LOOPBACK: Final = "127.0.0.1"
MIN_TOKEN: Final = 16
"""A token has at least so many characters, as others may guess at it over the network."""

_log = logging.getLogger(__name__)


class PrometheusSink:
    """Shows the newest numbers of a run at ``http://127.0.0.1:PORT/metrics``.

    Each number has the name that :mod:`soulslab.learn.sinks.naming` gives it; one that is unknown is absent. A scrape
    runs in a thread of its own over the numbers as they stand, so the run never waits for one.

    Attributes:
        port: Where it listens.
        url: What Prometheus scrapes.
    """

    def __init__(self, port: int, host: str = LOOPBACK, *, access: RemoteAccess | None = None) -> None:
        """Begin to listen.

        Args:
            port: 0..65535; 0 takes a free one.
            host: Address to listen at. One that other machines reach needs ``access``.
            access: Token and TLS; None lets in everybody on this machine, without encryption.

        Raises:
            ConfigError: The port is taken or no port, or the address cannot be had or needs a token and TLS.
            MissingDependencyError: prometheus-client is not installed.
        """
        try:
            # A tenth of a second to import, for a sink that few runs have.
            from soulslab.learn.sinks.scraping import ScrapeServer  # noqa: PLC0415
        except ImportError as error:
            raise MissingDependencyError("prometheus-client", "learn") from error
        _check_access(host, access)
        if not 0 <= port <= 65535:
            raise ConfigError(f"{port} is no port; choose one from 1 to 65535, or 0 for a free one", path="port")
        self._board = _Board()
        self._server = ScrapeServer(host, port, self._board.snapshot, access)
        self.port = self._server.port
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if access else 'http'}://{shown}:{self.port}/metrics"
        _log.info("Prometheus can read the run's numbers at %s", self.url)

    def write(self, message: Message) -> None:
        """Take the numbers of a message; they replace the older ones."""
        self._board.put(message)

    def close(self) -> None:
        """Stop listening and free the port."""
        self._server.close()


class _Board:
    """The newest numbers, shared by the run that writes them and the scrapes that read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot = Snapshot(None, {}, {})
        # Several messages may tell of the same number; it has one explanation.
        self._docs = {number.metric: number.doc for kind in MESSAGES for number in numbers(kind)}

    def put(self, message: Message) -> None:
        """Take in a message; a number that is unknown now is not shown any more."""
        found = {
            number.metric: Family(
                self._docs[number.metric],
                number.label,
                tuple((label, value * number.scale) for label, value in values(number, message)),
            )
            for number in numbers(type(message))
        }
        tag = name_tag(type(message))
        words = {} if tag is None else {tag.metric: _words(tag, message)}
        with self._lock:
            old = self._snapshot
            self._snapshot = Snapshot(time.time(), {**old.words, **words}, {**old.families, **found})

    def snapshot(self) -> Snapshot:
        """Return the numbers as they stand; never changed later."""
        with self._lock:
            return self._snapshot


def _words(tag: NameTag, message: Message) -> dict[str, str]:
    """Return the fields of a name tag as text; bools as Prometheus' users write them."""
    found = {field: getattr(message, field) for field in tag.fields}
    return {field: str(value).lower() if isinstance(value, bool) else str(value) for field, value in found.items()}


def _check_access(host: str, access: RemoteAccess | None) -> None:
    """Raise ``ConfigError`` for an address that others reach unless there are a token and TLS, or for a weak token."""
    if access is None:
        if not _is_loopback(host):
            raise ConfigError(
                f"{host} can be reached from other machines, so a token and TLS are needed: give "
                f"RemoteAccess(token=..., certificate=..., key=...), or listen at {LOOPBACK}",
                path="host",
            )
        return
    token = reveal(access.token)
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"needs at least {MIN_TOKEN} printable ASCII characters; make one with secrets.token_urlsafe(32)",
            path="token",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
