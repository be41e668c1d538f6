"""A server in the foreground: it prints how to connect, and serves until it is stopped."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
from rich.console import Console

from soulslab.siphon.rpc.access import read_or_make_token
from soulslab.siphon.rpc.address import parse_address
from soulslab.siphon.rpc.public.service import PublicOptions, PublicService
from soulslab.siphon.rpc.server import RunningServer, ServerOptions, serve
from soulslab.siphon.session import Session

WAIT_S = 0.5


def serve_until_stopped(
    session: Session, options: ServerOptions, token_file: Path | None, console: Console, public: PublicOptions | None
) -> None:
    """Serve a game, which stays open, until Ctrl-C or SIGTERM.

    The token file is created with a new token, for this user only, if it does not exist; without one the token is
    printed. `public` are options for clients of the public protocol; None for no such clients.

    Raises `ConfigError` if the token file or the address cannot be used.
    """
    if token_file is not None:
        options = msgspec.structs.replace(options, token=read_or_make_token(token_file))
    with ExitStack() as running:
        # SIGTERM stops the server as Ctrl-C does, so that keys are released and the game is ended.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        running.callback(signal.signal, signal.SIGTERM, before)
        if public is not None:
            service = running.enter_context(PublicService(public))
            options = msgspec.structs.replace(options, extra_handlers=service.handlers)
        server = running.enter_context(serve(session, options))
        for line in _how_to_connect(session, server, options, token_file):
            console.print(line, markup=False, highlight=False)
        try:
            while server.wait(WAIT_S):
                pass
        except KeyboardInterrupt:
            console.print("stopped", highlight=False)


def _how_to_connect(
    session: Session, server: RunningServer, options: ServerOptions, token_file: Path | None
) -> Iterator[str]:
    """Yield the lines that explain how to connect."""
    yield f"{session.profile.name}, process {session.info.pid}, at {server.address}; Ctrl-C ends it"
    if server.token and token_file is None:
        yield f"token: {server.token.reveal()}"
    flags = f" --token-file {shlex.quote(str(token_file or 'FILE'))}" if server.token else ""
    arguments = ", token=..." if server.token else ""
    if options.tls_certificate is not None:
        flags += f" --certificate {shlex.quote(str(options.tls_certificate))}"
        arguments += f', tls="{options.tls_certificate}"'
    address = parse_address(server.address)
    if address.is_any:
        yield "HOST is the name of this machine that stands in the certificate"
        address = msgspec.structs.replace(address, host="HOST")
    yield f"look at it: soulslab siphon watch {shlex.quote(str(address))}{flags}"
    yield f'in Python:  soulslab.siphon.rpc.client.connect("{address}"{arguments})'
    # Public clients support neither tokens nor TLS.
    if options.extra_handlers is not None and address.is_local:
        yield f"pysiphon:   pysiphon --host {shlex.quote(str(address))} status"
