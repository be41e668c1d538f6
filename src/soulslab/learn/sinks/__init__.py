"""Telemetry sinks: a progress bar, JSON lines, TensorBoard, an endpoint for Prometheus, Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from soulslab.learn.live_feed import FEED_NAME, LiveFeed
from soulslab.learn.remote_access import RemoteAccess
from soulslab.learn.settings import SinkSettings
from soulslab.learn.sinks.console_sink import ConsoleSink
from soulslab.learn.sinks.json_lines_sink import JsonLinesSink, read_json_lines
from soulslab.learn.sinks.prometheus_sink import PrometheusSink
from soulslab.learn.sinks.tensorboard_sink import TensorBoardSink
from soulslab.learn.sinks.wandb_sink import WandbSink
from soulslab.learn.telemetry import Sink

__all__ = [
    "PROGRESS_NAME",
    "TENSORBOARD_NAME",
    "ConsoleSink",
    "JsonLinesSink",
    "PrometheusSink",
    "RemoteAccess",
    "TensorBoardSink",
    "WandbSink",
    "read_json_lines",
    "run_sinks",
]

PROGRESS_NAME: Final = "progress.jsonl"
TENSORBOARD_NAME: Final = "tensorboard"


_NO_OTHERS: Final = SinkSettings()


def run_sinks(
    run_dir: Path, others: SinkSettings = _NO_OTHERS, *, prometheus_port: int | None = None
) -> tuple[Sink, ...]:
    """Return the usual sinks of a run: a progress bar, and in its folder JSON lines, TensorBoard and a live feed.

    ``others`` are the further sinks of the settings of the run (``settings.sinks``). ``prometheus_port`` is that of an
    endpoint on this machine; 0 uses a free port.

    Raises ConfigError if the port cannot be used, MissingDependencyError if TensorBoard, prometheus-client or wandb is
    not installed.
    """
    sinks: list[Sink] = [
        ConsoleSink(),
        JsonLinesSink(run_dir / PROGRESS_NAME),
        TensorBoardSink(run_dir / TENSORBOARD_NAME),
        LiveFeed(run_dir / FEED_NAME),
    ]
    if others.wandb:
        sinks.append(WandbSink(run_dir, others.wandb))
    if prometheus_port is not None:
        # Created last, because it is the only one that holds a resource (the port) before the first message.
        sinks.append(PrometheusSink(prometheus_port))
    return tuple(sinks)
