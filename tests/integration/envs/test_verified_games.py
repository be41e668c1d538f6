"""Games of Debian with different toolkits and loops: their time is exact, and their episodes are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from soulslab.envs.verification import VerifySettings, verify_game
from soulslab.envs.verification_report import failures_of
from soulslab.siphon.profile import load_profile

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
#: Profile and ticks of a step. SDL 1.2 with a variable frame rate, and with SDL_Delay in short parts; Allegro 4, where
#: the X server reads the pictures from memory that the game goes on to draw into; GTK 2 with timers.
GAMES = (("kobodeluxe", 1), ("alex4", 4), ("supertransball2", 1), ("spacezero", 1))


@pytest.mark.parametrize(("game", "step_ticks"), GAMES)
def test_the_time_of_the_game_is_exact(game, step_ticks):
    profile = load_profile(EXAMPLES / f"{game}.toml")
    found = verify_game(profile, VerifySettings(n_episodes=2, n_steps=150, step_ticks=step_ticks))
    assert failures_of(found) == []
    assert found.is_verified
    assert found.n_counted == 300
    assert 0.0 < found.processor_s < 2 / found.steps_per_s  # the game and the X server on a processor each
