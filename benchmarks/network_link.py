"""A network namespace that is connected to this machine through a bridge whose port can be switched off. Linux only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import msgspec

_NETWORK: Final = "198.18"
"""Network that RFC 2544 reserves for benchmarks; other addresses for examples may be those of a virtual machine."""


class NetworkLink(msgspec.Struct, frozen=True, kw_only=True):
    """A connection between this machine and a namespace.

    Attributes:
        address: Address of this machine, for the namespace.
        command: Words before a command that has to run in the namespace.
        port: Interface of the bridge that leads to the namespace.
    """

    address: str
    command: tuple[str, ...]
    port: str

    def interrupt(self) -> None:
        """Switch the port off: packets are lost, and nothing reports it to either side."""
        _ip("link", "set", self.port, "down")

    def restore(self) -> None:
        """Switch the port on again."""
        _ip("link", "set", self.port, "up")


@contextmanager
def network_link() -> Iterator[NetworkLink | None]:
    """Make a namespace that reaches this machine; yield None if this user may not, or without iproute2."""
    with ExitStack() as stack:
        try:
            link = _make_link(stack)
        except (OSError, subprocess.CalledProcessError):
            link = None
        yield link


def _make_link(stack: ExitStack) -> NetworkLink:
    pid = os.getpid()
    name, bridge, port, peer = f"soulslab{pid}", f"slb{pid}", f"slp{pid}", f"sln{pid}"
    # Four addresses for each process, so that several can have a link at the same time.
    block = pid % 2**14 * 4
    here, there = (f"{_NETWORK}.{(block + i) // 256}.{(block + i) % 256}" for i in (1, 2))
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "del", name)
    _ip("link", "add", bridge, "type", "bridge")
    stack.callback(_ip, "link", "del", bridge)
    _ip("link", "add", port, "type", "veth", "peer", "name", peer, "netns", name)
    stack.callback(_ip, "link", "del", port)
    _ip("addr", "add", f"{here}/30", "dev", bridge)
    _ip("-n", name, "addr", "add", f"{there}/30", "dev", peer)
    _ip("link", "set", port, "master", bridge)
    for words in (("link", "set", bridge), ("link", "set", port), ("-n", name, "link", "set", peer)):
        _ip(*words, "up")
    return NetworkLink(address=here, command=(_program(), "netns", "exec", name), port=port)


def _ip(*words: str) -> None:
    subprocess.run([_program(), *words], check=True, capture_output=True)


def _program() -> str:
    found = shutil.which("ip")
    if found is None:
        raise FileNotFoundError("ip of iproute2 is not installed")
    return found
