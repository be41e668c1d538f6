"""`GameEnv` with every task, over fake games."""

import pytest

from soulslab.testing.game_env_contract import GameEnvContract
from support.live_env import live_env
from support.souls_env import Souls
from support.toy_env import toy_env


class TestProcess(GameEnvContract):
    @pytest.fixture
    def make_env(self):
        def make(**options):
            return toy_env(options=options)

        return make

    @pytest.fixture
    def break_game(self):
        return lambda env: setattr(env.session.toy, "is_alive", False)


class TestDuel(GameEnvContract):
    @pytest.fixture(params=["demo", "in_place"])
    def make_env(self, request):
        return lambda **options: live_env(episodes=request.param, **options)

    @pytest.fixture
    def break_game(self):
        return lambda env: setattr(env.session.arena, "is_alive", False)


class TestPixelsOfADuel(TestDuel):
    @pytest.fixture
    def make_env(self):
        return lambda **options: live_env(observation="pixels+features", skip_locked=True, **options)


class TestSouls(GameEnvContract):
    @pytest.fixture(params=[("dark_souls_3", "iudex"), ("elden_ring", "margit")], ids=lambda one: one[1])
    def make_env(self, request, monkeypatch):
        monkeypatch.setattr("soulslab.envs.game.session_holder.N_LOOKS", 2)
        worlds = []

        def make(**options):
            worlds.append(Souls(*request.param, **options))
            return worlds[-1].env

        yield make
        for world in worlds:
            world.session.close()

    @pytest.fixture
    def break_game(self):
        return lambda env: setattr(env.session.arena, "is_alive", False)
