"""Games of Debian with different toolkits and loops: their time is exact, and their episodes are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from soulslab.envs.verification import VerifySettings, verify_game
from soulslab.envs.verification_report import failures_of
from soulslab.siphon.profile import load_profile

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
#: SDL 1.2 with a variable frame rate, with SDL_Delay, and with SDL_Delay in short parts; GTK 2 with timers.
GAMES = ("kobodeluxe", "noiz2sa", "penguin-command", "spacezero")


@pytest.mark.parametrize("game", GAMES)
def test_the_time_of_the_game_is_exact(game):
    profile = load_profile(EXAMPLES / f"{game}.toml")
    found = verify_game(profile, VerifySettings(n_episodes=2, n_steps=150))
    assert failures_of(found) == []
    assert found.is_verified
    assert found.n_counted == 300
