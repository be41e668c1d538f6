"""Metrics exposed to Prometheus, and the access settings of other machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from soulslab.config import Secret, reveal


class RemoteAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What lets other machines fetch the numbers, and nobody else.

    Attributes:
        token: What they have to send, as ``Authorization: Bearer ...``; at least 16 printable ASCII characters.
        certificate: PEM file with the certificate that the endpoint proves itself with.
        key: PEM file with its key.
    """

    token: str | Secret
    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "token", Secret(reveal(self.token)))


class Family(NamedTuple):
    """What is known under one name.

    Attributes:
        doc: What it means.
        label: Name of its label; "" if it has none.
        values: Pairs of the label's value and the number; empty while it is unknown.
    """

    doc: str
    label: str
    values: tuple[tuple[str, float], ...]


class Snapshot(NamedTuple):
    """All numbers at one moment.

    Attributes:
        heard_s: When the run last said something (Unix time, s); None before it did.
        words: By metric, labels that name the run or its end.
        families: By metric, what is known.
    """

    heard_s: float | None
    words: Mapping[str, Mapping[str, str]]
    families: Mapping[str, Family]
