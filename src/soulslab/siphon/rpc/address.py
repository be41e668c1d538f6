"""Addresses of servers; connections to other machines need TLS and a token."""

from __future__ import annotations

import ipaddress
import re

import msgspec

from soulslab.errors import ConfigError

_HOST_PORT = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]/]+):(?P<port>\d{1,5})")

#: Maximum length of the path of a Unix socket (unix(7): 108 bytes with the zero byte at its end).
MAX_PATH_BYTES = 107


class Address(msgspec.Struct, frozen=True):
    """Address of a server: `host` and TCP `port` (0 for any free one), or the `path` of a Unix socket."""

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
        ip = _ip(self.host)
        # A host name may resolve to any machine.
        return bool(self.path) or self.host == "localhost" or (ip is not None and ip.is_loopback)

    @property
    def is_any(self) -> bool:
        """Whether it stands for all addresses of this machine, so that clients need another address."""
        ip = _ip(self.host)
        return ip is not None and ip.is_unspecified

    @property
    def target(self) -> str:
        """The address in gRPC's notation."""
        return str(self) if self.path or _ip(self.host) else f"dns:{self}"


def parse_address(text: str) -> Address:
    """Parse ``host:port``, ``[::1]:port`` or ``unix:/path/of/socket``. Raises `ConfigError` for another form."""
    if text.startswith("unix:") and len(text) > len("unix:"):
        path = text.removeprefix("unix:")
        n_bytes = len(path.encode(errors="replace"))
        if n_bytes > MAX_PATH_BYTES:
            limit = f"{n_bytes} bytes, and the system allows {MAX_PATH_BYTES}; use a shorter path"
            raise ConfigError(f"the path of the socket {text!r} has {limit}", source="address")
        return Address(path=path)
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(f"{text!r} is neither host:port nor unix:/path", source="address")
    host = match["host"].strip("[]")
    if match["host"] != host and _ip(host) is None:
        raise ConfigError(f"{text!r} holds no IP address between its brackets", source="address")
    return Address(host=host, port=int(match["port"]))


def is_address(text: str) -> bool:
    """Return whether a text has the form of an address, valid or not, instead of a file or a name."""
    return text.startswith("unix:") or _HOST_PORT.fullmatch(text) is not None


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a host is written as; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
