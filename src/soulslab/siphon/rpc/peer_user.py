"""The user at the other end of a local connection, as reported by the kernel (Linux, ``sock_diag(7)``)."""

from __future__ import annotations

import socket
import struct
from urllib.parse import unquote

from soulslab.siphon.rpc.address import Address

#: From linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and netinet/tcp.h.
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
TCP_ESTABLISHED = 1
ANY_STATE = ANY_COOKIE = 0xFFFFFFFF

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port id
_REQUEST = struct.Struct("=BBBBI")  # inet_diag_req_v2: family, protocol, extensions, padding, states
_PORTS = struct.Struct("!HH")  # inet_diag_sockid: source and destination port; the addresses follow
_REST = struct.Struct("=III")  # inet_diag_sockid: interface, cookie
_ANSWER_SIZE = 72  # inet_diag_msg
_STATE_AT, _USER_AT = 1, 64
_RECEIVE_BYTES = 8192


def address_of_peer(peer: str) -> tuple[str, int]:
    """Return the IP address and port from gRPC's notation, ``ipv4:127.0.0.1:5000`` or ``ipv6:%5B::1%5D:5000``."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return plain_host(host.strip("[]")), int(port) if port.isdecimal() else 0


def plain_host(host: str) -> str:
    """Return an IP address without its zone; an IPv4-mapped IPv6 address becomes IPv4."""
    return host.partition("%")[0].removeprefix("::ffff:")


def user_of_peer(peer: str, server: Address) -> int | None:
    """Return the user whose process is connected to a server at a loopback address.

    Args:
        peer: Client, in gRPC's notation.
        server: Address of the server with its port.

    Returns:
        User id; None if the kernel knows no such connection.

    Raises:
        OSError: The kernel does not support the query.
    """
    host, port = address_of_peer(peer)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server_host = server.host
    if server_host == "localhost":
        server_host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    # Of the two sockets of the connection, the one of the client.
    sought = _PORTS.pack(port, server.port) + _packed(family, host) + _packed(family, server_host)
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, ANY_STATE) + sought + _REST.pack(0, ANY_COOKIE, ANY_COOKIE)
    header = _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(header + body)
        answer = kernel.recv(_RECEIVE_BYTES)
    found = answer[_HEADER.size :]
    if _HEADER.unpack_from(answer)[1] != SOCK_DIAG_BY_FAMILY or len(found) < _ANSWER_SIZE:
        return None
    # The kernel reports user 0 for a socket that its process has closed.
    if found[_STATE_AT] != TCP_ESTABLISHED:
        return None
    user: int = struct.unpack_from("=I", found, _USER_AT)[0]
    return user


def _packed(family: socket.AddressFamily, host: str) -> bytes:
    return socket.inet_pton(family, host).ljust(16, b"\0")
