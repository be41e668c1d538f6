"""Verification of games of Debian with different toolkits and loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from soulslab.envs.verification import VerifySettings, verify_game
from soulslab.envs.verification_report import failures_of
from soulslab.siphon.profile import load_profile
from support.long_form import IS_LONG

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
#: Profile, ticks of a step, and the actions without an effect at the start of an episode. The loops are: SDL 1.2 with
#: SDL_Delay in short parts; Allegro 4, which continues to draw into memory that the X server reads; GTK 2 with timers;
#: SDL 1.2 with a variable frame rate.
#: In the short form, `test_clock_boundary.py` and the tests of Doom have loops of SDL.
GAMES = (
    pytest.param("supertransball2", 1, set(), marks=pytest.mark.long),
    ("alex4", 4, {"down", "shoot"}),
    ("spacezero", 1, set()),
    pytest.param("kobodeluxe", 1, {"up"}, marks=pytest.mark.long),
)
N_STEPS = 150 if IS_LONG else 60


@pytest.mark.parametrize(("game", "step_ticks", "without_effect"), GAMES)
def test_the_time_of_the_game_is_exact(game, step_ticks, without_effect):
    profile = load_profile(EXAMPLES / f"{game}.toml")
    found = verify_game(profile, VerifySettings(n_episodes=2, n_steps=N_STEPS, step_ticks=step_ticks))
    assert failures_of(found) == []
    assert found.is_verified
    assert found.without_effect.keys() == without_effect
    assert found.n_counted == 2 * N_STEPS
    assert 0.0 < found.processor_s < 2 / found.steps_per_s  # the game and the X server use one processor each
