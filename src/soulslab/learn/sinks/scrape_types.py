"""Types that the Prometheus sink and its HTTP server share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from soulslab.config import Secret, reveal


class RemoteAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials with which other machines may fetch the metrics.

    Attributes:
        token: Sent by the client as ``Authorization: Bearer ...``; at least 16 printable ASCII characters.
        certificate: PEM file with the TLS certificate of the endpoint.
        key: PEM file with its key.
    """

    token: str | Secret
    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "token", Secret(reveal(self.token)))


class Family(NamedTuple):
    """A metric and its present values.

    Attributes:
        doc: Description of the metric.
        label: Name of the label; "" if it has none.
        values: Pairs of the label's value and the number; empty if no value is known.
    """

    doc: str
    label: str
    values: tuple[tuple[str, float], ...]


class Snapshot(NamedTuple):
    """All metrics at one moment.

    Attributes:
        heard_s: Time of the last telemetry message (Unix time, s); None before the first.
        words: Labels that describe the run or its end, by metric.
        families: Descriptions and values, by metric.
    """

    heard_s: float | None
    words: Mapping[str, Mapping[str, str]]
    families: Mapping[str, Family]
