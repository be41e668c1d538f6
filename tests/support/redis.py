"""A real Redis server for tests, with the credentials of a learner and of a game."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from soulslab.fleet.access import Access, new_password, password_hash
from soulslab.fleet.redis_server import JoinUser, RedisServer, free_port


class Served(NamedTuple):
    """A running server, the administrator's access and that of a game."""

    server: RedisServer
    learner: Access
    game: Access

    @property
    def users(self) -> list[JoinUser]:
        return [JoinUser(self.game.user, password_hash(self.game.password))]


@contextmanager
def redis_server(folder: Path, *, max_memory_mb: int = 256) -> Iterator[Served]:
    """Start a server in a folder, and end it."""
    address = f"redis://127.0.0.1:{free_port('127.0.0.1')}"
    learner = Access(address=address, run="test", user="admin", password=new_password())
    game = Access(address=address, run="test", user="play-1", password=new_password())
    served = Served(RedisServer(folder, learner, max_memory_mb=max_memory_mb), learner, game)
    served.server.start(served.users)
    try:
        yield served
    finally:
        served.server.close()
