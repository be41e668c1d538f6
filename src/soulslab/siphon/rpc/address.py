"""Addresses of servers, and what may go to which: nothing leaves this machine without TLS and a token."""

from __future__ import annotations

import ipaddress
import re

import msgspec

from soulslab.errors import ConfigError

_HOST_PORT = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]/]+):(?P<port>\d{1,5})")


class Address(msgspec.Struct, frozen=True):
    """Where a server listens.

    Attributes:
        host: Name or IP address; "" for a Unix socket.
        port: 0 lets the system choose.
        path: Of a Unix socket; "" for TCP.
    """

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name: it may lead anywhere
            return False

    @property
    def is_any(self) -> bool:
        """Whether it stands for all addresses of this machine, so that clients need another name for it."""
        return _is_ip(self.host) and ipaddress.ip_address(self.host).is_unspecified

    @property
    def target(self) -> str:
        """What gRPC calls it."""
        return str(self) if self.path or _is_ip(self.host) else f"dns:{self}"


def parse_address(text: str) -> Address:
    """Return an address.

    Args:
        text: ``host:port``, ``[::1]:port`` or ``unix:/path/of/socket``.

    Raises:
        ConfigError: It is none of these.
    """
    if text.startswith("unix:") and len(text) > len("unix:"):
        return Address(path=text.removeprefix("unix:"))
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(f"{text!r} is neither host:port nor unix:/path", source="address")
    host = match["host"].strip("[]")
    if match["host"] != host and not _is_ip(host):
        raise ConfigError(f"{text!r} holds no IP address between its brackets", source="address")
    return Address(host=host, port=int(match["port"]))


def is_address(text: str) -> bool:
    """Return whether a text has the form of an address, right or wrong, and not that of a file or a name."""
    return text.startswith("unix:") or _HOST_PORT.fullmatch(text) is not None


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
