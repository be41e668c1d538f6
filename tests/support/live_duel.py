"""A duel in the fake arena without an environment, for tests of resets and episodes."""

import msgspec
import numpy as np

from soulslab.arena.duel_state import DUEL_STATE
from soulslab.envs.game.session_holder import Deadline, SessionHolder
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import scenario_of
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_arena import FakeArenaSession

STATE = ("player.hp", "boss.hp", "phase", "player.position", "lock_on")
DEADLINE_S = 20.0


def profile_without(*, quantities=(), keys=()):
    """Return the arena's profile without some quantities and keys."""
    profile = load_profile(PROFILE_PATH)
    attributes = {name: value for name, value in profile.duel["attributes"].items() if name not in quantities}
    return msgspec.structs.replace(
        profile,
        duel={**profile.duel, "attributes": attributes},
        keys={name: key for name, key in profile.keys.items() if name not in keys},
    )


class LiveDuel:
    """A fake game and its scenario.

    Attributes:
        game: Access to the game by quantity.
        scenario: Facts about the boss and its arena.
        sessions: All sessions that were opened.
    """

    def __init__(self, profile=None, **options):
        self.sessions = []
        self._profile = profile or load_profile(PROFILE_PATH)
        self._options = SessionOptions(options=options)
        self.game = DuelGame(SessionHolder(lambda _: self._open()), self._profile)
        self.scenario = scenario_of(self.arena.fight.boss)

    def _open(self):
        self.sessions.append(FakeArenaSession(self._options, self._profile))
        return self.sessions[-1]

    @property
    def arena(self):
        """The fake game after its last start."""
        return self.game.session.arena

    @property
    def duel(self):
        """The record of its fight."""
        return self.arena.fight.duel

    def begin(self, episode, seed=None, rng=None, deadline_s=DEADLINE_S):
        """Begin an episode; return its first state."""
        episode.begin(self.game, rng or np.random.default_rng(0), seed, Deadline(deadline_s))
        return self.step(episode, 0.0)

    def step(self, episode, seconds=0.1, buttons=()):
        """Advance the game, process a reading, and return the state with the counted health."""
        names = tuple(dict.fromkeys(name for name in (*STATE, *episode.quantities) if self.game.has(name)))
        read = self.game.decode(self.game.step(seconds, buttons, names).snapshot)
        state = np.zeros(1, DUEL_STATE)[0]
        state.player_hp, state.boss_hp = read["player.hp"], read["boss.hp"]
        state.phase, state.lock_on = read.get("phase", episode.start_phase), read.get("lock_on", True)
        state.player_pose[:3] = read["player.position"]
        episode.process_reading(self.game, state, read)
        return state
