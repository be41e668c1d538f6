"""The check that each key has an effect, before the first episode."""

import numpy as np
import pytest

from soulslab.arena.live_fight import BUTTONS
from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.tasks.duel.key_check import BUDGET_S, check_keys
from soulslab.errors import EnvironmentUsageError
from support.live_env import live_env


def bind(arena, **keys):
    """Bind the keys of a game differently from its profile."""
    own = {name: key for key, name in arena._buttons.items()} | keys
    arena._buttons = {key: name for name, key in own.items()}


def checked(keys=None, **options):
    """Return an environment that checks its keys, with a game whose bindings may differ."""
    env = live_env(check_keys=True, **options)
    fights = env.fights

    def open_game(_):
        session = fights()
        bind(session.arena, **(keys or {}))
        return session

    env.game.holder._factory = open_game
    return env


@pytest.mark.parametrize("episodes", ["demo", "in_place"])
def test_correct_keys_are_checked_once_without_effect_on_the_episode(episodes):
    env, plain = checked(episodes=episodes, random_pose=True), live_env(episodes=episodes, random_pose=True)
    ours, theirs = env.reset(seed=5)[0], plain.reset(seed=5)[0]
    if episodes == "demo":
        np.testing.assert_array_equal(ours, theirs)
    events = env.fights.arena.input.events
    pressed = {key for key, is_press in events if is_press}
    assert {env.profile.keys[button] for button in BUTTONS} <= pressed
    n = len(events)
    env.step(NOTHING)
    env.reset()
    later = {key for key, is_press in events[n:] if is_press}
    assert not later & {env.profile.keys[button] for button in BUTTONS}


@pytest.mark.parametrize("episodes", ["demo", "in_place"])
@pytest.mark.parametrize(
    ("button", "key"),
    [("forward", "Z"), ("left", "F1"), ("roll", "ENTER"), ("light_attack", "X"), ("parry", "TAB")],
)
def test_the_error_names_a_key_with_another_binding(button, key, episodes):
    env = checked({button: key}, episodes=episodes)
    own = env.profile.keys[button]
    with pytest.raises(EnvironmentUsageError) as caught:
        env.reset(seed=5)
    assert f"keys without an effect in the game: {button} (key {own}). Bind them" in str(caught.value)
    assert "check_keys=False" in str(caught.value)
    # The check is repeated until the keys are correct.
    bind(env.fights.arena, **{button: own})
    env.reset(seed=5)
    env.step(NOTHING)


def test_a_game_that_receives_no_key_has_its_own_error():
    env = checked()
    arena = env.session.arena
    arena.is_deaf = True
    with pytest.raises(EnvironmentUsageError, match="no key has an effect in the game: forward"):
        env.reset()


@pytest.mark.parametrize("is_deaf", [False, True])
def test_the_check_takes_at_most_ten_seconds_of_game_time(is_deaf, monkeypatch):
    env = checked()
    arena = env.session.arena
    arena.is_deaf = is_deaf
    ticks = []

    def timed(*args):
        before = arena.fight.n_ticks
        try:
            check_keys(*args)
        finally:
            ticks.append(arena.fight.n_ticks - before)

    monkeypatch.setattr("soulslab.envs.tasks.duel.duel_task.check_keys", timed)
    if is_deaf:
        with pytest.raises(EnvironmentUsageError):
            env.reset(seed=1)
    else:
        env.reset(seed=1)
    assert 60 < ticks[0] <= BUDGET_S * 60


def test_only_the_keys_of_the_actions_are_checked():
    env = checked({"parry": "X", "left": "Y"}, actions=["nothing", "forward", "light_attack"])
    env.reset(seed=5)
    pressed = {key for key, is_press in env.fights.arena.input.events if is_press}
    assert env.profile.keys["parry"] not in pressed


def test_the_check_can_be_turned_off():
    env = live_env()
    env.session.arena.is_deaf = True
    env.reset()
    env.step(NOTHING)
