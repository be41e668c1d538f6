"""A second machine on this one: a network namespace behind a switch, whose cable can be pulled out. Linux only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import msgspec

_HERE: Final = "198.18.77.1"
_THERE: Final = "198.18.77.2"
"""Addresses that RFC 2544 reserves for benchmarks of networks, so that they hardly belong to a network in use."""


class NetworkLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link between this machine and a namespace.

    Attributes:
        address: Address of this machine, for the namespace.
        command: Words before a command that has to run in the namespace.
    """

    address: str
    command: tuple[str, ...]
    _cable: str

    def cut(self) -> None:
        """Pull the cable out of the switch: packets are lost, and nothing reports it to either side."""
        _ip("link", "set", self._cable, "down")

    def mend(self) -> None:
        """Plug the cable in again."""
        _ip("link", "set", self._cable, "up")


@contextmanager
def network_link() -> Iterator[NetworkLink | None]:
    """Make a namespace that reaches this machine; yield None if this user may not, or without iproute2."""
    name = f"soulslab{os.getpid()}"
    switch, cable, plug = (f"sl{kind}{os.getpid()}" for kind in ("s", "c", "p"))
    with ExitStack() as stack:
        try:
            _ip("netns", "add", name)
        except (OSError, subprocess.CalledProcessError):
            yield None
            return
        stack.callback(_ip, "netns", "del", name)
        _ip("link", "add", switch, "type", "bridge")
        stack.callback(_ip, "link", "del", switch)
        _ip("link", "add", cable, "type", "veth", "peer", "name", plug, "netns", name)
        stack.callback(_ip, "link", "del", cable)
        _ip("addr", "add", f"{_HERE}/30", "dev", switch)
        _ip("-n", name, "addr", "add", f"{_THERE}/30", "dev", plug)
        _ip("link", "set", cable, "master", switch)
        for words in (("link", "set", switch), ("link", "set", cable), ("-n", name, "link", "set", plug)):
            _ip(*words, "up")
        yield NetworkLink(address=_HERE, command=(_program(), "netns", "exec", name), _cable=cable)


def _ip(*words: str) -> None:
    subprocess.run([_program(), *words], check=True, capture_output=True)


def _program() -> str:
    found = shutil.which("ip")
    if found is None:
        raise FileNotFoundError("ip of iproute2 is not installed")
    return found
