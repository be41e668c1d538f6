"""Conversion of recordings to key logs, and errors for incomplete recordings."""

from pathlib import Path

import numpy as np
import pytest

from soulslab.arena.boss_file import BOSS_DIR, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import BUTTONS, LOADING_TICKS, PRESSES, LiveFight, LiveFightOptions
from soulslab.arena.quantities import QUANTITIES
from soulslab.arena.window.key_log import Replay
from soulslab.errors import KeyLogError, RecordingError
from soulslab.games.arena.key_log_from_recording import SLACK_TICKS, key_log_from_recording
from soulslab.siphon.recording.reading import Recording

NAMES = ("game.tick", "game.history", "game.stage", "fight.tick", "fight.number")
NAMES += ("fight.rules", "fight.digest", "fight.generator")


def played(seed, n_ticks, every=20, *, first=0, boss="frost_beast", is_torn=False, no_death=False):
    """Play by hand and return the recording.

    Args:
        seed: Of the fight and of what is pressed.
        n_ticks: Of the game.
        every: Ticks from one sample to the next.
        first: Tick of the first sample.
        boss: Its name or file.
        is_torn: Every fourth sample is read while some ticks are played at once: a part of it is older.
        no_death: The player cannot die.
    """
    rng = np.random.default_rng(seed)
    read = load_boss(boss, list(load_knight().knock_backs))
    game = LiveFight(read, LiveFightOptions(seed=seed, phase="2", random_pose=True))
    game.no_death = no_death
    restarts = 0.0 if no_death else 0.004
    held, rows, older = set(), {name: [] for name in NAMES}, {}
    for _ in range(n_ticks):
        held = {name for name in BUTTONS if (rng.random() < 0.9) == (name in held)}
        if rng.random() < restarts:
            game.restart()
        game.tick(held, [name for name in PRESSES if rng.random() < 0.03])
        now = {name: QUANTITIES[name].get(game) for name in NAMES}
        now["game.history"] = np.frombuffer(now["game.history"], np.uint8).copy()
        if game.n_ticks >= first and (game.n_ticks - first) % every == 0:
            n = len(rows["game.tick"])
            for name in rng.permutation(NAMES) if is_torn else NAMES:
                is_older = is_torn and n % 4 == 1 and rng.random() < 0.5
                rows[name].append((older if is_older else now)[name])
        if game.n_ticks % 5 == 0:
            older = now
    n = len(rows["game.tick"])
    dtypes = {"game.history": np.uint8, "fight.generator": np.uint64}
    attributes = {name: np.array(values, dtypes.get(name, np.int64)) for name, values in rows.items()}
    return game, recording(attributes, n)


def recording(attributes, n):
    return Recording(
        path=Path("human.h5"),
        facts={},
        wall_time_ms=np.zeros(n, np.int64),
        game_time_s=np.zeros(n),
        attributes=attributes,
        unreadable={name: np.zeros(n, np.bool_) for name in attributes},
        keys={},
        latencies_ms=np.zeros((n, 5), np.float32),
        frames=None,
        video=None,
    )


def play_all(log):
    replay = Replay(log)
    while not replay.is_over:
        replay.tick()
    return replay


@pytest.mark.parametrize("every", [1, 7, 20, 60, 150])
def test_all_recorded_ticks_are_replayed(every):
    game, found = played(6, 1500, every)
    log = key_log_from_recording(found)
    assert (log.header.boss, log.header.phase, log.header.random_pose) == ("frost_beast", "2", True)
    assert log.header.first_tick == 0
    replay = play_all(log)
    last = int(found.attributes["game.tick"].max())
    assert replay.fight.n_ticks == last, "to the state of the last sample"
    assert replay.fight.digest() == int(found.attributes["fight.digest"][-1])
    assert replay.fight.n_fights > 1, "a restart, and the fight after it"
    assert len(log.checks) >= (1500 - 4 * SLACK_TICKS) // every
    assert game.n_fights >= replay.fight.n_fights


def test_without_a_matching_digest_the_log_ends_before_the_last_sample():
    _, found = played(6, 900, 20)
    found.attributes["fight.digest"][-1] += 1
    last = int(found.attributes["game.tick"].max())
    assert play_all(key_log_from_recording(found)).fight.n_ticks == last - SLACK_TICKS


def test_a_last_sample_older_than_its_tick_is_reached():
    game, found = played(6, 900, 20)
    later = int(found.attributes["game.tick"][-1])
    found.attributes["game.tick"][-1] = later - 5
    assert (
        play_all(key_log_from_recording(found)).fight.digest()
        == game.digest()
        == int(found.attributes["fight.digest"][-1])
    )


def test_a_sample_may_be_read_while_the_game_runs():
    _, found = played(6, 1500, 20, is_torn=True)
    assert play_all(key_log_from_recording(found)).n_ticks > 1200


def test_the_log_starts_with_the_first_complete_fight():
    _, found = played(6, 2500, 20, first=400)
    log = key_log_from_recording(found)
    assert log.header.first_tick > LOADING_TICKS
    play_all(log)


def test_a_recording_without_the_start_of_a_fight_is_an_error():
    game, found = played(1, 700, 20, first=600, no_death=True)
    assert game.n_fights == 1, "the seed of this test plays one fight"
    with pytest.raises(RecordingError, match="no start of a fight; start recording, then"):
        key_log_from_recording(found)


def test_samples_too_far_apart_are_an_error():
    _, found = played(6, 1500, 20)
    keep = np.r_[0:10, 40 : len(found)]
    found = recording({name: values[keep] for name, values in found.attributes.items()}, len(keep))
    with pytest.raises(RecordingError, match="is in no sample; record at least 2 samples a second"):
        key_log_from_recording(found)


def test_a_fight_changed_by_another_program_is_an_error():
    _, found = played(6, 900, 20)
    found.attributes["fight.digest"][20:] += 1
    with pytest.raises(KeyLogError, match="something other than keys changed the fight"):
        play_all(key_log_from_recording(found))


def test_unreadable_samples_are_left_out():
    _, found = played(6, 900, 20)
    found.unreadable["fight.tick"][3:5] = True
    found.attributes["fight.tick"][3:5] = 0
    play_all(key_log_from_recording(found))
    found.unreadable["fight.tick"][:] = True
    with pytest.raises(RecordingError, match="no sample of the fight could be read"):
        key_log_from_recording(found)


def test_missing_attributes_are_an_error():
    _, found = played(6, 100, 20)
    del found.attributes["game.history"]
    with pytest.raises(RecordingError, match=r"it lacks game\.history"):
        key_log_from_recording(found)


def test_a_boss_from_a_file_is_found(tmp_path):
    boss = tmp_path / "mine.toml"
    text = (BOSS_DIR / "judge.toml").read_text(encoding="utf-8")
    hp = next(line for line in text.splitlines() if line.startswith("hp"))
    boss.write_text(text.replace(hp, "hp = 999", 1), encoding="utf-8")
    _, found = played(6, 300, 20, boss=boss)
    assert key_log_from_recording(found, boss).header.boss == str(boss)
    with pytest.raises(RecordingError, match=r"not one of .* give its file with --boss"):
        key_log_from_recording(found)
