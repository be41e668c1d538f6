"""Cloning: a network comes to agree with who showed it, also on fights that it was not shown."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from soulslab.errors import ReplayError
from soulslab.learn.demonstrations.reading import read_demonstrations
from soulslab.learn.environment import make_vector
from soulslab.learn.inputs import Inputs, PixelShape
from soulslab.learn.rainbow.behaviour_cloning import Cloner, clone, cloner_of, cloning_loss, cloning_weight
from soulslab.learn.rainbow.demonstration_learning import shown_replay
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import DemonstrationSettings, QNetworkSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import Outcome, StepShape
from soulslab.learn.settings import EnvSettings, ReplaySettings
from support.fights import ARENA, record_random, record_reference
from support.pixel_toys import SIZE_PX

SHAPE = StepShape(n_features=74, n_actions=20)
SETTINGS = DemonstrationSettings(cloning_lr=1e-3)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def read(folder, env_id="soulslab/Arena-v0", options=ARENA):
    env = make_vector(env_id, 1, options)
    return read_demonstrations(folder, env, EnvSettings(id=env_id, options=options), is_masked=True)


@pytest.fixture(scope="module")
def fights(tmp_path_factory):
    """Rows of eight fights to learn from, and of four to be asked about."""
    folder = tmp_path_factory.mktemp("shown")
    record_reference(folder / "shown", ARENA, 8)
    record_reference(folder / "held", ARENA, 4, seed=9)
    return read(folder / "shown"), read(folder / "held")


def new_policy(**changes):
    network = QNetworkSettings(widths=(64, 64), n_quantiles=4, **changes)
    header = QHeader(
        env_id="soulslab/Arena-v0",
        env_options=ARENA,
        n_features=74,
        n_actions=20,
        network=network,
        soulslab="",
        commit="",
    )
    return QPolicy(header, torch.Generator().manual_seed(1))


def agreement(policy, rows):
    """Share of the moments with a choice in which a policy would do what was shown."""
    steps = rows[rows["outcome"] != Outcome.FINAL]
    blocked = np.unpackbits(steps["blocked"], axis=1)[:, :20].astype(bool)
    chosen = policy.act(Inputs(np.ascontiguousarray(steps["features"])), ~blocked)
    has_choice = (~blocked).sum(axis=1) > 1
    return (chosen == steps["action"])[has_choice].mean()


@pytest.mark.parametrize("changes", [{}, {"is_dueling": False}])
def test_a_policy_comes_to_agree_on_fights_that_it_was_not_shown(fights, changes):
    shown, held = fights
    policy = new_policy(**changes)
    policy.observe(shown["features"])
    before = agreement(policy, held)
    cloner = cloner_of(policy, shown_replay(shown, SHAPE, ReplaySettings()), np.random.default_rng(0), SETTINGS)
    result = clone(cloner, 300)
    assert before < 0.5
    assert agreement(policy, held) > 0.75
    assert result.agreement > 0.75
    assert 0.0 <= result.loss < 1.0


def test_any_module_can_learn_from_pictures(tmp_path):
    record_random(tmp_path / "dots", "toys/Dot-v0", {"form": "dict"}, 6)
    rows = read(tmp_path / "dots", "toys/Dot-v0", {"form": "dict"})
    steps = rows["outcome"] != Outcome.FINAL
    # What is shown: 0 in the upper half of the picture, 1 in the lower.
    rows["action"] = rows["pixels"][:, : SIZE_PX // 2].reshape(len(rows), -1).max(axis=1) == 0
    shape = StepShape(n_features=1, n_actions=3, pixels=PixelShape(SIZE_PX, SIZE_PX, 1))
    replay = shown_replay(rows, shape, ReplaySettings())
    torch.manual_seed(0)
    module = nn.Linear(SIZE_PX * SIZE_PX, 3)

    def values(features, pixels):
        return module(pixels.flatten(1).float() / 255.0)

    cloner = Cloner(values, module.parameters(), replay, np.random.default_rng(0), SETTINGS)
    clone(cloner, 400)
    pictures = torch.from_numpy(np.ascontiguousarray(rows["pixels"][steps]))
    assert (values(None, pictures)[:, :2].argmax(1).numpy() == rows["action"][steps]).mean() > 0.95


def test_going_on_is_exact(fights):
    shown, _ = fights
    results = []
    for is_stopped in (False, True):
        policy, rng = new_policy(), np.random.default_rng(3)
        policy.observe(shown["features"])
        replay = shown_replay(shown, SHAPE, ReplaySettings())
        cloner = cloner_of(policy, replay, rng, SETTINGS)
        clone(cloner, 5)
        if is_stopped:
            other = new_policy()
            other.load_state(policy.state())
            state = cloner.state()
            policy, cloner = other, cloner_of(other, replay, rng, SETTINGS)
            cloner.load(state)
        for weight in (1.0, 0.5, 0.0):
            cloner.update(weight)
        results.append(policy.network.parameters_flat.clone())
    assert torch.equal(*results)


def test_cloning_fades(fights):
    shown, _ = fights
    settings = DemonstrationSettings(cloning_decisions=1000)
    assert [cloning_weight(settings, n) for n in (0, 250, 1000, 5000)] == [1.0, 0.75, 0.0, 0.0]
    policy = new_policy()
    before = policy.network.parameters_flat.clone()
    cloner = cloner_of(policy, shown_replay(shown, SHAPE, ReplaySettings()), np.random.default_rng(0), settings)
    cloner.update(0.0)
    assert torch.equal(policy.network.parameters_flat, before)


def test_nothing_shown():
    empty = ReplayBuffer(SHAPE, ReplaySettings(capacity=8), 1)
    with pytest.raises(ReplayError, match="nothing to draw yet"):
        cloner_of(new_policy(), empty, np.random.default_rng(0), SETTINGS).update()


values = st.lists(st.floats(-5.0, 5.0, width=32), min_size=4, max_size=4)


@given(values=values, action=st.integers(0, 3), blocked=st.sets(st.integers(0, 3)), temperature=st.floats(0.1, 2.0))
def test_the_loss_is_the_formula(values, action, blocked, temperature):
    open_actions = {0, 1, 2, 3} - blocked | {action}
    loss = cloning_loss(
        torch.tensor([values]),
        torch.tensor([[action]]),
        torch.tensor([[a not in open_actions for a in range(4)]]),
        temperature,
    )
    shares = {a: np.exp((values[a] - max(values)) / temperature) for a in open_actions}
    if shares[action] > 1e-30:
        assert float(loss) == pytest.approx(-np.log(shares[action] / sum(shares.values())), abs=1e-3)
    assert float(loss) >= 0.0
