"""Settings that change while a run trains: a listed few, within their bounds."""

import pytest

from soulslab.errors import ConfigError
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import TrainSettings, adjust_settings


def test_listed_settings_change():
    changed = adjust_settings(RainbowSettings(), {"learner.lr": 1e-5, "learner.epsilon_end": 0.5})
    assert (changed.learner.lr, changed.learner.epsilon_end) == (1e-5, 0.5)
    assert changed.network == RainbowSettings().network
    changed = adjust_settings(TrainSettings(), {"learner.lr_end": 1e-5, "learner.entropy": 0.5})
    assert (changed.learner.lr_end, changed.learner.entropy) == (1e-5, 0.5)
    assert changed.learner.lr == TrainSettings().learner.lr


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
