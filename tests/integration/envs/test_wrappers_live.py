"""Wrappers that write to the game, tested with the real window and compared with the simulated fight."""

import gymnasium
import pytest

import soulslab  # noqa: F401 (registers the ids)
from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.envs.wrappers import Boundary, HealthRefund, SafeGround
from soulslab.testing.fake_arena import FakeArenaSession

BACKWARD = 4


def play(inner):
    """Return the refund, the number of teleports, and the position of the player for each step."""
    env = HealthRefund(SafeGround(inner, Boundary.circle((142.0, 594.0), 20.0)), keeps_alive=True)
    env.reset(seed=1)
    found = []
    for i in range(70):
        seen, *_, info = env.step(NOTHING if i % 3 else BACKWARD)
        found.append((info["refund"]["player_given"], info["ground"]["n_teleports"], *seen["player_pose"][:2].tolist()))
    env.close()
    return found


def test_refunds_and_teleports_are_the_same_in_the_window_and_the_simulated_fight():
    real = play(gymnasium.make("soulslab/ArenaLive-v0", observation="dict", renderer="software"))
    fake = play(ArenaLiveEnv(session=FakeArenaSession(), observation="dict"))
    assert max(step[0] for step in real) > 100.0
    assert real[-1][1] > 2
    for one, two in zip(real, fake, strict=True):
        assert one == pytest.approx(two, abs=0.02)
