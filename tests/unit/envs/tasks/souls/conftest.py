"""Fixtures for tests of bosses of real games."""

import pytest

from support.souls_env import Souls


@pytest.fixture
def make(monkeypatch):
    """Return a function that creates environments, which are closed at the end of the test."""
    # The game with a scaled clock advances with each read, not with wall time.
    monkeypatch.setattr("soulslab.envs.game.session_holder.SPAN_S", 0.04)
    # The reads of the self-check take most of the time of a reset in these tests.
    monkeypatch.setattr("soulslab.envs.game.session_holder.N_LOOKS", 2)
    made = []

    def make_one(game, boss, arrange=None, **options):
        made.append(Souls(game, boss, arrange, **options))
        return made[-1]

    yield make_one
    for one in made:
        one.env.close()
