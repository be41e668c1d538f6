"""The entrance into the fight of a real game on a server."""

from pathlib import Path

import pytest

from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.tasks.duel.duel_env import DuelEnv, DuelSetup
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.duel_scenario import scenario_of_facts
from soulslab.envs.tasks.souls.souls_entrance import GAMES, SoulsEntrance
from soulslab.games import profile_path
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from support.souls_env import BOSSES, SHORT
from support.souls_world import SoulsSession


@pytest.mark.parametrize(("game", "boss"), BOSSES)
def test_resets_enter_the_fight_from_the_title_and_after_a_death(game, boss):
    opened = []

    def open_here():
        opened.append(SoulsSession(game, boss))
        return opened[-1]

    server = serve(open_here, ServerOptions(address="127.0.0.1:0"))
    try:
        session = connect(server.address, token=server.token)
        (here,) = opened
        setup = DuelSetup(
            profile=session.profile,
            source=str(profile_path(Path(game))),
            scenario=scenario_of_facts(here.facts),
            holder=SessionHolder(None, session),
            entrance=SoulsEntrance(here.facts, GAMES[game], limits=SHORT),
        )
        env = DuelEnv(setup, DuelOptions(episodes="demo", observation="dict"))
        assert here.arena.at == "title"
        env.reset(seed=1)
        assert here.arena.at == "fight"
        n_loads = here.arena.n_loads
        session.write({"player.hp": 0})
        *_, is_over, is_truncated, info = env.step(NOTHING)
        assert (is_over, is_truncated, info["fight"]["won"]) == (True, False, False)
        observation, _ = env.reset()
        assert here.arena.at == "fight"
        assert here.arena.n_loads == n_loads + 1
        assert observation["boss_hp"] == here.facts.max_hp
        env.close()
    finally:
        server.stop()
