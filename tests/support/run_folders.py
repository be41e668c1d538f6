"""Folders of runs without training: the files that the dashboard reads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from soulslab.learn import telemetry

START_S = 1_700_000_000.0


def line(message: telemetry.Message, wall_s: float = START_S) -> bytes:
    """Return a line of ``progress.jsonl``."""
    stamp = datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="milliseconds")
    return msgspec.json.encode({**msgspec.to_builtins(message), "time": stamp}) + b"\n"


def started(env_steps: int = 0, *, is_resumed: bool = False) -> telemetry.TrainStarted:
    return telemetry.TrainStarted(
        env_id="toys/Corridor-v0", total_steps=1000, env_steps=env_steps, seed=3, is_resumed=is_resumed
    )


def progress(env_steps: int, win_rate: float | None = 0.5, **changes: Any) -> telemetry.TrainProgress:
    fields: dict[str, Any] = {
        "total_steps": 1000,
        "seconds": env_steps / 100.0,
        "steps_per_second": 100.0,
        "n_fights": env_steps // 10,
        "mean_return": 0.25,
        "mean_decisions": 10.0,
        **changes,
    }
    return telemetry.TrainProgress(env_steps=env_steps, win_rate=win_rate, **fields)


def evaluated(env_steps: int, win_rate: float | None = 0.8) -> telemetry.Evaluated:
    low, high = (None, None) if win_rate is None else (win_rate - 0.1, win_rate + 0.1)
    return telemetry.Evaluated(env_steps=env_steps, n_fights=50, mean_return=1.5, win_rate=win_rate, low=low, high=high)


def finished(env_steps: int, reason: str = "completed") -> telemetry.TrainFinished:
    return telemetry.TrainFinished(env_steps=env_steps, seconds=env_steps / 100.0, reason=reason)


def write_run(folder: Path, messages: list[telemetry.Message], *, settings: str = "") -> Path:
    """Write the log of a run, with a second between two messages, and its settings."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(settings or 'algorithm = "ppo"\n')
    path = folder / "progress.jsonl"
    path.write_bytes(b"".join(line(message, START_S + i) for i, message in enumerate(messages)))
    return path
