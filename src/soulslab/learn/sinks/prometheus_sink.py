"""A telemetry sink with an endpoint for Prometheus.

``prometheus_client.start_http_server`` is not used because it does not check a token, performs TLS handshakes in the
thread that accepts connections (one idle client would block all others), and prints errors of clients to the terminal.
"""

from __future__ import annotations

import hmac
import logging
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from soulslab.config import reveal
from soulslab.errors import ConfigError, MissingDependencyError
from soulslab.learn.remote_access import LOOPBACK, RemoteAccess, check_access, server_context
from soulslab.learn.sinks.metric_names import MESSAGES, NAME_TAGS, PREFIX, NameTag, numbers, values
from soulslab.learn.telemetry import Message

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client.metrics_core import Metric

_LAST_MESSAGE: Final = f"{PREFIX}last_message_timestamp_seconds"

_POLL_S: Final = 0.1
"""Longest time that closing waits for the thread that accepts connections."""

_CLIENT_TIMEOUT_S: Final = 10.0
"""Time without data after which a connection is closed."""

_log = logging.getLogger(__name__)


class PrometheusSink:
    """Serves the newest numbers of a run at ``http://127.0.0.1:PORT/metrics``.

    :mod:`soulslab.learn.sinks.metric_names` defines the names; a number that is not known is absent. A separate thread
    answers each request, so training never waits for one. ``url`` is the URL of the metrics.
    """

    def __init__(self, port: int, host: str = LOOPBACK, *, access: RemoteAccess | None = None) -> None:
        """Start the endpoint; port 0 uses a free port.

        An address that other machines can reach needs ``access``; None allows all users of this machine, without
        encryption. Raises ConfigError if the port or the address cannot be used or ``access`` is missing,
        MissingDependencyError if prometheus-client is not installed.
        """
        # Replaced as a whole by the thread of the run, so that the thread of a request reads one moment.
        self._metrics: Mapping[str, Metric] = {}
        # Several messages may hold the same metric; it has one description.
        self._docs = {number.metric: number.doc for kind in MESSAGES for number in numbers(kind)}
        app = _make_app(lambda: self._metrics)
        check_access(host, access)
        if not 0 <= port <= 65535:
            raise ConfigError(f"{port} is not a port; choose one from 1 to 65535, or 0 for a free one", path="port")
        context = server_context(access) if access is not None else None
        try:
            self._server = (_Server6 if ":" in host else _Server)((host, port), _Handler)
        except OSError as error:  # includes names that cannot be resolved
            raise ConfigError(
                f"cannot listen at {host}:{port}: {error.strerror or error}; choose another port, or 0 for a free one",
                path="port",
            ) from error
        self._server.set_app(_require_token(app, reveal(access.token)) if access is not None else app)
        if context is not None:
            # The thread of each client performs the handshake.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="soulslab-prometheus", daemon=True
        )
        self._thread.start()
        self.port: int = self._server.server_port
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if access else 'http'}://{shown}:{self.port}/metrics"
        _log.info("Prometheus can read the metrics of the run at %s", self.url)

    def write(self, message: Message) -> None:
        """Replace the numbers of earlier messages of this type; a number is removed if it is None."""
        from prometheus_client.metrics_core import InfoMetricFamily  # noqa: PLC0415  (as in `_make_app`)

        found = dict(self._metrics)
        doc = "Time of the last message of the run (Unix time)."
        found[_LAST_MESSAGE] = _family(_LAST_MESSAGE, doc, "", [("", time.time())])
        tag = NAME_TAGS.get(type(message))
        if tag is not None:
            doc = "Description of the run or its end."
            found[tag.metric] = InfoMetricFamily(tag.metric.removesuffix("_info"), doc, value=_labels(tag, message))
        for number in numbers(type(message)):
            known = [(label, value * number.scale) for label, value in values(number, message)]
            found.pop(number.metric, None)
            if known:
                found[number.metric] = _family(number.metric, self._docs[number.metric], number.label, known)
        self._metrics = found

    def close(self) -> None:
        """Stop the endpoint and free the port; a second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


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


def _make_app(metrics: Callable[[], Mapping[str, Metric]]) -> WSGIApplication:
    """Return the application that answers requests with the present metrics."""
    try:
        # Imported here because it comes with an extra and few runs need it.
        from prometheus_client import CollectorRegistry  # noqa: PLC0415
        from prometheus_client.exposition import make_wsgi_app  # noqa: PLC0415
        from prometheus_client.registry import Collector  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("prometheus-client", "learn") from error

    class Metrics(Collector):
        def collect(self) -> Iterable[Metric]:
            return metrics().values()

    # A separate registry, so that nothing is shared with other runs or with metrics of the process.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Metrics())
    app: WSGIApplication = make_wsgi_app(registry)
    return app


def _family(name: str, doc: str, label: str, known: Iterable[tuple[str, float]]) -> Metric:
    """Return a metric with its values, pairs of the label's value and a number; the label "" is none."""
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415  (as above)

    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(name, doc, labels=[label] if label else [])
    for label_value, value in known:
        family.add_metric([label_value] if label else [], value)
    return family


def _labels(tag: NameTag, message: Message) -> dict[str, str]:
    """Return the fields of a message as text; bools in lower case, as is usual in Prometheus."""
    found = {field: getattr(message, field) for field in tag.fields}
    return {field: str(value).lower() if isinstance(value, bool) else str(value) for field, value in found.items()}


def _require_token(app: WSGIApplication, token: str) -> WSGIApplication:
    expected = f"Bearer {token}".encode()

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        sent = str(environ.get("HTTP_AUTHORIZATION", "")).encode()
        if hmac.compare_digest(sent, expected):
            return app(environ, start_response)
        headers = [("WWW-Authenticate", "Bearer"), ("Content-Type", "text/plain; charset=utf-8")]
        start_response("401 Unauthorized", headers)
        return [f"the token is {'wrong' if sent else 'missing'}; send Authorization: Bearer TOKEN\n".encode()]

    return guarded
