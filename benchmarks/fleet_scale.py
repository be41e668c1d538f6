"""``python -m benchmarks fleet-scale``: what a fleet of 1, 100 or 10,000 games needs, computed from measured numbers.

The numbers are those of ``docs/results/fleet.json``, or of another result of the benchmark ``fleet``. The processor
time of the server and of the learner is extrapolated in proportion to the messages. Nothing here was measured with as
many games; the table shows which parts would need more than the one core that they can use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from benchmarks.fleet import HEADER, ROW, example_rows
from benchmarks.result import Result, Row
from soulslab.errors import ConfigError
from soulslab.fleet.chunk import ChunkHeader, encode_chunk, row_digest
from soulslab.fleet.stream_reader import PUBLISH_BYTES_PER_S, PUBLISH_EVERY_S
from soulslab.fleet.weights_message import encode_weights
from soulslab.learn.actors.transport import Weights
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings

STEPS_PER_S = 10
"""Decisions of a game in real time, each of which is a message."""


class ScaleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the computation.

    Attributes:
        results: JSON file of the benchmark ``fleet``.
        n_games: Numbers of games.
        usd_per_core_hour: Assumed price of a core for an hour (USD), for the machine of learner and server.
    """

    results: Path = Path("docs/results/fleet.json")
    n_games: tuple[int, ...] = (1, 100, 10_000)
    usd_per_core_hour: float = 0.04


class _Costs(msgspec.Struct, frozen=True):
    """Measured processor time of a message (s), in the server and in the learner, and updates/s of one core."""

    server_s: float
    learner_s: float
    updates: float


def compute_scale(settings: ScaleSettings | None = None) -> Result:
    """Return the needs of fleets of different sizes."""
    settings = settings or ScaleSettings()
    costs = _read_costs(settings.results)
    return Result(
        title="needs of games at 10 steps/s, computed from the measured processor time of messages and updates",
        rows=[_scale_row(n_games, costs, settings) for n_games in settings.n_games],
    )


def _read_costs(path: Path) -> _Costs:
    try:
        rows: list[dict[str, Any]] = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError("is not a result of the benchmark fleet; write one with --json", source=path) from error
    many = next(row for row in rows if row["table"].startswith("many games"))
    alone: dict[str, Any] = {}
    for row in rows:
        if row.get("games") == "the learner alone":  # in the tables of throughput and of processor time
            alone |= row
    return _Costs(
        server_s=many["server, % of a core"] / 100 / many["messages/s"],
        learner_s=many["learner, % of a core"] / 100 / many["messages/s"],
        updates=alone["updates/s"] / (alone["updates"] / 100),
    )


def _scale_row(n_games: int, costs: _Costs, settings: ScaleSettings) -> Row:
    rainbow = RainbowSettings()
    steps = n_games * STEPS_PER_S
    n_bytes_per_s, n_weight_bytes = steps * _message_bytes(), _weight_bytes()
    interval_s = max(PUBLISH_EVERY_S, n_games * n_weight_bytes / PUBLISH_BYTES_PER_S)
    wanted = steps * rainbow.learner.updates_per_step
    server, taking = steps * costs.server_s, steps * costs.learner_s
    updating = min(1.0, wanted / costs.updates)
    limits = {"updates": wanted / costs.updates, "taking": taking, "server": server}
    return {
        "games": n_games,
        "steps/s": steps,
        "steps in, Mbit/s": round(8e-6 * n_bytes_per_s, 2),
        "weights out, Mbit/s": round(8e-6 * n_games * n_weight_bytes / interval_s, 1),
        "age of weights, s": round(interval_s, 1),
        "server, cores": round(server, 2),
        "taking, cores": round(taking, 2),
        "updates for each step": round(min(rainbow.learner.updates_per_step, costs.updates / steps), 3),
        "server memory between checkpoints, MB": round(1e-6 * n_bytes_per_s * rainbow.run.checkpoint_every_s),
        "learner and server, USD/h": round((server + taking + updating) * settings.usd_per_core_hour, 3),
        "parts that need more than their core": ", ".join(name for name, cores in limits.items() if cores > 1.0) or "-",
    }


def _message_bytes() -> int:
    """Return the size of a message with one step."""
    header = ChunkHeader(
        worker="machine/0", incarnation="0" * 16, sequence=10**6, weights_version=10**6, row=row_digest(ROW), n_envs=1,
        n_rows=1, taken_at_s=1e9,
    )  # fmt: skip
    return len(encode_chunk(header, example_rows(1)))


def _weight_bytes() -> int:
    return len(encode_weights(Weights(version=0, epsilon=1.0, tensors=QPolicy(HEADER).weights()), 1))
