"""Files of recorded fights: what is written is read, and a damaged file is refused with its name."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from soulslab.arena.fitting.recorded_fight import (
    MAX_ARRAY_BYTES,
    MOMENT,
    RecordedFight,
    fight_files,
    index_names,
    read_fight,
    read_fights,
    save_fight,
)
from soulslab.errors import RecordingError


def make_fight(n=4):
    moments = np.zeros(n, MOMENT)
    moments["tick"] = np.arange(n) * 6
    moments["boss_hp"] = 100.0
    moments["boss_animation"], names = index_names(["Idle", "Attack", "Attack", "Idle"][:n])
    return RecordedFight(
        moments=moments, player_animations=("Idle",), boss_animations=names, player_max_hp=50.0, player="me"
    )


def test_fights_are_read_back_in_the_order_of_their_recording(tmp_path):
    for n in (4, 3):
        save_fight(tmp_path / "new", make_fight(n))
    first, second = read_fights(tmp_path / "new")
    np.testing.assert_array_equal(first.moments, make_fight(4).moments)
    assert len(second.moments) == 3
    assert (first.player, first.boss_animations, first.player_max_hp) == ("me", ("Attack", "Idle"), 50.0)
    assert first.game_time_s == pytest.approx(0.3)
    assert first.ticks_per_moment == 6
    assert [path.name for path in fight_files(tmp_path / "new")] == ["fight_0001.npz", "fight_0002.npz"]


def test_a_fight_after_a_removed_one_gets_a_new_number(tmp_path):
    save_fight(tmp_path, make_fight())
    save_fight(tmp_path, make_fight()).with_name("fight_0001.npz").unlink()
    assert save_fight(tmp_path, make_fight()).name == "fight_0003.npz"


def rewrite(path, **changes):
    """Write a file again with other arrays."""
    with np.load(path) as arrays:
        columns = dict(arrays)
    columns |= changes
    np.savez_compressed(path, **columns)


def damage_packed(path):
    """Change the type of the first compressed block, so that zlib refuses it."""
    data = bytearray(path.read_bytes())
    n_name, n_extra = (int.from_bytes(data[at : at + 2], "little") for at in (26, 28))
    data[30 + n_name + n_extra] |= 6
    path.write_bytes(data)


DAMAGE = {
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:200]), "cannot be read"),
    "text": (lambda path: path.write_text("fight"), "cannot be read"),
    "empty": (lambda path: path.write_bytes(b""), "cannot be read"),
    "packed": (damage_packed, "cannot be read"),
    "objects": (lambda path: rewrite(path, tick=np.array([{}] * 4, object)), "cannot be read"),
    "missing": (lambda path: np.savez(path, tick=np.arange(4)), "header is missing"),
    "length": (lambda path: rewrite(path, player_x=np.arange(3.0)), "player_x is float64 of shape (3,)"),
    "kind": (lambda path: rewrite(path, tick=np.zeros(4, complex)), "tick is complex128"),
    "rows": (lambda path: rewrite(path, tick=np.zeros((10**15, 0), np.int64)), "of shape (1000000000000000, 0)"),
    "order": (lambda path: rewrite(path, tick=np.array([0, 2, 1, 3])), "ticks do not ascend"),
    "nan": (lambda path: rewrite(path, boss_x=np.full(4, np.nan)), "boss_x has a value"),
    "name": (lambda path: rewrite(path, boss_animation=np.full(4, 7, np.int16)), "a number without a name"),
    "header": (lambda path: rewrite(path, header=np.array('{"format": 1}')), "is not valid JSON of the expected form"),
}


def test_an_interrupted_write_leaves_no_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_fight(tmp_path, make_fight())
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "seen").write_text("another program's")
    with pytest.raises(RecordingError, match="cannot be written"):
        save_fight(tmp_path / "seen", make_fight())


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_refused_with_its_name(tmp_path, kind):
    damage, problem = DAMAGE[kind]
    path = save_fight(tmp_path, make_fight())
    damage(path)
    with pytest.raises(RecordingError) as caught:
        read_fight(path)
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_grows_too_large_when_it_is_unpacked_is_refused(tmp_path):
    path = tmp_path / "fight_0001.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("tick.npy", bytes(MAX_ARRAY_BYTES + 1))
    with pytest.raises(RecordingError, match="its arrays have more than"):
        read_fight(path)


def test_a_folder_without_fights_is_an_error(tmp_path):
    (tmp_path / "fight_1.npz").write_text("another program's")
    with pytest.raises(RecordingError, match="holds no recorded fights"):
        read_fights(tmp_path)
