"""Example messages of each type, and the messages of a run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
from msgspec import inspect

from soulslab.learn.telemetry import Evaluated, LearningStats, Message, TrainProgress

PROGRESS = TrainProgress(
    env_steps=500_000,
    total_steps=1_000_000,
    seconds=5.0,
    steps_per_second=100_000.0,
    n_fights=2000,
    win_rate=0.25,
    mean_return=-1.5,
    mean_decisions=250.0,
)
LEARNING = LearningStats(
    env_steps=123_400,
    n_updates=246_000,
    updates_per_second=3987.6,
    loss=0.1,
    q_mean=0.5,
    q_max=0.6,
    td_error=0.05,
    priority_mean=0.2,
    priority_max=1.0,
    grad_norm=0.4,
    lr=3e-4,
    epsilon=0.01,
    beta=0.7,
    n_replay=123_400,
)
EVALUATED = Evaluated(env_steps=120_000, n_fights=200, mean_return=1.5, win_rate=0.615, low=0.546, high=0.680)


def example(kind: type[Message], *, first: int = 1000) -> Any:
    """Return a message in which all numbers differ and all fields are known."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    places = count(first)
    return kind(**{field.name: _example(field.type, field.name, places) for field in info.fields})


def unknown(message: Message) -> Any:
    """Return the message with all optional numbers unknown."""
    info = inspect.type_info(type(message))
    assert isinstance(info, inspect.StructType)
    optional = [
        field.name for field in info.fields if isinstance(field.type, inspect.UnionType) and field.type.includes_none
    ]
    return msgspec.structs.replace(message, **dict.fromkeys(optional))


def _example(described: inspect.Type, name: str, places: Iterator[int]) -> Any:
    match described:
        case inspect.UnionType():
            found = _example(next(t for t in described.types if not isinstance(t, inspect.NoneType)), name, places)
        case inspect.IntType():
            found = next(places)
        case inspect.FloatType():
            found = next(places) + 0.5
        case inspect.BoolType():
            found = True
        case inspect.StrType():
            found = f'the "{name}"\n\\ of it'
        case inspect.DictType():
            found = {key: _example(described.value_type, name, places) for key in ("left sweep", 'a "b"\n\\', "ß/x.y")}
        case inspect.VarTupleType():
            found = tuple(_example(described.item_type, name, places) for _ in range(20))
        case _:
            raise AssertionError(f"{name}: no example of {described}")
    return found
