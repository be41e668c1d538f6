"""The process that watches the games of a machine."""

import shutil
import sys
import threading
from contextlib import closing
from multiprocessing import get_context

import msgspec
import pytest

from soulslab.errors import ConfigError, FleetError
from soulslab.fleet import game_settings, playing
from soulslab.fleet.access import Access, Keys, connect, new_password, password_hash, write_access
from soulslab.fleet.game_settings import game_name
from soulslab.fleet.messages import Name, RunDescription
from soulslab.fleet.playing import PlaySettings, play
from soulslab.fleet.redis_server import JoinUser, RedisServer, free_port
from soulslab.version import VERSION
from support.memory_parts import files_in_use
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks the process of a game")


def fail(folder):
    """Fail as a game whose window does not open, in its process."""
    (folder / "log").write_text("the window does not open\n")
    sys.exit(1)


def test_it_says_why_it_waits_and_why_it_gives_up(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    admin = Access(
        address=f"redis://127.0.0.1:{free_port('127.0.0.1')}", run="run", user="admin", password=new_password()
    )
    game = msgspec.structs.replace(admin, user="play", password=new_password())
    server = RedisServer(tmp_path / "redis", admin, max_memory_mb=16)
    join = tmp_path / "join.toml"
    write_access(join, game)
    monkeypatch.setattr(playing, "_run_game", fail)
    monkeypatch.setattr(playing, "_process_context", lambda: get_context("fork"))

    def start_slowly():
        wait_for(lambda: f"waiting for the learner at {game.address}: Error 111" in caplog.text, "the first reason")
        server.start([JoinUser(game.user, password_hash(game.password))])
        wait_for(lambda: "the learner has not started" in caplog.text, "the second reason")
        description = RunDescription(soulslab=VERSION, header={}, seed=0, alone_s=1.0)
        with closing(connect(admin)) as client:
            client.set(Keys(admin.run).description, msgspec.json.encode(description))

    thread = threading.Thread(target=start_slowly)
    thread.start()
    try:
        with pytest.raises(
            FleetError, match=r"pc/0: gave up: ended with 1: the window does not open \(3 times in an hour\)"
        ):
            play(join, PlaySettings(name="pc", max_failures=2))
    finally:
        thread.join()
        server.close()


def test_no_file_of_a_game_is_in_use_when_its_folder_is_removed(tmp_path, monkeypatch):
    """Windows does not remove a file that is mapped or open."""
    removed = []

    def remove(folder, **_):
        removed.append((folder, files_in_use(folder)))

    game = playing._WatchedGame(get_context("fork"), tmp_path / "join.toml", "pc/0", PlaySettings())
    assert files_in_use(game._folder) == ["status"]
    with monkeypatch.context() as patch:
        patch.setattr(playing.shutil, "rmtree", remove)
        game.close()
    assert removed == [(game._folder, [])]
    shutil.rmtree(game._folder)


@pytest.mark.parametrize("host", ["büro", "_host", "-", "", "x" * 300, "pc.example", "Ⅻ"])
def test_the_name_of_any_host_is_one_that_the_learner_accepts(monkeypatch, host):
    monkeypatch.setattr(game_settings.socket, "gethostname", lambda: host)
    assert msgspec.convert(game_name("", 1023), Name).endswith("/1023")


@pytest.mark.parametrize("name", ["büro", "_host", "x" * 200, "pc\n", "\x1b[2J"])
def test_a_name_that_the_learner_would_refuse_is_an_error(tmp_path, name):
    join = tmp_path / "join.toml"
    write_access(join, Access(address="redis://127.0.0.1:1", run="run", user="play", password=new_password()))
    with pytest.raises(ConfigError, match="is not a name of at most 100 ASCII letters"):
        play(join, PlaySettings(name=name))
