"""The server of the dashboard."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
import uvicorn
from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from soulslab.config import Secret, reveal
from soulslab.dashboard.access import TOKEN_QUERY, TokenGuard
from soulslab.dashboard.live_relay import LiveRelays
from soulslab.dashboard.pages import add_pages
from soulslab.dashboard.pages.frame import Site
from soulslab.dashboard.run_library import RunLibrary
from soulslab.errors import ConfigError
from soulslab.learn.remote_access import LOOPBACK, MIN_TOKEN, RemoteAccess, check_access, is_loopback, server_context

STATIC: Final = Path(__file__).with_name("static")

_ALL_ADDRESSES: Final = ("0.0.0.0", "::")  # noqa: S104  (compared, not listened at)

_DEADLINE: Final = "timeout graceful shutdown exceeded"
"""Part of uvicorn's message that connections were open at the end."""

_log = logging.getLogger(__name__)


class DashboardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a dashboard.

    Attributes:
        root: Folder whose runs are shown; it need not exist yet.
        host: Address to listen at; one that other machines can reach needs certificate and key.
        port: Port; 0 uses a free one.
        token: Token of the link, at least 16 characters; by default a random one.
        certificate: PEM file for TLS.
        key: PEM file with the key of the certificate.
        is_read_only: Whether the pages have no controls.
    """

    root: Path
    host: str = LOOPBACK
    port: int = 0
    token: Secret = Secret("")
    certificate: Path | None = None
    key: Path | None = None
    is_read_only: bool = False


def serve_dashboard(options: DashboardOptions, on_ready: Callable[[str], None], page: str = "/") -> None:
    """Serve a dashboard until SIGINT or SIGTERM.

    Args:
        options: What to show, and where to listen.
        on_ready: Called with the link to a page, which contains the token, once the server listens.
        page: Path of the page that the link opens.

    Raises:
        ConfigError: The address cannot be used, or needs a token and TLS.
    """
    token = reveal(options.token) or secrets.token_urlsafe(32)
    access = _access(options, token)
    with closing(_listen(options)) as listener:
        port = listener.getsockname()[1]
        site = Site(library=RunLibrary(options.root), relays=LiveRelays(), is_read_only=options.is_read_only)
        server = _server(_make_app(site, token, port, is_secure=access is not None), options)
        if access is not None:
            server.config.ssl = server_context(access)
        host = socket.gethostname() if options.host in _ALL_ADDRESSES else options.host
        shown = f"[{host}]" if ":" in host else host
        scheme = "https" if access is not None else "http"
        on_ready(f"{scheme}://{shown}:{port}{quote(page)}?{TOKEN_QUERY}={quote(token, safe='')}")
        server.run(sockets=[listener])


def _access(options: DashboardOptions, token: str) -> RemoteAccess | None:
    """Return the credentials of a server with TLS; None without. Raises `ConfigError` if they are needed or wrong."""
    if (options.certificate is None) != (options.key is None):
        raise ConfigError("TLS needs both, a certificate and its key", path="certificate")
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(f"needs at least {MIN_TOKEN} printable ASCII characters", path="token")
    if options.certificate is not None and options.key is not None:
        access = RemoteAccess(token=token, certificate=options.certificate, key=options.key)
        check_access(options.host, access)
        return access
    if not is_loopback(options.host):
        raise ConfigError(
            f"{options.host} can be reached from other machines, so TLS is needed: give --certificate and --key, or "
            f"listen at {LOOPBACK} and forward the port (ssh -L)",
            path="listen",
        )
    return None


def _listen(options: DashboardOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen at {options.host}:{options.port}: {getattr(error, 'strerror', None) or error}; choose "
            "another port, or 0 for a free one",
            path="listen",
        ) from error


def _make_app(site: Site, token: str, port: int, *, is_secure: bool) -> TokenGuard:
    """Return the application with all pages."""
    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    nicegui_app.add_static_files("/assets", STATIC)
    add_pages(site)
    site.relays.add_routes(api, site.library)
    ui.run_with(
        api,
        title="soulslab",
        favicon=STATIC / "favicon.svg",
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=10.0,
        binding_refresh_interval=None,
        message_history_length=0,
    )
    return TokenGuard(api, token, port, is_secure=is_secure)


class _WebSocketProtocol(WebSocketsSansIOProtocol):
    """The protocol of uvicorn, whose shutdown raises an error for a websocket that the browser is closing then."""

    def shutdown(self) -> None:
        """Close the connection."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.close()


def _server(app: TokenGuard, options: DashboardOptions) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        host=options.host,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws=_WebSocketProtocol,
        ws_max_size=1 << 20,
        ws_per_message_deflate=False,  # pictures are compressed already
        timeout_graceful_shutdown=1,
    )
    config.load()
    # The link in the terminal is what a user needs; uvicorn reports its start at this level.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # Browsers keep their connections, so at the end of the server the deadline passes without a fault.
    logging.getLogger("uvicorn.error").addFilter(lambda record: _DEADLINE not in record.getMessage())
    return uvicorn.Server(config)
