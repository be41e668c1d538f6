"""The ablation: variants without one component, and the verdicts on them."""

import pytest
from msgspec.structs import replace

from benchmarks.ablation import NOTHING, AblationSettings, difference, measure_ablation, verdict, without
from benchmarks.learner_tables import Mean
from soulslab.errors import ConfigError
from soulslab.learn.inputs import ExtraInputs
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, QNetworkSettings, RainbowSettings
from soulslab.learn.settings import EnvSettings, ReplaySettings

BARE = RainbowSettings(
    learner=QLearningSettings(
        is_double=False,
        is_target_masked=False,
        n_steps=1,
        gamma=0.99,
        updates_per_step=1.0,
        target_tau=1.0,
        average_tau=1.0,
    ),
    replay=ReplaySettings(alpha=0.0),
    network=QNetworkSettings(is_dueling=False, n_quantiles=1, has_layer_norm=False),
)
FULL = RainbowSettings(
    learner=QLearningSettings(weight_decay=0.01),
    inputs=ExtraInputs(previous_actions=2, time_left_decisions=100),
)


def test_each_variant_removes_one_component():
    variants = without(FULL)
    assert len(variants) == 13  # all but Munchausen, which has no bootstrap to choose for
    for variant in variants.values():
        parts = ("env", "learner", "replay", "network", "inputs", "demonstrations", "run")
        assert sum(getattr(variant, part) != getattr(FULL, part) for part in parts) == 1
        assert variant.env == FULL.env
    assert len({str(variant) for variant in variants.values()}) == 13
    assert variants["the soft target network"].learner.target_every == 200
    assert variants["several steps"].learner.n_steps == 1
    assert without(BARE) == {}


def test_munchausen_has_no_variant_without_double_learning():
    variants = without(replace(FULL, learner=replace(FULL.learner, munchausen=0.9)))
    assert "double" not in variants
    assert variants["Munchausen"].learner.munchausen == 0.0


def test_removing_all_components_leaves_the_bare_learner():
    """Dropping all components one after another leaves the bare learner."""
    config = FULL
    while variants := without(config):
        config = next(iter(variants.values()))
    assert without(config) == {}
    assert config.network == BARE.network
    assert config.inputs == ExtraInputs()


def test_differences_have_t_intervals(stats):
    a, b = [60.0, 70.0, 62.0], [50.0, 58.0, 51.0]
    found = difference(a, b)
    interval = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert found.mean == pytest.approx(11.0)
    assert found.margin == pytest.approx((interval.high - interval.low) / 2, rel=1e-3)
    assert difference([1.0], [2.0]) == (-1.0, None)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (Mean(5.0, 4.0), "earns its place"),
        (Mean(5.0, 6.0), "unclear"),
        (Mean(-5.0, 4.0), "does harm"),
        (Mean(5.0, None), None),
    ],
)
def test_verdicts(loss, said):
    assert verdict(loss) == said


@pytest.mark.long
def test_measures_some_components(tmp_path):
    env = EnvSettings(n_envs=1, options={"skip_locked": True})
    config = replace(BARE, env=env, learner=replace(BARE.learner, is_double=True, weight_decay=0.01))
    settings = replace(AblationSettings(config=config, components=("weight decay",)).quick(), folder=tmp_path)
    table, decisions, runs = measure_ablation(settings)
    assert [row["without"] for row in table.rows] == [NOTHING, "weight decay"]
    assert [row["verdict"] for row in table.rows] == [None, None]  # one seed says nothing
    assert len(decisions.rows) == len(runs.rows) == 2


def test_an_unknown_component_is_an_error():
    env = EnvSettings(n_envs=1)
    settings = AblationSettings(config=replace(FULL, env=env), components=("dueling", "priority"))
    with pytest.raises(ConfigError, match=r"no component 'priority'; the config has 'double', 'dueling'"):
        measure_ablation(settings)
