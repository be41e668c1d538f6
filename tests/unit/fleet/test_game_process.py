"""The process of a game in a fleet."""

from types import SimpleNamespace

import msgspec

from soulslab.fleet.access import Access, new_password, write_access
from soulslab.fleet.game_process import _Game
from soulslab.fleet.game_settings import GameSettings, create_status
from soulslab.fleet.messages import Lease


def test_a_step_while_a_lease_is_made_leaves_no_negative_age(tmp_path, monkeypatch):
    join = tmp_path / "join.toml"
    write_access(join, Access(address="redis://127.0.0.1:1", run="run", user="play", password=new_password()))
    create_status(tmp_path)
    game = _Game(tmp_path, GameSettings(join=str(join), name="play-1", spool_bytes=1 << 20))
    game._note_step(0.01)
    read = game._status.read

    def read_during_a_step():
        game._note_step(0.01)
        return read()

    monkeypatch.setattr(game._status, "read", read_during_a_step)
    lease = game._lease(SimpleNamespace(incarnation="0123456789abcdef", n_pushed=0, n_dropped=0, n_unsent_bytes=0))
    assert msgspec.convert(msgspec.to_builtins(lease), Lease) == lease
    assert lease.idle_s >= 0.0
