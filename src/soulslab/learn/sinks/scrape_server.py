"""The HTTP server of the endpoint for Prometheus.

``prometheus_client.start_http_server`` is not used because it does not check a token, performs TLS handshakes in the
thread that accepts connections (one idle client would block all others), and prints errors of clients to the terminal.
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
from soulslab.learn.sinks.metric_names import PREFIX
from soulslab.learn.sinks.scrape_types import RemoteAccess, Snapshot

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


_HEARD: Final = f"{PREFIX}last_message_timestamp_seconds"

_POLL_S: Final = 0.1
"""Longest time that closing waits for the thread that accepts connections."""

_CLIENT_TIMEOUT_S: Final = 10.0
"""Time without data after which a connection is closed."""

_log = logging.getLogger(__name__)


class ScrapeServer:
    """Answers requests in separate threads until it is closed.

    Attributes:
        port: Port of the server.
    """

    def __init__(self, host: str, port: int, snapshot: Callable[[], Snapshot], access: RemoteAccess | None) -> None:
        """Start the server; ``snapshot`` is called in the thread of each request.

        Raises ConfigError for an address or port that cannot be used, or an invalid certificate and key.
        """
        context = _tls(access) if access is not None else None
        # A separate registry, so that nothing is shared with other runs or with metrics of the process.
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families(snapshot))
        app: WSGIApplication = make_wsgi_app(registry)
        try:
            self._server = _server_class(host)((host, port), _Handler)
        except OSError as error:  # includes names that cannot be resolved
            raise ConfigError(
                f"cannot listen at {host}:{port}: {error.strerror or error}; choose another port, or 0 for a free one",
                path="port",
            ) from error
        self._server.set_app(_guarded(app, reveal(access.token)) if access is not None else app)
        if context is not None:
            # The thread of each client performs the handshake.
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
    """Provides the numbers to the registry at each request."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Yield the known numbers as metric families of Prometheus."""
        heard_s, named, families = self._snapshot()
        if heard_s is not None:
            yield GaugeMetricFamily(_HEARD, "Time of the last message of the run (Unix time).", value=heard_s)
        for name, words in named.items():
            yield InfoMetricFamily(name.removesuffix("_info"), "Description of the run or its end.", value=dict(words))
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
    # On Windows this option would allow two servers on one port.
    allow_reuse_address = os.name != "nt"

    def server_bind(self) -> None:
        # The base class looks up the address in DNS, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  (signature of the base class)
        # The base class prints the error; a client that disconnects does not concern the run.
        _log.debug("a scrape by %s failed", client_address, exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _server_class(host: str) -> type[_Server]:
    return _Server6 if ":" in host else _Server


def _guarded(app: WSGIApplication, token: str) -> WSGIApplication:
    """Return an application that rejects requests without the token."""
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
            f"give two PEM files that match",
            path="certificate",
        ) from error
    return context
