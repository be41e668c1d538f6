"""Access of other machines to a server of a run: token, certificate, and the rule which addresses need them."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import Final

import msgspec

from soulslab.config import Secret, reveal
from soulslab.errors import ConfigError

LOOPBACK: Final = "127.0.0.1"
MIN_TOKEN: Final = 16
"""Minimum length of a token, because others can try to guess it over the network."""


class RemoteAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials with which other machines may use a server.

    The token has at least 16 printable ASCII characters; a client of the metrics sends it as ``Authorization: Bearer
    ...``. Certificate and key are PEM files for TLS.
    """

    token: str | Secret
    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "token", Secret(reveal(self.token)))


def server_context(access: RemoteAccess) -> ssl.SSLContext:
    """Return the TLS context of a server; raises ``ConfigError`` if certificate and key cannot be used."""
    for name in ("certificate", "key"):
        path: Path = getattr(access, name)
        try:
            path.open("rb").close()
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be read: {error.strerror}; give a PEM file that the user of this process may read",
                path=name,
            ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(access.certificate, access.key)
    except OSError as error:
        raise ConfigError(
            f"certificate {access.certificate} and key {access.key} cannot be used: {error.strerror or error}; "
            f"give two PEM files that match",
            path="certificate",
        ) from error
    return context


def check_access(host: str, access: RemoteAccess | None) -> None:
    """Raise ``ConfigError`` for a non-local address without a token and TLS, or for a weak token."""
    if access is None:
        if not is_loopback(host):
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


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
