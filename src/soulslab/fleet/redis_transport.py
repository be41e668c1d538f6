"""The transport over Redis Streams, from any number of games to one learner (`transport.Transport`)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from soulslab.fleet.access import Access
from soulslab.fleet.defaults import SPOOL_MB
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.fleet.spool import Spool
from soulslab.learn.archive import Tensors
from soulslab.learn.replay.step_rows import StepShape, row_type


class RedisTransport:
    """A transport over a Redis server; each process has its own object."""

    def __init__(
        self, learner: Access, game: Access, shape: StepShape, n_streams: int, expected: Tensors, worker: str = "game"
    ) -> None:
        """Use a server with the learner's and a game's credential; of ``expected`` names, types and shapes are used."""
        self._learner = learner
        self._game = game
        self._shape = shape
        self._n_streams = n_streams
        self._expected = expected
        self._worker = worker

    def actor_end(self) -> RedisActorEnd:
        """Return the end of a new game, with ``n_streams`` environments; any number may be in use."""
        spool = Spool(Path(tempfile.gettempdir()), SPOOL_MB << 20)
        return RedisActorEnd(self._game, self._worker, self._n_streams, row_type(self._shape), spool, self._expected)

    def learner_end(self, state: Mapping[str, NDArray[Any]] | None = None) -> RedisLearnerEnd:
        """Return the learner's end; see `RedisLearnerEnd`."""
        return RedisLearnerEnd(self._learner, self._shape, self._n_streams, state)
