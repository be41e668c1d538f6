"""An environment of a boss of a real game, with a simulated world around the fight."""

from pathlib import Path

import msgspec

from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.tasks.duel.duel_env import DuelEnv, DuelSetup
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.duel_scenario import scenario_of_facts
from soulslab.envs.tasks.souls.entrance_states import EntranceLimits
from soulslab.envs.tasks.souls.souls_entrance import GAMES, CharacterSettings, SoulsEntrance
from soulslab.games import profile_path
from support.souls_world import SoulsSession

BOSSES = [("dark_souls_3", "iudex"), ("dark_souls_3", "vordt"), ("elden_ring", "margit")]
#: Shorter limits than for a real game, so that failures take less time.
SHORT = EntranceLimits(title_s=5.0, load_s=8.0, death_s=8.0, press_s=1.0, fog_s=3.0, inside_s=5.0, boss_s=1.0)


class Souls:
    """An environment of a boss in its simulated world.

    Args:
        game: ``dark_souls_3`` or ``elden_ring``.
        boss: Name of the boss.
        arrange: Called with the world at each start of the game, to cause faults.
        reload_minutes: See `SoulsEntrance`.
        character: Settings of `CharacterSettings` that are not the defaults.
        of_session: Further arguments of `SoulsSession`.
        expected: Facts of the boss that differ from those in the world.
        options: Options of the environment.

    Attributes:
        session: Session with the world.
        game: Interface of the game.
        env: The environment.
    """

    def __init__(
        self,
        game,
        boss,
        arrange=None,
        *,
        reload_minutes=None,
        character=None,
        expected=None,
        of_session=None,
        **options,
    ):
        self.session = SoulsSession(game, boss, arrange, **(of_session or {}))
        facts = msgspec.structs.replace(self.session.facts, **(expected or {}))
        setup = DuelSetup(
            profile=self.session.profile,
            source=str(profile_path(Path(game))),
            scenario=scenario_of_facts(facts),
            holder=SessionHolder(None, self.session),
            entrance=SoulsEntrance(
                facts,
                GAMES[game],
                reload_minutes=reload_minutes,
                limits=SHORT,
                character=CharacterSettings(**(character or {})),
            ),
        )
        self.game = GAMES[game](self.session)
        self.env = DuelEnv(setup, DuelOptions(**{"episodes": "in_place", "observation": "dict", **options}))

    @property
    def world(self):
        """The game."""
        return self.session.arena

    @property
    def duel(self):
        """The record of the fight."""
        return self.session.arena.fight.duel

    @property
    def log(self):
        """The log of the resets."""
        return self.env.episode.log

    def keys_down(self):
        """Return the buttons that were pressed since the start of the game."""
        world = self.session.arena
        names = {key: name for name, key in self.session.profile.keys.items()}
        return [names[key] for key, is_press in world.input.events if is_press]

    def check_fight(self):
        """Check that the episode has begun in a complete fight, and can be played."""
        assert self.world.at == "fight"
        assert (self.duel.b_hp, self.duel.phase) == (self.session.facts.max_hp, 1)
        observation, *_, info = self.env.step(NOTHING)
        assert observation["boss_hp"] == self.session.facts.max_hp
        assert info["action_mask"][NOTHING]
