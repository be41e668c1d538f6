"""The state of a duel from readings, including games with fewer quantities than the built-in one."""

import math

import numpy as np
import pytest

from soulslab.arena.binding import Binding
from soulslab.arena.boss_file import boss_names, load_boss
from soulslab.arena.duel_state import DUEL_FIELDS
from soulslab.arena.features import write_state
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions, buttons_of
from soulslab.arena.player_rules import is_open
from soulslab.arena.quantities import QUANTITIES
from soulslab.arena.records import TICKS_PER_DECISION, TICKS_PER_S
from soulslab.arena.vocabulary import ACTIONS, NOTHING
from soulslab.envs.tasks.duel.duel_reader import NEEDED, DuelReader
from soulslab.envs.tasks.duel.duel_scenario import Vitals, scenario_of
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.profile import load_profile
from support.players import script

#: Time between two reads, which is the accuracy of times that the game does not provide.
LOOK_S = 0.1
VITALS = Vitals(load_knight().vitals.hp, load_knight().vitals.sp)
ROLL_BACK = ACTIONS.index(("backward", "roll"))


def reader_of(boss, without=()):
    profile = load_profile(PROFILE_PATH)
    bound = {name: value for name, value in profile.duel["attributes"].items() if name not in without}
    return DuelReader(Binding({**profile.duel, "attributes": bound}, profile.attributes), scenario_of(boss))


class Watched:
    """A fight that is read after every decision, with the true state."""

    def __init__(self, name="judge", seed=0, without=(), phase="full"):
        self.boss = load_boss(name, list(load_knight().knock_backs))
        self.game = LiveFight(self.boss, LiveFightOptions(seed=seed, phase=phase))
        self.reader = reader_of(self.boss, without)
        self.reader.begin(2 if phase == "2" else 1, VITALS)
        self.truth = np.zeros_like(self.reader.state.reshape(1))[0]
        self.look()

    def look(self):
        read = {name: QUANTITIES[name].get(self.game) for name in self.reader.quantities}
        self.reader.take(read, self.game.n_ticks / TICKS_PER_S)
        write_state(self.game.duel, self.game.fight, self.truth)

    def play(self, action):
        action = action if is_open(self.game.duel, self.game.fight, action) else NOTHING
        for k in range(TICKS_PER_DECISION):
            self.game.tick(buttons_of(action), buttons_of(action) if k == 0 else ())
        self.look()

    def decisions(self, seed, n=400):
        for action in script(seed, n):
            if self.game.stage != "fighting":
                return
            self.play(int(action))
            yield self.reader.state


@pytest.mark.parametrize("boss", boss_names())
def test_the_state_equals_that_of_the_simulator(boss):
    watched = Watched(boss, seed=4)
    for state in watched.decisions(4):
        for field in DUEL_FIELDS:
            np.testing.assert_allclose(state[field.name], watched.truth[field.name], atol=1e-9, err_msg=field.name)


@pytest.mark.parametrize("boss", boss_names())
def test_consecutive_walks_and_turns_are_detected_except_between_two_reads(boss):
    off_s = []
    for seed in range(6):
        watched = Watched(boss, seed)
        off_s += [
            abs(state.boss_bin_duration - watched.truth.boss_bin_duration) for state in watched.decisions(seed, 1500)
        ]
    assert np.mean(np.array(off_s) > 1e-6) < 0.03
    assert np.mean(np.array(off_s) >= LOOK_S) < 0.01


def test_a_game_without_animation_times():
    watched = Watched(without=("player.animation_time", "boss.animation_time"))
    durations = []
    for action in (NOTHING, NOTHING, ROLL_BACK, NOTHING, NOTHING):
        watched.play(action)
        durations.append(float(watched.reader.state.player_animation_duration))
        assert watched.reader.player_s == pytest.approx(durations[-1])
    assert durations == pytest.approx([0.1, 0.2, 0.0, 0.1, 0.2])
    watched.reader.begin(1, VITALS)
    watched.look()
    assert watched.reader.state.player_animation_duration == 0.0


def test_a_game_without_a_phase():
    watched = Watched(without=("phase",))
    watched.game.duel.b_hp = watched.game.fight.phase_two_hp - 1.0
    watched.game.no_death = True
    phases = []
    for _ in range(200):
        watched.play(NOTHING)
        assert watched.reader.state.phase == watched.truth.phase
        phases.append(int(watched.reader.state.phase))
        if phases[-1] == 2:
            break
    assert phases[-1] == 2
    assert phases[0] == 1
    watched.reader.begin(1, VITALS)
    watched.look()
    assert watched.reader.state.phase == 1


def test_a_game_without_a_camera():
    watched = Watched(without=("camera.position", "camera.direction", "lock_on"))
    for state in watched.decisions(1, 50):
        if watched.truth.lock_on:
            angle = math.atan2(*state.camera_pose[3:5]) - math.atan2(*watched.truth.camera_pose[3:5])
            assert abs((angle + math.pi) % (2 * math.pi) - math.pi) < 0.6
        assert state.lock_on == 1
        assert np.linalg.norm(state.camera_pose[3:]) == pytest.approx(1.0)
        assert state.camera_pose[2] == pytest.approx(watched.truth.camera_pose[2])


def test_unknown_animations():
    watched = Watched()
    read = {name: QUANTITIES[name].get(watched.game) for name in watched.reader.quantities}
    watched.reader.take(read | {"player.animation": "#31", "boss.animation": "Attack1500"}, 1.0)
    assert (watched.reader.state.player_animation, watched.reader.state.boss_animation) == (-1, -1)


def test_only_needed_quantities_are_read():
    reader = reader_of(load_boss("judge", list(load_knight().knock_backs)), without=("phase", "game.tick"))
    assert set(NEEDED) < set(reader.quantities)
    assert not {"phase", "game.tick", "player.no_death"} & set(reader.quantities)
    assert reader.tick == -1
