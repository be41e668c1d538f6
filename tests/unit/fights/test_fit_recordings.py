"""Sources of recordings for a fit, and the files that a fit writes."""

from pathlib import Path

import gymnasium
import msgspec
import numpy as np
import pytest

from benchmarks.fit_truth import compare
from soulslab.arena.binding import Binding
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.recorded_fight import MOMENT, save_fight
from soulslab.arena.fitting.simulated import record_simulated
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.probe_player import ProbePlayer
from soulslab.arena.uncertainty import load_uncertainty, uncertainty_path
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import BossFileError, DemonstrationError, RecordingError
from soulslab.fights.fit_recordings import NEEDED, read_recorded_fights, ticks_of, write_fit
from soulslab.fights.fit_recordings import _of_recording as fights_of_recording
from soulslab.games.arena import PROFILE_PATH
from soulslab.learn.demonstrations.writing import DemonstrationWriter
from soulslab.siphon.profile import load_profile
from soulslab.siphon.recording.reading import Recording
from support.fights import record_random, record_reference

JUDGE = {"boss": "judge", "random_pose": True}


@pytest.fixture(scope="module")
def data_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "fights"
    record_reference(folder, JUDGE, 6)
    return folder


def test_a_data_set_of_fights_is_read_with_its_times_and_names(data_set):
    fights = read_recorded_fights([data_set])
    assert len(fights) == 6
    for fight in fights:
        np.testing.assert_array_equal(np.diff(fight.moments["tick"]), 6)
        assert fight.player_max_hp == 454
        assert fight.moments["boss_hp"][0] == 1037
        assert "WalkFrontBattle" in fight.boss_animations


def test_a_boss_is_fitted_to_a_data_set_of_fights(data_set):
    found = compare(fit_boss(read_recorded_fights([data_set]), load_knight()), find_boss("judge"))
    assert found.n_moves_found >= 9
    # The reference player avoids most hits, so some windows are guesses.
    assert found.coverage >= 0.8


@pytest.mark.parametrize("observation", ["dict", "boxes", "relative"])
def test_every_observation_of_a_duel_gives_the_same_moments(data_set, tmp_path, observation):
    record_reference(tmp_path / "seen", {**JUDGE, "observation": observation}, 1)
    (fight,) = read_recorded_fights([tmp_path / "seen"])
    np.testing.assert_array_equal(fight.moments, read_recorded_fights([data_set])[0].moments)


def test_fields_that_are_only_the_observation_are_read(tmp_path):
    options = {**JUDGE, "observation": "dict"}
    (episode,) = record_random(tmp_path / "mine", ARENA_ID, options, 1)
    with (
        gymnasium.make(ARENA_ID, **options) as env,
        DemonstrationWriter(tmp_path / "other", env, options, "other") as writer,
    ):
        writer.add(episode._replace(duel_states=None))
    (mine,), (other,) = (read_recorded_fights([tmp_path / name]) for name in ("mine", "other"))
    for name in MOMENT.names:
        np.testing.assert_allclose(other.moments[name], mine.moments[name], atol=1e-4)


def test_locked_steps_that_were_skipped_keep_their_time(tmp_path, caplog):
    record_reference(tmp_path / "skipped", {**JUDGE, "skip_locked": True}, 1)
    (fight,) = read_recorded_fights([tmp_path / "skipped"])
    assert "lacks the moments while the player was locked" in caplog.text
    steps = np.diff(fight.moments["tick"])
    assert steps.max() > 6
    assert (steps % 6 == 0).all()
    boss_s, ticks = fight.moments["boss_time_s"], fight.moments["tick"]
    same = np.flatnonzero((np.diff(fight.moments["boss_animation"]) == 0) & (np.diff(boss_s) > 0.05))
    np.testing.assert_allclose(np.diff(boss_s)[same], np.diff(ticks)[same] / 60, atol=1e-5)


def test_a_data_set_that_does_not_show_the_boss_is_refused(tmp_path):
    record_random(tmp_path / "poles", "CartPole-v1", {}, 1)
    with pytest.raises(DemonstrationError, match="record boss duels with soulslab fights record"):
        read_recorded_fights([tmp_path / "poles"])


def test_a_data_set_of_several_bosses_is_refused(tmp_path):
    record_reference(tmp_path / "range", {**JUDGE, "boss": "generated:2-5"}, 1)
    with pytest.raises(DemonstrationError, match=r"fights against the bosses generated:2-5; a fit needs .* one boss"):
        read_recorded_fights([tmp_path / "range"])


def test_a_data_set_of_bosses_drawn_from_intervals_is_refused(data_set, tmp_path):
    write_fit(fit_boss(read_recorded_fights([data_set]), load_knight()), tmp_path / "fit.toml")
    options = {**JUDGE, "boss": str(tmp_path / "fit.toml"), "boss_intervals": [1.0, 1.0]}
    record_random(tmp_path / "drawn", ARENA_ID, options, 1)
    with pytest.raises(DemonstrationError, match=r"drawn from intervals; .* one boss .*boss_intervals=\[0,0\]"):
        read_recorded_fights([tmp_path / "drawn"])


@pytest.mark.parametrize(
    ("n_decisions", "step_s", "problem"),
    [
        ([1, -5, 1], 0.1, "do not ascend"),
        ([1, 0, 1], 0.1, "do not ascend"),
        ([1, 1, 1], -0.1, "do not ascend"),
        ([1, 1, 1], float("nan"), "do not ascend"),
        ([1, 1, 1], 1e308, "do not ascend"),
        ([1, 1, 1], 1e9, "longer than a day"),
    ],
)
def test_times_of_steps_that_cannot_be_are_refused(n_decisions, step_s, problem):
    assert ticks_of(np.array([1, 2, 1])).tolist() == [0, 6, 18, 24]
    with pytest.raises(ValueError, match=problem):
        ticks_of(np.array(n_decisions), step_s)


def live_recording(path=Path("fight.h5"), n_ticks=900):
    """Return a recording of the built-in game, in which nobody plays, with the attributes of its profile."""
    profile = load_profile(PROFILE_PATH)
    binding = Binding(profile.duel, profile.attributes)
    game = LiveFight(find_boss("judge"), LiveFightOptions(seed=5))
    rows = []
    for _ in range(n_ticks):
        game.tick(())
        rows.append(binding.values(game))
    attributes = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    recording = Recording(
        path=path,
        facts={},
        wall_time_ms=np.arange(n_ticks),
        game_time_s=np.arange(1, n_ticks + 1) / 60,
        attributes=attributes,
        unreadable={name: np.zeros(n_ticks, np.bool_) for name in attributes},
        keys={},
        latencies_ms=np.zeros((n_ticks, 5), np.float32),
        frames=None,
        video=None,
    )
    return recording, profile


def test_a_recording_of_a_game_has_the_fights_of_its_profile():
    recording, profile = live_recording()
    recording.unreadable["boss.hp"][10:20] = True
    fights = fights_of_recording(recording, profile)
    first = fights[0]
    assert first.ticks_per_moment == 1
    assert len(first.moments) < 900
    assert 9 in np.diff(first.moments["tick"]) or 11 in np.diff(first.moments["tick"])
    assert first.moments["boss_hp"][0] == 1037
    assert any(name.startswith("Attack3") for name in first.boss_animations)
    np.testing.assert_allclose(first.moments["player_z"], -68.8, atol=1e-4)


def test_an_optional_quantity_that_cannot_be_read_does_not_discard_a_recording(caplog):
    recording, profile = live_recording()
    whole = fights_of_recording(recording, profile)
    name = Binding(profile.duel, profile.attributes).attributes["lock_on"]
    recording.unreadable[name][:] = True
    found = fights_of_recording(recording, profile)
    assert [len(fight.moments) for fight in found] == [len(fight.moments) for fight in whole]
    assert f"{name} could mostly not be read, and is left out" in caplog.text


def test_a_recording_without_a_quantity_of_a_fight_is_refused():
    recording, profile = live_recording(n_ticks=200)
    attributes = {name: values for name, values in recording.attributes.items() if name != "boss.angle"}
    with pytest.raises(RecordingError, match=r"does not have boss\.angle"):
        fights_of_recording(msgspec.structs.replace(recording, attributes=attributes), profile)
    assert "boss.angle" in NEEDED


def test_a_path_that_is_no_recording_is_refused(tmp_path):
    (tmp_path / "fight.h5").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for path, problem in ((tmp_path / "empty", "is not a recording"), (tmp_path / "fight.h5", "--profile")):
        with pytest.raises(RecordingError, match=problem):
            read_recorded_fights([path])


def test_a_fit_is_written_as_a_boss_file_and_its_uncertainty_file(tmp_path):
    for fight in record_simulated(find_boss("judge"), lambda seed: ProbePlayer(1, seed), seed=1, minutes=1.0):
        save_fight(tmp_path / "fights", fight)
    fights = read_recorded_fights([tmp_path / "fights"])
    assert fights[0].moments.dtype == MOMENT
    fit = fit_boss(fights, load_knight())
    out = tmp_path / "margit.toml"
    write_fit(fit, out)
    assert find_boss(out) == fit.boss
    assert load_uncertainty(uncertainty_path(out), fit.boss) == fit.uncertainty
    env = gymnasium.make(ARENA_ID, boss=str(out))
    env.reset(seed=0)
    env.close()
    with pytest.raises(BossFileError, match="cannot be written"):
        write_fit(fit, tmp_path / "none" / "margit.toml")
