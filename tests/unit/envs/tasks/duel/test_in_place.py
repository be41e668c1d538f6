"""Episodes in place: counted health, start poses, phases, and failures."""

import math

import msgspec
import numpy as np
import pytest

from soulslab.arena.records import ATTACKING
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.episode import UNLOCKED_READINGS, InPlaceEpisode
from soulslab.envs.tasks.duel.fighter_placing import JITTER_M, draw_start_poses, forcing_hp, refill
from soulslab.errors import ResetFailedError
from soulslab.siphon.session import Step
from support.live_duel import LiveDuel, profile_without

#: Quantities and keys that real games do not have.
MINIMAL = {
    "quantities": (
        *("game.stage", "fight.number", "fight.tick", "fight.seed", "fight.next_seed", "phase"),
        *("player.no_death", "player.no_gravity", "boss.no_attack"),
    ),
    "keys": ("restart",),
}
GAMES = pytest.mark.parametrize("missing", [{}, MINIMAL], ids=["complete", "minimal"])


def in_place(live, max_retries=3, **changes):
    return InPlaceEpisode(live.scenario, DuelOptions(**changes), max_retries=max_retries)


def started_episode(live, n=40, **changes):
    """Return an episode after its first `n` decisions."""
    episode = in_place(live, **changes)
    live.begin(episode)
    for _ in range(n):
        state = live.step(episode, 0.1, ("forward",))
        if episode.outcome(state):
            break
    return episode


def check_start(live, episode, state):
    """Check that both fighters are at their start poses, locked on, in full health, without safety flags."""
    fight, scenario = live.arena.fight, live.scenario
    start = scenario.player_pose if episode.start_pose < 0 else scenario.player_poses_random[episode.start_pose]
    limit_m = 0.2 if episode.start_pose < 0 else JITTER_M * math.sqrt(2) + 0.2
    assert math.dist((live.duel.p_x, live.duel.p_y), start[:2]) < limit_m
    assert live.duel.p_z == pytest.approx(scenario.floor_m)
    assert math.dist((live.duel.b_x, live.duel.b_y), scenario.boss_pose[:2]) < 0.5
    assert live.duel.lock_on
    assert (live.duel.p_hp, live.duel.p_sp) == (scenario.player_max_hp, scenario.player_max_sp)
    assert state.player_hp == scenario.player_max_hp
    assert not (fight.no_attack or fight.no_gravity)
    assert fight.stage == "fighting"
    assert episode.outcome(state) == ""


@GAMES
def test_a_reset_places_both_fighters_in_the_same_fight(missing):
    live = LiveDuel(profile_without(**missing))
    episode = started_episode(live)
    for _ in range(3):
        number = live.arena.fight.n_fights
        state = live.begin(episode)
        check_start(live, episode, state)
        assert live.arena.fight.n_fights == number
        for _ in range(30):
            live.step(episode, 0.1, ("forward", "roll"))
    assert episode.log.n_game_restarts == episode.log.n_retries == 0


def test_random_start_poses_have_a_jitter():
    live = LiveDuel()
    rng = np.random.default_rng(3)
    starts = [draw_start_poses(live.scenario, rng, is_random=True) for _ in range(200)]
    assert {start.number for start in starts} == set(range(len(live.scenario.player_poses_random)))
    offsets = [np.subtract(start.player, live.scenario.player_poses_random[start.number])[:2] for start in starts]
    assert np.abs(offsets).max() <= JITTER_M
    assert np.abs(offsets).max() > 0.9 * JITTER_M
    for start in starts:
        ahead = np.array([-math.sin(start.player[3]), -math.cos(start.player[3])])
        to_boss = np.subtract(start.boss, start.player)[:2]
        assert ahead @ to_boss == pytest.approx(np.linalg.norm(to_boss))
        assert start.boss[3] == pytest.approx(math.remainder(start.player[3] + math.pi, 2 * math.pi))
    assert draw_start_poses(live.scenario, rng, is_random=False).number == -1


@pytest.mark.parametrize("unknown", [("player_pose",), ("boss_pose",), ("player_pose", "boss_pose")])
def test_a_fighter_without_start_pose_is_not_moved(unknown):
    live = LiveDuel()
    live.scenario = msgspec.structs.replace(live.scenario, **dict.fromkeys(unknown), player_poses_random=())
    episode = in_place(live)
    live.begin(episode)  # the first reset begins a new fight, with a seed
    for who, place in (("player", (150.0, 600.0)), ("boss", (140.0, 585.0))):
        live.game.write({f"{who}.position": np.array((*place, live.scenario.floor_m))})
    live.begin(episode)
    starts = {"player_pose": ((live.duel.p_x, live.duel.p_y), (150.0, 600.0))}
    starts["boss_pose"] = (live.duel.b_x, live.duel.b_y), (140.0, 585.0)
    for name, (place, before) in starts.items():
        known = getattr(live.scenario, name)
        # The boss may walk before it is at rest.
        assert math.dist(place, known[:2] if known else before) < (0.5 if known else 8.0)
    assert (live.duel.p_hp, live.duel.lock_on) == (live.scenario.player_max_hp, 1)


def test_random_start_poses_depend_on_the_seed():
    live = LiveDuel()
    episode = in_place(live, random_pose=True)
    starts = []
    for seed in (1, 2, 1):
        state = live.begin(episode, rng=np.random.default_rng(seed))
        check_start(live, episode, state)
        starts.append((episode.start_pose, live.duel.p_x))
    assert starts[0] == starts[2] != starts[1]


def test_a_seed_repeats_the_episode():
    live = LiveDuel()
    episode = in_place(live)

    def play(seed):
        live.begin(episode, seed)
        return [live.step(episode, 0.1, ("forward",)).copy() for _ in range(60)], live.duel.copy()

    (first, duel), (second, again) = play(7), play(7)
    assert first == second
    assert [duel[name].tolist() for name in ("p_x", "p_hp", "b_x", "b_hp", "rng")] == [
        again[name].tolist() for name in ("p_x", "p_hp", "b_x", "b_hp", "rng")
    ]


@pytest.mark.parametrize("who", ["player", "boss"])
@GAMES
def test_losses_are_counted_while_the_health_in_the_game_is_refilled(who, missing):
    """Hit five times, until the counted health is used up; the fight in the game continues."""
    live = LiveDuel(profile_without(**missing))
    episode = in_place(live, phase="1")
    before = live.begin(episode)
    field, record = f"{who}_hp", f"{who[0]}_hp"
    goal = 0 if who == "player" else live.scenario.phase_two_hp
    blow, left = math.ceil((before[field] - goal) / 5), before[field]
    live.arena.fight.no_attack = True
    for i in range(5):
        live.duel[record] -= blow
        state = live.step(episode, 0.1)
        left -= blow
        assert state[field] == max(left, 0)
        assert episode.outcome(state) == ("" if i < 4 else "lost" if who == "player" else "won")
    assert live.arena.fight.stage == "fighting"
    assert live.duel[record] > goal + blow


def test_a_blow_that_leaves_the_last_health_is_a_loss():
    live = LiveDuel()
    episode = started_episode(live, n=1)
    live.duel.p_hp = 1.0  # the last health of a player that cannot die
    state = live.step(episode)
    assert (state.player_hp, episode.outcome(state)) == (0.0, "lost")


def test_after_the_player_s_death_in_the_game_another_fight_begins():
    live = LiveDuel(profile_without(**MINIMAL))
    episode = started_episode(live, n=1)
    live.duel.p_hp = 0.0
    assert episode.outcome(live.step(episode)) == "lost"
    check_start(live, episode, live.begin(episode))
    assert live.arena.fight.n_fights == 2
    assert episode.log.n_respawns == 1


def test_in_a_running_game_only_low_health_is_refilled():
    live = LiveDuel()
    episode = started_episode(live, n=1)
    live.arena.fight.no_attack = True
    session = live.game.session
    session.clock.run(1.0)
    live.game.step = lambda _, __, names: session.step(Step(attributes=live.game.attributes(names)))
    live.duel.p_hp, live.duel.b_hp = 300.0, 900.0
    state = live.step(episode)
    assert (state.player_hp, state.boss_hp) == (300.0, 900.0)
    assert (live.duel.p_hp, live.duel.b_hp) == (300.0, 900.0)
    live.duel.p_hp, live.duel.b_hp = 200.0, 700.0
    state = live.step(episode)
    assert (state.player_hp, state.boss_hp) == (200.0, 700.0)
    assert (live.duel.p_hp, live.duel.b_hp) == (live.scenario.player_max_hp, live.scenario.boss_max_hp)


def test_healing_is_counted_but_refills_are_not():
    live = LiveDuel()
    episode = started_episode(live, n=1)
    live.arena.fight.no_attack = True
    live.duel.p_hp -= 200
    assert live.step(episode).player_hp == 254
    assert live.step(episode).player_hp == 254
    live.duel.p_hp -= 50
    live.step(episode, 0.0)
    assert live.step(episode).player_hp == 204


# --- phases -----------------------------------------------------------------------------------------------------


def hurt_boss_down(live, episode):
    """Use up the health of the first phase, and play until the second has begun; return the states."""
    states = []
    for _ in range(200):
        live.duel.b_hp = max(live.duel.b_hp - 60, live.scenario.phase_two_hp if live.duel.phase == 1 else 1)
        states.append(live.step(episode, 0.1).copy())
        if states[-1].phase == 2:
            return states
    raise AssertionError("the second phase did not begin")


def test_a_fight_through_both_phases():
    live = LiveDuel()
    episode = in_place(live)
    live.begin(episode)
    states = hurt_boss_down(live, episode)
    first = [state.boss_hp for state in states if state.phase == 1]
    assert min(first) == live.scenario.phase_two_hp == first[-1]
    assert first == sorted(first, reverse=True)
    assert states[-1].boss_hp == live.scenario.phase_two_hp
    assert live.duel.b_hp == live.scenario.boss_max_hp
    live.arena.fight.no_attack = True
    while not episode.outcome(state := live.step(episode)):
        assert live.duel.b_hp > 900
        live.duel.b_hp -= 100
    assert (state.boss_hp, episode.outcome(state)) == (0.0, "won")
    assert live.arena.fight.stage == "fighting"


@pytest.mark.parametrize("keys", [(), ("restart",)])
def test_phase_one_after_phase_two_needs_another_fight(keys):
    live = LiveDuel(profile_without(keys=keys))
    episode = in_place(live)
    live.begin(episode)
    number = live.arena.fight.n_fights
    hurt_boss_down(live, episode)
    state = live.begin(episode)
    check_start(live, episode, state)
    assert (state.phase, state.boss_hp) == (1, live.scenario.boss_max_hp)
    assert live.arena.fight.n_fights == number + 1
    assert episode.log.n_game_restarts == 0


def test_a_phase_change_that_begins_before_the_reset_is_detected():
    live = LiveDuel()
    episode = in_place(live)
    live.begin(episode)
    live.duel.b_hp = live.scenario.phase_two_hp
    live.arena.fight.no_attack = True
    for _ in range(20):
        live.step(episode)
        if live.duel.b_mode == ATTACKING:
            break
    assert live.duel.phase == 1
    state = live.begin(episode)
    assert (state.phase, live.duel.phase) == (1, 1)
    check_start(live, episode, state)


@GAMES
def test_phase_two_alone(missing):
    live = LiveDuel(profile_without(**missing))
    episode = in_place(live, phase="2")
    number = None
    for _ in range(3):
        state = live.begin(episode)
        check_start(live, episode, state)
        assert live.duel.phase == 2
        assert state.boss_hp == live.scenario.phase_two_hp
        assert number in (None, live.arena.fight.n_fights)
        number = live.arena.fight.n_fights
        live.step(episode, 1.0, ("forward",))


def test_forcing_health_is_below_phase_two_and_above_a_blow():
    live = LiveDuel()
    assert 300 < forcing_hp(live.scenario) < live.scenario.phase_two_hp


@pytest.mark.parametrize("keys", [(), ("restart",)])
def test_a_phase_change_without_a_reading_needs_another_fight(keys):
    live = LiveDuel(profile_without(quantities=("phase",), keys=keys))
    episode = in_place(live)
    live.begin(episode)
    live.duel.b_hp = live.scenario.phase_two_hp
    live.step(episode, 1 / 60)
    live.game.session.clock.advance(10.0)  # without a reading, as between two episodes
    assert live.duel.phase == 2
    number = live.arena.fight.n_fights
    check_start(live, episode, live.begin(episode))
    assert live.duel.phase == 1
    assert live.arena.fight.n_fights == number + 1


@pytest.mark.parametrize("is_forcing", [False, True])
def test_a_boss_that_dies_in_the_game_is_defeated_and_not_refilled(is_forcing):
    live = LiveDuel(profile_without(quantities=("game.stage", "fight.number", "fight.tick"), keys=("restart",)))
    episode = in_place(live)
    live.begin(episode)
    if is_forcing:
        live.duel.b_hp = live.scenario.phase_two_hp
        live.step(episode, 0.0)
        assert live.arena.fight.duel.b_hp < live.scenario.phase_two_hp
    # The rules of the fight allow a blow larger than the remaining health only in the second phase.
    live.duel.phase, live.duel.b_hp = 2, 0.0
    state = live.step(episode, 0.0)
    assert episode.outcome(state) == "won"
    assert live.duel.b_hp == 0.0
    number = live.arena.fight.n_fights
    check_start(live, episode, live.begin(episode))
    assert live.arena.fight.n_fights == number + 1


def test_a_boss_that_dies_in_a_reset_is_not_refilled():
    live = LiveDuel()
    live.begin(in_place(live))
    live.duel.b_hp = 0.0
    refill(live.game, live.scenario)
    assert live.duel.b_hp == 0.0
    live.duel.b_hp = 1.0
    refill(live.game, live.scenario)
    assert live.duel.b_hp == live.scenario.boss_max_hp


# --- failures ---------------------------------------------------------------------------------------------------


def test_a_fall_is_a_loss_and_the_reset_places_the_player():
    live = LiveDuel()
    episode = started_episode(live, n=1)
    live.duel.p_falling, live.duel.p_z = 1, live.scenario.fall_m - 0.5
    live.duel.p_anim = live.arena.fight.fight.fall_start
    state = live.step(episode, 0.0)
    assert (state.player_hp, episode.outcome(state)) == (0.0, "lost")
    number = live.arena.fight.n_fights
    check_start(live, episode, live.begin(episode))
    assert live.arena.fight.n_fights == number


def test_a_step_down_is_not_a_loss_if_falls_are_not_deadly():
    live = LiveDuel()
    live.scenario = msgspec.structs.replace(live.scenario, is_fall_deadly=False)
    episode = started_episode(live, n=1)
    live.duel.p_anim = live.arena.fight.fight.fall_start
    live.arena.fight.duel.p_z = live.scenario.fall_m + 0.5
    state = live.step(episode, 0.0)
    assert episode.outcome(state) == ""
    live.duel.p_z = live.scenario.fall_m - 0.5
    assert episode.outcome(live.step(episode, 0.0)) == "lost"


def test_a_lost_lock_on_without_key_is_not_recovered():
    live = LiveDuel(profile_without(keys=("lock_on",)))
    episode = started_episode(live, n=1)
    for _ in range(2 * UNLOCKED_READINGS):
        live.game.write({"lock_on": False})
        live.step(episode, 0.0)
        assert episode.extra_buttons == ()


@pytest.mark.parametrize("position", [(1e3, 1e3, -68.8), (142.0, 594.0, 200.0), (142.0, 594.0, -1e3)])
def test_a_player_out_of_bounds_is_placed_by_the_reset(position):
    live = LiveDuel()
    episode = started_episode(live, n=1)
    live.game.write({"player.position": np.array(position)})
    live.step(episode, 0.5)
    check_start(live, episode, live.begin(episode))


def test_a_lost_lock_on_presses_the_key():
    live = LiveDuel()
    episode = started_episode(live, n=1)
    assert episode.extra_buttons == ()
    for i in range(2 * UNLOCKED_READINGS):
        live.game.write({"lock_on": False})
        live.step(episode, 0.0)
        assert episode.extra_buttons == (("lock_on",) if (i + 1) % UNLOCKED_READINGS == 0 else ())
    check_start(live, episode, live.begin(episode))
    live.step(episode)
    assert episode.extra_buttons == ()


def test_a_fighter_that_moves_after_the_placing_is_placed_again():
    live = LiveDuel()
    episode = started_episode(live)
    write, n_pushes = live.game.write, []

    def write_and_push(values):
        write(values)
        is_placed = math.dist((live.duel.p_x, live.duel.p_y), live.scenario.player_pose[:2]) < 0.1
        if "boss.hp" in values and is_placed and not n_pushes:
            n_pushes.append(1)
            live.duel.p_x += 5.0

    live.game.write = write_and_push
    state = live.begin(episode)
    assert n_pushes
    check_start(live, episode, state)
    assert episode.log.n_retries == 0


def test_a_boss_that_never_rests_needs_another_fight():
    live = LiveDuel()
    episode = started_episode(live, n=1)
    tick, fight = live.arena.fight.tick, live.arena.fight
    number = fight.n_fights

    def stuck(held, pressed=()):
        tick(held, pressed)
        if fight.n_fights == number:
            fight.duel.b_mode, fight.duel.b_move, fight.duel.b_ticks, fight.duel.b_anim = ATTACKING, 0, 0, 0

    fight.tick = stuck
    check_start(live, episode, live.begin(episode))
    assert episode.log.reasons == {"settle": 1}
    assert episode.log.n_retries == 1
    assert fight.n_fights == number + 1
    assert "the boss to rest" in episode.log.latest[0]
    assert "boss.animation 'Attack3000'" in episode.log.latest[0]


def test_a_reset_while_the_game_loads_waits_for_it():
    for missing in ({}, MINIMAL):
        live = LiveDuel(profile_without(**missing))
        episode = started_episode(live, n=1)
        live.arena.fight.restart()
        live.game.step(0.1)
        check_start(live, episode, live.begin(episode))
        assert episode.log.n_game_restarts == 0


@pytest.mark.parametrize("fault", ["is_alive", "is_stalled"])
def test_a_failed_game_is_restarted(fault):
    live = LiveDuel()
    episode = started_episode(live, n=5)
    setattr(live.arena, fault, fault == "is_stalled")
    check_start(live, episode, live.begin(episode))
    assert episode.log.n_game_restarts == 1
    assert live.game.session.info.n_starts == 2


def test_the_error_of_a_failed_reset_has_all_reasons():
    live = LiveDuel()
    episode = in_place(live, max_retries=1)
    started = live.arena
    started.is_deaf = started.fight.no_attack = True
    with pytest.raises(ResetFailedError) as caught:
        episode.begin(live.game, np.random.default_rng(0), 3, Deadline(20))
    assert caught.value.state == "ask"
    assert len(caught.value.reasons) == 2
    assert live.arena is started
    assert live.game.holder.is_lost


def test_release_clears_the_safety_flags():
    live = LiveDuel()
    episode = started_episode(live, n=1)
    assert live.arena.fight.no_death
    episode.release(live.game)
    assert not live.arena.fight.no_death
