"""Scrapes of an endpoint for Prometheus, parsed as Prometheus does."""

from __future__ import annotations

import ssl
import urllib.request
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from support.waiting import PATIENCE_S

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
# Without the proxy settings of this machine.
_OPENER = urllib.request.ProxyHandler({})


def fetch(
    url: str,
    headers: dict[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    data: bytes | None = None,
) -> str:
    """Return the text at an address of this machine; with data, send a POST request."""
    opener = urllib.request.build_opener(_OPENER, urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(url, data, headers or {})  # noqa: S310  (addresses of the tested sinks)
    with opener.open(request, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def families(url: str, **options: Any) -> dict[str, Any]:
    """Scrape; return the families by name, counters without their ``_total``."""
    return {family.name: family for family in parse(fetch(url, **options))}


def samples(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Scrape; return the samples by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families(url).values()
        for sample in family.samples
    }


def value(url: str, name: str, **labels: str) -> float | None:
    """Scrape; return a sample, None if it is absent."""
    return samples(url).get((name, frozenset(labels.items())))


def open_families(url: str) -> dict[str, Any]:
    """Scrape in the OpenMetrics format, whose parser checks names and types strictly."""
    return {family.name: family for family in parse_open(fetch(url, {"Accept": OPEN_METRICS}))}
