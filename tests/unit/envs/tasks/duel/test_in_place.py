"""Episodes in place, within one fight of the game: counted health, positions, phases, and failures."""

import math

import msgspec
import numpy as np
import pytest

from soulslab.arena.records import ATTACKING
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.episode import EpisodeSettings
from soulslab.envs.tasks.duel.fighter_placing import JITTER_M, draw_start, forcing_hp, refill
from soulslab.envs.tasks.duel.in_place_episode import InPlaceEpisode
from soulslab.envs.tasks.duel.lock_on_recovery import UNLOCKED_LOOKS
from soulslab.errors import ResetFailedError
from soulslab.siphon.session import Step
from support.live_duel import LiveDuel, profile_without

#: Quantities that the real games do not have.
BARE = {
    "quantities": (
        *("game.stage", "fight.number", "fight.tick", "fight.seed", "fight.next_seed", "phase"),
        *("player.no_death", "player.no_gravity", "boss.no_attack"),
    ),
    "keys": ("restart",),
}
GAMES = pytest.mark.parametrize("less", [{}, BARE], ids=["all known", "bare"])


def in_place(live, **changes):
    return InPlaceEpisode(live.scenario, EpisodeSettings(**changes))


def fought(live, n=40, **changes):
    """Return an episode after some decisions."""
    episode = in_place(live, **changes)
    live.begin(episode)
    for _ in range(n):
        state = live.look(episode, 0.1, ("forward",))
        if episode.verdict(state):
            break
    return episode


def check_start(live, episode, state):
    """Check that both fighters are at their start poses, locked on, with full health, and that no key is held."""
    fight, scenario = live.arena.fight, live.scenario
    start = scenario.player_pose if episode.start_pose < 0 else scenario.player_poses_random[episode.start_pose]
    reach = 0.2 if episode.start_pose < 0 else JITTER_M * math.sqrt(2) + 0.2
    assert math.dist((live.duel.p_x, live.duel.p_y), start[:2]) < reach
    assert live.duel.p_z == pytest.approx(scenario.floor_m)
    assert math.dist((live.duel.b_x, live.duel.b_y), scenario.boss_pose[:2]) < 0.5
    assert live.duel.lock_on
    assert (live.duel.p_hp, live.duel.p_sp) == (scenario.player_max_hp, scenario.player_max_sp)
    assert state.player_hp == scenario.player_max_hp
    assert not (fight.no_attack or fight.no_gravity)
    assert fight.stage == "fighting"
    assert episode.verdict(state) == ""


@GAMES
def test_a_reset_moves_both_fighters_back_without_a_new_fight(less):
    live = LiveDuel(profile_without(**less))
    episode = fought(live)
    for _ in range(3):
        number = live.arena.fight.n_fights
        state = live.begin(episode)
        check_start(live, episode, state)
        assert live.arena.fight.n_fights == number
        for _ in range(30):
            live.look(episode, 0.1, ("forward", "roll"))
    assert episode.log.n_game_restarts == episode.log.n_retries == 0


def test_the_start_pose_has_random_jitter():
    live = LiveDuel()
    rng = np.random.default_rng(3)
    starts = [draw_start(live.scenario, rng, is_random=True) for _ in range(200)]
    assert {start.number for start in starts} == set(range(len(live.scenario.player_poses_random)))
    offsets = [np.subtract(start.player, live.scenario.player_poses_random[start.number])[:2] for start in starts]
    assert np.abs(offsets).max() <= JITTER_M
    assert np.abs(offsets).max() > 0.9 * JITTER_M
    for start in starts:
        ahead = np.array([-math.sin(start.player[3]), -math.cos(start.player[3])])
        way = np.subtract(start.boss, start.player)[:2]
        assert ahead @ way == pytest.approx(np.linalg.norm(way))
        assert start.boss[3] == pytest.approx(math.remainder(start.player[3] + math.pi, 2 * math.pi))
    assert draw_start(live.scenario, rng, is_random=False).number == -1


@pytest.mark.parametrize("unknown", [("player_pose",), ("boss_pose",), ("player_pose", "boss_pose")])
def test_a_fighter_without_a_start_pose_is_not_moved(unknown):
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
        # The boss may walk before it rests.
        assert math.dist(place, known[:2] if known else before) < (0.5 if known else 8.0)
    assert (live.duel.p_hp, live.duel.lock_on) == (live.scenario.player_max_hp, 1)


def test_random_starts_follow_the_seed():
    live = LiveDuel()
    episode = in_place(live, random_pose=True)
    starts = []
    for seed in (1, 2, 1):
        state = live.begin(episode, rng=np.random.default_rng(seed))
        check_start(live, episode, state)
        starts.append((episode.start_pose, live.duel.p_x))
    assert starts[0] == starts[2] != starts[1]


def test_a_seed_determines_the_complete_episode():
    live = LiveDuel()
    episode = in_place(live)

    def play(seed):
        live.begin(episode, seed)
        return [live.look(episode, 0.1, ("forward",)).copy() for _ in range(60)], live.duel.copy()

    (first, duel), (second, again) = play(7), play(7)
    assert first == second
    assert [duel[name].tolist() for name in ("p_x", "p_hp", "b_x", "b_hp", "rng")] == [
        again[name].tolist() for name in ("p_x", "p_hp", "b_x", "b_hp", "rng")
    ]


@pytest.mark.parametrize("who", ["player", "boss"])
@GAMES
def test_losses_are_counted_while_the_health_is_restored(who, less):
    """Many blows, until the counted health is 0; the fight of the game continues."""
    live = LiveDuel(profile_without(**less))
    episode = in_place(live, phase="1")
    before = live.begin(episode)
    field, record = f"{who}_hp", f"{who[0]}_hp"
    goal = 0 if who == "player" else live.scenario.phase_two_hp
    blow, left = math.ceil((before[field] - goal) / 5), before[field]
    live.arena.fight.no_attack = True
    for i in range(5):
        live.duel[record] -= blow
        state = live.look(episode, 0.1)
        left -= blow
        assert state[field] == max(left, 0)
        assert episode.verdict(state) == ("" if i < 4 else "lost" if who == "player" else "won")
    assert live.arena.fight.stage == "fighting"
    assert live.duel[record] > goal + blow


def test_a_deadly_blow_counts_as_a_death():
    live = LiveDuel()
    episode = fought(live, n=1)
    live.duel.p_hp = 1.0  # the lowest health in the game, because the player cannot die
    state = live.look(episode)
    assert (state.player_hp, episode.verdict(state)) == (0.0, "lost")


def test_a_death_in_the_game_loses_the_episode_and_the_reset_recovers():
    live = LiveDuel(profile_without(**BARE))
    episode = fought(live, n=1)
    live.duel.p_hp = 0.0
    assert episode.verdict(live.look(episode)) == "lost"
    check_start(live, episode, live.begin(episode))
    assert live.arena.fight.n_fights == 2
    assert episode.log.n_respawns == 1


def test_in_real_time_only_low_health_is_restored():
    live = LiveDuel()
    episode = fought(live, n=1)
    live.arena.fight.no_attack = True
    session = live.game.session
    session.clock.run(1.0)
    live.game.play = lambda _, __, names: session.step(Step(attributes=live.game.attributes(names)))
    live.duel.p_hp, live.duel.b_hp = 300.0, 900.0
    state = live.look(episode)
    assert (state.player_hp, state.boss_hp) == (300.0, 900.0)
    assert (live.duel.p_hp, live.duel.b_hp) == (300.0, 900.0)
    live.duel.p_hp, live.duel.b_hp = 200.0, 700.0
    state = live.look(episode)
    assert (state.player_hp, state.boss_hp) == (200.0, 700.0)
    assert (live.duel.p_hp, live.duel.b_hp) == (live.scenario.player_max_hp, live.scenario.boss_max_hp)


def test_healing_is_counted_but_restored_health_is_not():
    live = LiveDuel()
    episode = fought(live, n=1)
    live.arena.fight.no_attack = True
    live.duel.p_hp -= 200
    assert live.look(episode).player_hp == 254
    assert live.look(episode).player_hp == 254
    live.duel.p_hp -= 50
    live.look(episode, 0.0)
    assert live.look(episode).player_hp == 204


# --- phases -----------------------------------------------------------------------------------------------------


def hurt_boss_down(live, episode):
    """Remove the health of the first phase, and play until the second has begun; return the states."""
    states = []
    for _ in range(200):
        live.duel.b_hp = max(live.duel.b_hp - 60, live.scenario.phase_two_hp if live.duel.phase == 1 else 1)
        states.append(live.look(episode, 0.1).copy())
        if states[-1].phase == 2:
            return states
    raise AssertionError("the second phase did not begin")


def test_both_phases():
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
    while not episode.verdict(state := live.look(episode)):
        assert live.duel.b_hp > 900
        live.duel.b_hp -= 100
    assert (state.boss_hp, episode.verdict(state)) == (0.0, "won")
    assert live.arena.fight.stage == "fighting"


@pytest.mark.parametrize("keys", [(), ("restart",)])
def test_the_first_phase_needs_a_new_fight(keys):
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


def test_a_change_of_phase_that_has_begun_is_detected():
    live = LiveDuel()
    episode = in_place(live)
    live.begin(episode)
    live.duel.b_hp = live.scenario.phase_two_hp
    live.arena.fight.no_attack = True
    for _ in range(20):
        live.look(episode)
        if live.duel.b_mode == ATTACKING:
            break
    assert live.duel.phase == 1
    state = live.begin(episode)
    assert (state.phase, live.duel.phase) == (1, 1)
    check_start(live, episode, state)


@GAMES
def test_the_second_phase_alone(less):
    live = LiveDuel(profile_without(**less))
    episode = in_place(live, phase="2")
    number = None
    for _ in range(3):
        state = live.begin(episode)
        check_start(live, episode, state)
        assert live.duel.phase == 2
        assert state.boss_hp == live.scenario.phase_two_hp
        assert number in (None, live.arena.fight.n_fights)
        number = live.arena.fight.n_fights
        live.look(episode, 1.0, ("forward",))


def test_the_forcing_health_starts_the_second_phase_and_survives_a_blow():
    live = LiveDuel()
    assert 300 < forcing_hp(live.scenario) < live.scenario.phase_two_hp


@pytest.mark.parametrize("keys", [(), ("restart",)])
def test_an_unobserved_change_of_phase_is_followed_by_a_new_fight(keys):
    live = LiveDuel(profile_without(quantities=("phase",), keys=keys))
    episode = in_place(live)
    live.begin(episode)
    live.duel.b_hp = live.scenario.phase_two_hp
    live.look(episode, 1 / 60)
    live.game.session.clock.advance(10.0)  # without reads, as between two episodes
    assert live.duel.phase == 2
    number = live.arena.fight.n_fights
    check_start(live, episode, live.begin(episode))
    assert live.duel.phase == 1
    assert live.arena.fight.n_fights == number + 1


@pytest.mark.parametrize("is_forcing", [False, True])
def test_a_boss_that_dies_in_the_game_is_beaten_and_not_revived(is_forcing):
    live = LiveDuel(profile_without(quantities=("game.stage", "fight.number", "fight.tick"), keys=("restart",)))
    episode = in_place(live)
    live.begin(episode)
    if is_forcing:
        live.duel.b_hp = live.scenario.phase_two_hp
        live.look(episode, 0.0)
        assert live.arena.fight.duel.b_hp < live.scenario.phase_two_hp
    # The blow exceeds the remaining health, which the rules of the fight do not allow in the first phase.
    live.duel.phase, live.duel.b_hp = 2, 0.0
    state = live.look(episode, 0.0)
    assert episode.verdict(state) == "won"
    assert live.duel.b_hp == 0.0
    number = live.arena.fight.n_fights
    check_start(live, episode, live.begin(episode))
    assert live.arena.fight.n_fights == number + 1


def test_a_boss_that_dies_in_a_reset_is_not_revived():
    live = LiveDuel()
    live.begin(in_place(live))
    live.duel.b_hp = 0.0
    refill(live.game, live.scenario)
    assert live.duel.b_hp == 0.0
    live.duel.b_hp = 1.0
    refill(live.game, live.scenario)
    assert live.duel.b_hp == live.scenario.boss_max_hp


# --- failures ---------------------------------------------------------------------------------------------------


def test_a_fall_is_a_loss_and_the_reset_puts_the_player_back():
    live = LiveDuel()
    episode = fought(live, n=1)
    live.duel.p_falling, live.duel.p_z = 1, live.scenario.fall_m - 0.5
    live.duel.p_anim = live.arena.fight.fight.fall_start
    state = live.look(episode, 0.0)
    assert (state.player_hp, episode.verdict(state)) == (0.0, "lost")
    number = live.arena.fight.n_fights
    check_start(live, episode, live.begin(episode))
    assert live.arena.fight.n_fights == number


def test_a_small_fall_is_not_a_loss():
    live = LiveDuel()
    live.scenario = msgspec.structs.replace(live.scenario, is_fall_deadly=False)
    episode = fought(live, n=1)
    live.duel.p_anim = live.arena.fight.fight.fall_start
    live.arena.fight.duel.p_z = live.scenario.fall_m + 0.5
    state = live.look(episode, 0.0)
    assert episode.verdict(state) == ""
    live.duel.p_z = live.scenario.fall_m - 0.5
    assert episode.verdict(live.look(episode, 0.0)) == "lost"


def test_without_the_key_a_lost_lock_on_remains_lost():
    live = LiveDuel(profile_without(keys=("lock_on",)))
    episode = fought(live, n=1)
    for _ in range(2 * UNLOCKED_LOOKS):
        live.game.write({"lock_on": False})
        live.look(episode, 0.0)
        assert episode.presses == ()


@pytest.mark.parametrize("position", [(1e3, 1e3, -68.8), (142.0, 594.0, 200.0), (142.0, 594.0, -1e3)])
def test_a_player_out_of_bounds_is_moved_back(position):
    live = LiveDuel()
    episode = fought(live, n=1)
    live.game.write({"player.position": np.array(position)})
    live.look(episode, 0.5)
    check_start(live, episode, live.begin(episode))


def test_a_lost_lock_on_is_requested():
    live = LiveDuel()
    episode = fought(live, n=1)
    assert episode.presses == ()
    for i in range(2 * UNLOCKED_LOOKS):
        live.game.write({"lock_on": False})
        live.look(episode, 0.0)
        assert episode.presses == (("lock_on",) if (i + 1) % UNLOCKED_LOOKS == 0 else ())
    check_start(live, episode, live.begin(episode))
    live.look(episode)
    assert episode.presses == ()


def test_a_fighter_that_is_pushed_after_the_placing_is_moved_back():
    live = LiveDuel()
    episode = fought(live)
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


def test_a_boss_that_never_rests_is_left_by_a_new_fight():
    live = LiveDuel()
    episode = fought(live, n=1)
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
    for less in ({}, BARE):
        live = LiveDuel(profile_without(**less))
        episode = fought(live, n=1)
        live.arena.fight.restart()
        live.game.play(0.1)
        check_start(live, episode, live.begin(episode))
        assert episode.log.n_game_restarts == 0


@pytest.mark.parametrize("fault", ["is_alive", "is_stalled"])
def test_a_failed_game_is_restarted(fault):
    live = LiveDuel()
    episode = fought(live, n=5)
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


def test_held_keys_are_released():
    live = LiveDuel()
    episode = fought(live, n=1)
    assert live.arena.fight.no_death
    episode.release(live.game)
    assert not live.arena.fight.no_death
