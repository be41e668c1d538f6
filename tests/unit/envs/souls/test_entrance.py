"""The way into the fight of a real game: from whatever the game is at, over memory laid out as its profile says."""

import logging
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from soulslab.envs.live.env import DuelEnv, DuelSetup
from soulslab.envs.live.options import DuelOptions
from soulslab.envs.process_start import GameKeeper
from soulslab.envs.souls.entrance import GAMES, EntranceLimits, SoulsEntrance
from soulslab.envs.souls.scenario import scenario_of_facts
from soulslab.errors import MissingFactError, ResetFailedError
from soulslab.games import profile_path
from soulslab.games.boss_facts import load_boss_facts
from support.souls_world import SoulsSession

BOSSES = [("dark_souls_3", "iudex"), ("dark_souls_3", "vordt"), ("elden_ring", "margit")]
#: States that cannot be reached are given up sooner than a real game takes.
SHORT = EntranceLimits(title_s=5.0, load_s=8.0, death_s=8.0, press_s=1.0, fog_s=3.0, inside_s=5.0, boss_s=1.0)


class Souls:
    """An environment of a boss in its world.

    Attributes:
        session: With the world.
        env: The environment.
    """

    def __init__(self, game, boss, folder, arrange=None, limits=SHORT, **options):
        self.session = SoulsSession(game, boss, folder, arrange)
        facts = self.session.facts
        setup = DuelSetup(
            profile=self.session.profile,
            source=str(profile_path(Path(game))),
            scenario=scenario_of_facts(facts),
            keeper=GameKeeper(None, self.session),
            entrance=SoulsEntrance(facts, GAMES[game], limits=limits),
        )
        self.env = DuelEnv(setup, DuelOptions(**{"episodes": "in_place", "observation": "dict", **options}))

    @property
    def world(self):
        """The game."""
        return self.session.arena

    @property
    def log(self):
        """What the resets took."""
        return self.env.episode.log


@pytest.fixture
def make(tmp_path):
    """Return what makes environments, which are closed in the end."""
    made = []

    def make_one(game, boss, arrange=None, **options):
        made.append(Souls(game, boss, tmp_path, arrange, **options))
        return made[-1]

    yield make_one
    for one in made:
        one.env.close()


@pytest.mark.parametrize("episodes", ["in_place", "demo"])
@pytest.mark.parametrize(("game", "boss"), BOSSES)
def test_the_first_reset_leads_from_the_title_into_the_fight(make, game, boss, episodes):
    souls = make(game, boss, episodes=episodes)
    assert souls.world.at == "title"
    souls.env.reset(seed=1)
    assert souls.world.at == "fight"
    # Dark Souls III's flags of the encounter are not set in a new save, and count when the place loads.
    assert souls.world.n_loads == (1 if boss == "margit" else 2)
    assert souls.log.n_retries == 0
    observation, *_, info = souls.env.step(19)
    assert observation["boss_hp"] == souls.session.facts.max_hp
    assert info["action_mask"][19]
