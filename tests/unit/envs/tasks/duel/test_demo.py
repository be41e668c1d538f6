"""Demo episodes: complete fights that the environment does not change."""

import numpy as np
import pytest

from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.episode import DemoEpisode
from soulslab.errors import ResetFailedError
from support.live_duel import LiveDuel, profile_without

WITHOUT_RESTART_KEY = {"keys": ("restart",)}
#: Quantities and keys that real games do not have.
MINIMAL = {
    "quantities": ("game.stage", "fight.number", "fight.tick", "fight.seed", "fight.next_seed", "phase"),
    "keys": ("restart",),
}


def demo(live, max_retries=3, **changes):
    return DemoEpisode(live.scenario, DuelOptions(**changes), max_retries=max_retries)


def test_each_episode_begins_at_the_first_tick_of_a_new_fight():
    live = LiveDuel()
    episode = demo(live)
    for number in (2, 3, 4):
        state = live.begin(episode)
        assert live.duel.tick == 0
        assert live.arena.fight.n_fights == number
        assert state.player_hp == live.scenario.player_max_hp
        assert state.boss_hp == live.scenario.boss_max_hp
        assert episode.outcome(state) == ""
        live.step(episode, 0.35, ("forward",))
    assert episode.log.n_resets == episode.log.n_respawns == 3
    assert not episode.log.reasons


def test_the_same_seed_gives_the_same_fight():
    live = LiveDuel(poses="random")
    episode = demo(live)

    def fight(seed):
        live.begin(episode, seed)
        for _ in range(40):
            live.step(episode, 0.1, ("forward",))
        return live.duel.copy()

    first, other, second = fight(5), fight(6), fight(5)
    assert first == second
    assert first.b_x != other.b_x


def test_two_new_games_play_different_fights():
    rngs = [np.random.default_rng(i) for i in (1, 2)]
    lives = [LiveDuel(), LiveDuel()]
    for live, rng in zip(lives, rngs, strict=True):
        live.begin(demo(live), rng=rng)
    assert lives[0].duel.rng != lives[1].duel.rng


@pytest.mark.parametrize("stage", ["won", "lost"])
@pytest.mark.parametrize("missing", [{}, MINIMAL])
def test_the_end_of_a_fight(stage, missing):
    live = LiveDuel(profile_without(**missing))
    episode = demo(live)
    live.begin(episode)
    if stage == "lost":
        live.duel.p_hp = 0.0
    else:
        live.duel.phase, live.duel.b_hp = 2, 0.0
    assert episode.outcome(live.step(episode)) == stage
    state = live.begin(episode)
    assert episode.outcome(state) == ""
    assert live.arena.fight.stage == "fighting"
    assert episode.log.n_game_restarts == 0


def test_phase_one_ends_at_the_health_of_phase_two():
    live = LiveDuel(profile_without(**MINIMAL), phase="1")
    episode = demo(live, phase="1")
    live.begin(episode)
    live.duel.b_hp = live.scenario.phase_two_hp
    assert episode.outcome(live.step(episode)) == "won"


def test_without_restart_key_an_unfinished_fight_is_left_by_a_restart():
    live = LiveDuel(profile_without(**WITHOUT_RESTART_KEY))
    episode = demo(live)
    live.begin(episode)
    live.step(episode, 1.0)
    live.begin(episode, seed=4)
    assert live.game.session.info.n_starts == 2
    assert episode.log.n_game_restarts == 1
    live.step(episode, 0.5)
    live.duel.p_hp = 0.0
    live.step(episode, 0.5)
    live.begin(episode, seed=4)
    assert live.game.session.info.n_starts == 2
    assert live.arena.fight.seed == 4
    assert live.duel.tick == 0


def test_a_reset_while_the_game_loads():
    for missing in ({}, WITHOUT_RESTART_KEY, MINIMAL):
        live = LiveDuel(profile_without(**missing))
        episode = demo(live)
        live.begin(episode)
        live.arena.fight.restart()
        live.game.step(0.1)
        live.begin(episode)
        assert live.arena.fight.stage == "fighting"
        assert episode.log.n_game_restarts == 0


def test_a_game_that_ignores_its_keys():
    live = LiveDuel()
    live.arena.is_deaf = live.arena.fight.no_attack = True
    episode = demo(live, max_retries=2)
    live.begin(episode)
    assert episode.log.reasons == {"ask": 2}
    assert episode.log.n_game_restarts == 1
    assert live.game.session.info.n_starts == 2

    live.arena.is_deaf = live.arena.fight.no_attack = True
    with pytest.raises(ResetFailedError, match="after the restart key") as caught:
        demo(live, max_retries=0).begin(live.game, np.random.default_rng(0), None, Deadline(20))
    assert caught.value.state == "ask"


@pytest.mark.parametrize("fault", ["is_alive", "is_stalled"])
def test_a_failed_game_is_restarted(fault):
    live = LiveDuel()
    episode = demo(live)
    live.begin(episode)
    setattr(live.arena, fault, fault == "is_stalled")
    live.begin(episode, seed=3)
    assert live.duel.tick == 0
    assert live.arena.fight.seed == 3
    assert episode.log.n_game_restarts == 1
    (name,) = episode.log.reasons
    assert name in ("ProcessExitedError", "ClockStalledError")
