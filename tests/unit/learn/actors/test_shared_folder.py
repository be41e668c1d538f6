"""Where the memory lies, and who holds it."""

import os
import shutil

import pytest

from soulslab.errors import ChannelError
from soulslab.learn.actors import shared_memory as place_module
from soulslab.learn.actors.shared_memory import ACTOR_LOCK, find_memory_folder, make_memory_folder, remove_memory_folder
from soulslab.learn.process_lock import ProcessLock


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A folder in the place of /dev/shm."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(place_module, "_SHARED_MEMORY", folder)
    return folder


def new_run(tmp_path, name="run"):
    (tmp_path / name).mkdir()
    return tmp_path / name


def test_it_lies_in_shared_memory_and_is_found_again(tmp_path, shared):
    run = new_run(tmp_path)
    assert find_memory_folder(run) is None
    place = make_memory_folder(run, 1000)
    assert place.parent == shared
    assert find_memory_folder(run) == make_memory_folder(run, 1000) == place
    assert place.stat().st_mode & 0o777 == 0o700
    remove_memory_folder(place)
    assert find_memory_folder(run) is None


def test_each_run_has_its_own(tmp_path, shared):
    assert make_memory_folder(new_run(tmp_path, "a"), 1000) != make_memory_folder(new_run(tmp_path, "b"), 1000)


def test_the_same_run_by_another_path_is_the_same(tmp_path, shared, monkeypatch):
    run = new_run(tmp_path)
    (tmp_path / "link").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    place = make_memory_folder(run, 1000)
    assert find_memory_folder(tmp_path / "link") == find_memory_folder(run.relative_to(tmp_path)) == place


@pytest.mark.parametrize("case", ["no such memory", "no room in it"])
def test_otherwise_it_lies_in_the_folder_of_the_run(tmp_path, shared, case):
    run = new_run(tmp_path)
    if case == "no such memory":
        shared.rmdir()
    place = make_memory_folder(run, 1000 if case == "no such memory" else 1 << 60)
    assert place == run / "memory"
    assert find_memory_folder(run) == place


def block(place, how, tmp_path):
    """Put something in the place of a run's memory, as another user could."""
    remove_memory_folder(place)
    if how == "link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    elif how == "file":
        place.write_text("")
    elif how == "folder of another user":
        place.mkdir()
        os.chown(place, 65534, 65534)
    else:
        place.mkdir()
        place.chmod(0o777)


@pytest.mark.parametrize("how", ["link", "file", "folder of another user", "folder that others may write"])
def test_what_another_user_puts_in_its_place_does_not_stop_a_run(tmp_path, shared, how):
    if how == "folder of another user" and os.geteuid() != 0:
        pytest.skip("only root may give a folder away")
    run = new_run(tmp_path)
    block(make_memory_folder(run, 1000), how, tmp_path)
    assert find_memory_folder(run) is None
    place = make_memory_folder(run, 1000)
    assert place == run / "memory"
    assert find_memory_folder(run) == make_memory_folder(run, 1000) == place
    assert not any((tmp_path / "elsewhere").glob("*"))


def test_a_folder_of_the_run_that_others_may_write_is_refused(tmp_path, shared):
    run = new_run(tmp_path)
    shared.rmdir()
    make_memory_folder(run, 1000).chmod(0o777)
    for use in (lambda: find_memory_folder(run), lambda: make_memory_folder(run, 1000)):
        with pytest.raises(ChannelError, match="others may write to it"):
            use()


@pytest.mark.parametrize("content", [b"\xff\xfe", b"/a\0b", None])
def test_a_damaged_folder_of_another_run_does_not_stop_a_run(tmp_path, shared, content):
    damaged = make_memory_folder(new_run(tmp_path, "damaged"), 1000)
    if content is None:
        (damaged / "run").unlink()
    else:
        (damaged / "run").write_bytes(content)
    assert make_memory_folder(new_run(tmp_path), 1000).parent == shared


def test_what_a_run_left_that_is_gone_is_removed_unless_somebody_works_with_it(tmp_path, shared):
    gone, played, kept = (new_run(tmp_path, name) for name in ("gone", "played", "kept"))
    places = [make_memory_folder(run, 1000) for run in (gone, played, kept)]
    shutil.rmtree(gone)
    shutil.rmtree(played)
    with ProcessLock(places[1] / ACTOR_LOCK, "an actor"):
        make_memory_folder(new_run(tmp_path, "new"), 1000)
        assert [place.exists() for place in places] == [False, True, True]
