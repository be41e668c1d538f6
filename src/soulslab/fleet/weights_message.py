"""The weights that the learner publishes: MessagePack with a SHA-256, in one key of the server."""

from __future__ import annotations

import hashlib

import msgspec

from soulslab.learn.actors.transport import Weights
from soulslab.learn.actors.weights_board import decode_tensors, encode_tensors


class _PublishedWeights(msgspec.Struct, frozen=True):
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


def decode_weights(data: bytes) -> tuple[int, Weights]:
    """Return the era and the weights of a message; raises ValueError or MsgspecError for a malformed one."""
    found = msgspec.msgpack.decode(data, type=_PublishedWeights)
    if hashlib.sha256(found.tensors).hexdigest() != found.sha256:
        raise ValueError("the weights do not match their checksum")
    tensors = decode_tensors(found.tensors)
    return found.era, Weights(
        version=found.version, epsilon=found.epsilon, tensors=tensors, reward_factors=found.reward_factors
    )
