"""Resets of real games with random faults: each reset ends in the fight of the scenario."""

import logging
import math
from collections import Counter

import numpy as np
import pytest

from soulslab.arena.vocabulary import NOTHING
from soulslab.errors import SiphonError
from support.long_form import IS_LONG
from support.souls_env import BOSSES
from support.souls_faults import KINDS, Fault, Faults, draw

#: Number of resets for each boss and kind of episode, with a lockstep and with a scaled clock.
N_RESETS = (250, 50) if IS_LONG else (4, 1)
MAX_FAULTS = 3
#: Events in a fight before the next reset.
EVENTS = ("nothing", "death", "win", "load", "title", "phase", "pushed", "unlocked", "elsewhere")
#: Faults that hide the animation of the phase change.
HIDING = {"attack", "unknown"}
#: Largest distance of a fighter from its start pose.
NEAR_M = 0.5
SWITCHES = ("player.no_death", "player.no_gravity", "boss.no_attack", "debug.no_death")
LOCK = ("lock.bonus_range_m", "lock.sight_time_s")


class Trial:
    """An environment, and the random faults of its game.

    Attributes:
        history: Faults and events so far, for the message of a failed test.
        n_before: Number of faults in the last fight.
    """

    def __init__(self, make, log, game, boss, episodes, is_scaled):
        self.faults, self.log, self.history = Faults(), log, []
        self.n_before = 0
        self.souls = make(game, boss, self.faults.attach, episodes=episodes, of_session={"is_scaled": is_scaled})
        self.is_in_place = episodes == "in_place"
        self.rng = np.random.default_rng([BOSSES.index((game, boss)), len(episodes), is_scaled])
        self.souls.world.be_in_fight()
        self.before = self.read(SWITCHES + LOCK)
        self.souls.world.leave()

    def read(self, names):
        """Return the values of the attributes that the game has."""
        known = self.souls.session.profile.attributes
        return dict(self.souls.session.snapshot([name for name in names if name in known]))

    def reset(self):
        """Reset with up to three faults, and check the result and the log."""
        souls, world, rng = self.souls, self.souls.world, self.rng
        world.load_s, world.death_s = rng.uniform(0.2, 3.0), rng.uniform(1.5, 5.0)
        world.defeat_s = float(rng.choice([0.0, rng.uniform(0.0, 1.5)]))  # a load before this time discards the defeat
        faults = [draw(rng, world.game) for _ in range(rng.integers(MAX_FAULTS + 1))]
        n_retries, reasons = souls.log.n_retries, souls.log.reasons.total()
        self.history.append(f"reset with {faults}, load {world.load_s:.2f} s, death {world.death_s:.2f} s")
        self.log.clear()
        self.faults.plan(faults)
        observation, info = souls.env.reset()
        happened = self.faults.present
        self.faults.end()
        self.history.append(f"happened: {[fault.kind for fault in happened]}, retries: {souls.log.latest}")
        n_lost = len(souls.log.latest)
        assert n_lost <= len(happened) + self.n_before
        assert souls.log.n_retries - n_retries == souls.log.reasons.total() - reasons == n_lost
        lines = [record.getMessage() for record in self.log.records if "a reset failed" in record.getMessage()]
        assert len(lines) == n_lost
        self.check_start(observation, info, happened)

    def check_start(self, observation, info, happened):
        """Check that the episode begins in the state of the scenario, without held keys or unexpected changes."""
        souls, world = self.souls, self.souls.world
        assert world.at == "fight"
        assert not world.input.held
        assert observation["phase"] == 1
        kinds = {fault.kind for fault in happened}
        if self.is_in_place or "phase" not in kinds:
            assert observation["boss_hp"] == souls.session.read("boss.hp") == souls.session.facts.max_hp
            # A phase change is recognised by its animation, if that is known and not hidden.
            if not self.is_in_place or (souls.env.scenario.phase_two_animation and kinds.isdisjoint(HIDING)):
                assert souls.duel.phase == 1
        assert info["action_mask"][NOTHING]
        switches = dict.fromkeys(self.read(SWITCHES), False)
        if self.is_in_place:
            assert observation["lock_on"]
            assert observation["player_hp"] == observation["player_max_hp"]
            switches["player.no_death"] = True
            start = souls.env.scenario.player_pose
            if start is not None:
                assert math.dist(observation["player_pose"][:2], start[:2]) <= NEAR_M
        else:  # the boss may have hit first
            assert observation["player_hp"] > 0
        assert self.read(SWITCHES) == switches
        if "flags" not in kinds:
            assert not souls.game.event_flags[souls.session.facts.defeat_flag]

    def play(self):
        """Step with a random event and random faults, until the episode ends or some steps have passed."""
        event = str(self.rng.choice(EVENTS))
        steps, idle_s = int(self.rng.integers(1, 6)), float(self.rng.choice([0.0, self.rng.uniform(0.0, 8.0)]))
        faults = [] if event == "nothing" else [Fault(event, "fight", 0.0, 0.0)]
        faults += [draw(self.rng, self.souls.world.game)] if self.rng.random() < 0.3 else []
        self.history.append(f"{steps} steps with {faults}, {idle_s:.2f} s")
        self.faults.plan(faults)
        try:
            for _ in range(steps):
                _, _, is_over, _, info = self.souls.env.step(NOTHING)
                if is_over:
                    assert "fight" in info
                    break
            self.souls.session.clock.advance(idle_s)
        except SiphonError as error:
            self.history.append(f"{type(error).__name__}: {error}")
            assert self.faults.present
        self.n_before = len(self.faults.present)
        self.faults.end()

    def release(self):
        """Release the game, and check that all changes were restored."""
        self.souls.env.episode.release(self.souls.env.game)
        assert self.read(SWITCHES + LOCK) == self.before


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("episodes", ["in_place", "demo"])
@pytest.mark.parametrize(("game", "boss"), BOSSES)
def test_each_reset_with_random_faults_ends_in_the_fight(make, caplog, game, boss, episodes, is_scaled):
    caplog.set_level(logging.WARNING)
    trial = Trial(make, caplog, game, boss, episodes, is_scaled)
    try:
        for _ in range(N_RESETS[is_scaled]):
            trial.reset()
            trial.play()
        trial.reset()
        trial.release()
    except BaseException as error:
        error.add_note("\n".join(["What happened:", *trial.history[-12:]]))
        raise
    if IS_LONG and not is_scaled:
        never = set(KINDS) - set(trial.faults.n_happened)
        assert not never, Counter(trial.faults.n_happened)
