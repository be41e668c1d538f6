"""Fixtures: EldenGym's environment in a simulated world around the built-in fight, in Elden Ring's memory layout.

Resets pass the same states as in the real game: title, load, fog.
"""

import re

import pytest

from soulslab.compat import eldengym
from soulslab.games.facts import GAMES
from support.souls_world import SoulsSession


@pytest.fixture
def session(monkeypatch):
    # The reads of the self-check take most of the time of a reset in these tests.
    monkeypatch.setattr("soulslab.envs.game.session_holder.N_LOOKS", 2)
    with SoulsSession("elden_ring", "margit") as one:
        yield one


@pytest.fixture
def margit(session, tmp_path):
    """Return the fact file of Margit with the full health of the built-in boss."""
    file = tmp_path / "margit.toml"
    text = (GAMES / "elden_ring/bosses/margit.toml").read_text()
    file.write_text(re.sub(r"(?m)^max_hp = .*", f"max_hp = {session.facts.max_hp}", text))
    return file


@pytest.fixture
def make(session, margit):
    """Return a function that creates an environment with the session."""

    def make_one(name=margit, **options):
        return eldengym.make(name, session=session, **options)

    return make_one
