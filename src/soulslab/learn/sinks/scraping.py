"""The small HTTP server behind the endpoint for Prometheus; prometheus-client writes the answers.

It is not ``prometheus_client.start_http_server`` because that asks for no token, performs TLS handshakes in the thread
that accepts (one silent client and nobody else comes in), and prints errors of its clients into the terminal.
"""

from __future__ import annotations

import hmac
import logging
import os
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import make_wsgi_app
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from soulslab.config import reveal
from soulslab.errors import ConfigError
from soulslab.learn.sinks.naming import PREFIX

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from soulslab.learn.sinks.exposition import RemoteAccess, Snapshot

_HEARD: Final = f"{PREFIX}last_message_timestamp_seconds"

_POLL_S: Final = 0.1
"""How long closing may wait for the thread that accepts."""

_CLIENT_TIMEOUT_S: Final = 10.0
"""A client that says nothing for so long is hung up on."""

_log = logging.getLogger(__name__)


class ScrapeServer:
    """Answers scrapes in threads of its own until it is closed.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, host: str, port: int, snapshot: Callable[[], Snapshot], access: RemoteAccess | None) -> None:
        """Begin to listen.

        Args:
            host: Address.
            port: 0 takes a free one.
            snapshot: Gives the numbers; called in the thread of each scrape.
            access: Token and TLS, or None for neither.

        Raises:
            ConfigError: It cannot listen there, or certificate and key cannot be used.
        """
        context = None if access is None else _tls(access)
        # Its own registry: nothing is shared with another run in this process, or with the process' own numbers.
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families(snapshot))
        app: WSGIApplication = make_wsgi_app(registry)
        try:
            self._server = _server_class(host)((host, port), _Handler)
        except OSError as error:  # a name that cannot be resolved, too
            raise ConfigError(
                f"cannot listen at {host}:{port}: {error.strerror or error}; choose another port, or 0 for a free one",
                path="port",
            ) from error
        self._server.set_app(app if access is None else _guarded(app, reveal(access.token)))
        if context is not None:
            # The handshake is left to the thread of each client.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="soulslab-prometheus", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening and free the port; a second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


class _Families(Collector):
    """What the registry asks at each scrape."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers that are known, as Prometheus' families."""
        heard_s, named, families = self._snapshot()
        if heard_s is not None:
            yield GaugeMetricFamily(_HEARD, "When the run last said something (Unix time).", value=heard_s)
        for name, words in named.items():
            yield InfoMetricFamily(name.removesuffix("_info"), "Names the run, or its end.", value=dict(words))
        for name, (doc, label, values) in families.items():
            if not values:
                continue
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(name, doc, labels=[label] if label else [])
            for label_value, value in values:
                family.add_metric([label_value] if label else [], value)
            yield family


class _Handler(WSGIRequestHandler):
    timeout = _CLIENT_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug("%s: %s", self.client_address[0], format % args)


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    # On Windows it would let two servers have one port.
    allow_reuse_address = os.name != "nt"

    def server_bind(self) -> None:
        # The base class looks the address up in the DNS, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  (the base class asks for it)
        # The base class prints it; a client that hung up is no matter of the run's.
        _log.debug("a scrape by %s failed", client_address, exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _server_class(host: str) -> type[_Server]:
    return _Server6 if ":" in host else _Server


def _guarded(app: WSGIApplication, token: str) -> WSGIApplication:
    """Return an application that refuses requests without the token."""
    expected = f"Bearer {token}".encode()

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        sent = str(environ.get("HTTP_AUTHORIZATION", "")).encode()
        if hmac.compare_digest(sent, expected):
            return app(environ, start_response)
        headers = [("WWW-Authenticate", "Bearer"), ("Content-Type", "text/plain; charset=utf-8")]
        start_response("401 Unauthorized", headers)
        return [f"the token is {'wrong' if sent else 'missing'}; send Authorization: Bearer TOKEN\n".encode()]

    return guarded


def _tls(access: RemoteAccess) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(access.certificate, access.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"certificate {access.certificate} and key {access.key} cannot be used: {error.strerror or error}; "
            f"give two PEM files that belong together",
            path="certificate",
        ) from error
    return context
