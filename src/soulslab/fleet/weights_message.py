"""The weights that the learner publishes: MessagePack with a SHA-256, in one key of the server."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from soulslab.errors import ConfigError
from soulslab.learn.actors.transport import Weights
from soulslab.learn.actors.weights_board import decode_tensors, encode_tensors

MAX_VALUE_BYTES: Final = 32 << 20
"""Largest message or value that a server of soulslab accepts (bytes)."""
MAX_WEIGHTS_BYTES: Final = MAX_VALUE_BYTES - (1 << 20)
"""Largest size of the weights, without the rest of their message (bytes)."""


class _PublishedWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    era: int
    version: int
    epsilon: float
    sha256: str
    tensors: bytes
    reward_factors: dict[str, float]


def encode_weights(weights: Weights, era: int) -> bytes:
    """Return weights as a message; ``era`` identifies the learner, whose versions can be lower than those before."""
    tensors = encode_tensors(weights.tensors)
    digest = hashlib.sha256(tensors).hexdigest()
    return msgspec.msgpack.encode(
        _PublishedWeights(era, weights.version, weights.epsilon, digest, tensors, weights.reward_factors)
    )


def check_size(weights: Weights) -> None:
    """Raise ConfigError for weights that are too large to be published."""
    n_bytes = sum(array.nbytes for array in weights.tensors.values())
    if n_bytes > MAX_WEIGHTS_BYTES:
        raise ConfigError(
            f"has weights of {n_bytes / 2**20:.0f} MiB, but a fleet publishes at most {MAX_WEIGHTS_BYTES >> 20} MiB; "
            "choose a smaller network",
            path="network",
        )


def decode_weights(data: bytes) -> tuple[int, Weights]:
    """Return the era and the weights of a message; raises ValueError or MsgspecError for a malformed one."""
    found = msgspec.msgpack.decode(data, type=_PublishedWeights)
    if hashlib.sha256(found.tensors).hexdigest() != found.sha256:
        raise ValueError("the weights do not match their checksum")
    tensors = decode_tensors(found.tensors)
    return found.era, Weights(
        version=found.version, epsilon=found.epsilon, tensors=tensors, reward_factors=found.reward_factors
    )
