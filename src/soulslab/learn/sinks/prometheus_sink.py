"""A telemetry sink with an endpoint for Prometheus."""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from typing import Final

from soulslab.config import reveal
from soulslab.errors import ConfigError, MissingDependencyError
from soulslab.learn.sinks.metric_names import MESSAGES, NameTag, name_tag, numbers, values
from soulslab.learn.sinks.scrape_types import Family, RemoteAccess, Snapshot
from soulslab.learn.telemetry import Message

LOOPBACK: Final = "127.0.0.1"
MIN_TOKEN: Final = 16
"""Minimum length of a token, because others can try to guess it over the network."""

_log = logging.getLogger(__name__)


class PrometheusSink:
    """Serves the newest numbers of a run at ``http://127.0.0.1:PORT/metrics``.

    :mod:`soulslab.learn.sinks.metric_names` defines the names; a number that is not known is absent. A separate thread
    answers each request, so training never waits for one.

    Attributes:
        port: Port of the endpoint.
        url: URL of the metrics.
    """

    def __init__(self, port: int, host: str = LOOPBACK, *, access: RemoteAccess | None = None) -> None:
        """Start the endpoint.

        Args:
            port: 0..65535; 0 uses a free port.
            host: Address of the endpoint. An address that other machines can reach needs ``access``.
            access: Token and TLS; None allows all users of this machine, without encryption.

        Raises:
            ConfigError: The port or the address cannot be used, or the address needs a token and TLS.
            MissingDependencyError: prometheus-client is not installed.
        """
        try:
            # Imported here because it takes a tenth of a second and few runs need it.
            from soulslab.learn.sinks.scrape_server import ScrapeServer  # noqa: PLC0415
        except ImportError as error:
            raise MissingDependencyError("prometheus-client", "learn") from error
        _check_access(host, access)
        if not 0 <= port <= 65535:
            raise ConfigError(f"{port} is not a port; choose one from 1 to 65535, or 0 for a free one", path="port")
        self._board = _Board()
        self._server = ScrapeServer(host, port, self._board.snapshot, access)
        self.port = self._server.port
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if access else 'http'}://{shown}:{self.port}/metrics"
        _log.info("Prometheus can read the metrics of the run at %s", self.url)

    def write(self, message: Message) -> None:
        """Replace the numbers of earlier messages of this type."""
        self._board.put(message)

    def close(self) -> None:
        """Stop the endpoint and free the port."""
        self._server.close()


class _Board:
    """The newest numbers, shared by the thread of the run and the threads of the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot = Snapshot(None, {}, {})
        # Several messages may hold the same metric; it has one description.
        self._docs = {number.metric: number.doc for kind in MESSAGES for number in numbers(kind)}

    def put(self, message: Message) -> None:
        """Store the numbers of a message; a number is removed if it is None."""
        found = {
            number.metric: Family(
                self._docs[number.metric],
                number.label,
                tuple((label, value * number.scale) for label, value in values(number, message)),
            )
            for number in numbers(type(message))
        }
        tag = name_tag(type(message))
        words = {tag.metric: _words(tag, message)} if tag is not None else {}
        with self._lock:
            old = self._snapshot
            self._snapshot = Snapshot(time.time(), {**old.words, **words}, {**old.families, **found})

    def snapshot(self) -> Snapshot:
        """Return the present numbers as an immutable value."""
        with self._lock:
            return self._snapshot


def _words(tag: NameTag, message: Message) -> dict[str, str]:
    """Return the fields of a message as text; bools in lower case, as is usual in Prometheus."""
    found = {field: getattr(message, field) for field in tag.fields}
    return {field: str(value).lower() if isinstance(value, bool) else str(value) for field, value in found.items()}


def _check_access(host: str, access: RemoteAccess | None) -> None:
    """Raise ``ConfigError`` for a non-local address without a token and TLS, or for a weak token."""
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
