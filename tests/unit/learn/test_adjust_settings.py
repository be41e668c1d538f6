"""Settings that change while a run trains: a listed few, within their bounds."""

import pytest

from soulslab.errors import ConfigError
from soulslab.learn.rainbow.rainbow_settings import RainbowEnvSettings, RainbowSettings
from soulslab.learn.settings import EnvSettings, TrainSettings, adjust_settings, reward_factors, scale_reward


def test_listed_settings_change():
    changed = adjust_settings(RainbowSettings(), {"learner.lr": 1e-5, "learner.epsilon_end": 0.5})
    assert (changed.learner.lr, changed.learner.epsilon_end) == (1e-5, 0.5)
    assert changed.network == RainbowSettings().network
    changed = adjust_settings(TrainSettings(), {"learner.lr_end": 1e-5, "learner.entropy": 0.5})
    assert (changed.learner.lr_end, changed.learner.entropy) == (1e-5, 0.5)
    assert changed.learner.lr == TrainSettings().learner.lr


def test_weights_of_the_reward_change():
    options = {"phase": "1", "reward": {"win": 10.0, "time": -0.5, "death": 0.0}}
    start = TrainSettings(env=EnvSettings(options=options))
    changed = adjust_settings(start, {"env.options.reward.win": 5, "env.options.reward.time": 0.0})
    assert changed.env.options == {"phase": "1", "reward": {"win": 5, "time": 0.0, "death": 0.0}}
    assert start.env.options == options
    factors = reward_factors(options, changed.env.options)
    assert factors == {"win": 0.5, "time": 0.0}
    assert scale_reward(options, factors) == changed.env.options
    assert scale_reward({"reward": "soulsgym"}, {}) == {"reward": "soulsgym"}
    assert reward_factors({"reward": {"win": 0.0}}, {"reward": {"win": 1.0}}) == {}


@pytest.mark.parametrize(
    ("reward", "name", "value", "message"),
    [
        ("soulsgym", "win", 1.0, "the reward of this run is 'soulsgym'; only a table"),
        ("<function bold>", "win", 1.0, "the reward of this run is '<function bold>'"),
        (None, "win", 1.0, "the default of the environment"),
        ({"win": 1.0}, "winn", 1.0, "has only win; did you mean 'win'"),
        ({"win": 0.0}, "win", 1.0, "was 0 at the start"),
        ({"win": 1.0}, "win", float("nan"), "must be a finite number, not nan"),
        ({"win": 1.0}, "win", "much", "must be a finite number, not 'much'"),
    ],
)
def test_other_weights_are_refused(reward, name, value, message):
    settings = RainbowSettings(env=RainbowEnvSettings(options={} if reward is None else {"reward": reward}))
    with pytest.raises(ConfigError, match=message):
        adjust_settings(settings, {f"env.options.reward.{name}": value})


@pytest.mark.parametrize("settings", [RainbowSettings(), TrainSettings()])
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("learner.gamma", 0.5, "cannot change while a run trains"),
        ("env.id", "other", "cannot change while a run trains"),
        ("learner.lr", -1.0, "Expected"),
        ("learner.lr", "fast", "Expected"),
        ("learner.other", 1.5, "cannot change while a run trains"),
    ],
)
def test_others_are_refused(settings, path, value, message):
    with pytest.raises(ConfigError, match=message) as caught:
        adjust_settings(settings, {path: value})
    assert path in str(caught.value)
