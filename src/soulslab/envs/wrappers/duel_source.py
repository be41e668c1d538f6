"""Where wrappers see the duel: behind the observation, so that they work over any observation and in any order.

A wrapper that took its facts from the observation would break as soon as another one scaled, stacked or flattened it.
These read the duel's record from the environment itself and leave the observation to the agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

import gymnasium
import numpy as np

from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.features import write_state
from soulslab.arena.records import REWARD_TERMS, Record
from soulslab.envs.arena import ArenaEnv
from soulslab.errors import EnvironmentUsageError

_NEEDS_DUEL = "soulslab/Arena-v0, soulslab/ArenaLive-v0, or an environment with duel_state and reward_quantities"
_NEEDS_GAME = "a running game whose memory can be written (soulslab/ArenaLive-v0)"


class ShowsDuel(Protocol):
    """What an environment has to show of its duel so that wrappers can stand on it."""

    @property
    def duel_state(self) -> Record:
        """`DUEL_STATE` record behind the last observation; not to be changed, and overwritten by the next step."""
        ...

    @property
    def reward_quantities(self) -> Mapping[str, float]:
        """Quantity of each reward term in the last step, before weights (`soulslab.envs.rewards`)."""
        ...


class KnowsQuantities(Protocol):
    """A game that is read by quantity; `soulslab.envs.live.duel_game.DuelGame` is one."""

    def has(self, *quantities: str) -> bool:
        """Tell whether all of these are known of the game."""
        ...

    def read(self, *quantities: str) -> dict[str, Any]:
        """Read quantities together."""
        ...


class WritesQuantities(Protocol):
    """What an environment has to offer so that wrappers can change its game."""

    @property
    def game(self) -> KnowsQuantities:
        """The game; it can be used from the first reset on."""
        ...

    def write_quantities(self, values: Mapping[str, Any]) -> None:
        """Write to the game, and take what was written for given.

        Without the latter, the environment would take the change for something that the fight did: health that was
        given back for damage undone, a teleport for a walk.
        """
        ...


class _ArenaDuel:
    """The duel of ``soulslab/Arena-v0``, taken from its simulator.

    A view that can be read, not written: nothing but the rules moves a simulated fight.
    """

    def __init__(self, env: ArenaEnv) -> None:
        self._simulator = env.simulator
        self._record = np.zeros(1, DUEL_STATE)

    @property
    def duel_state(self) -> Record:
        state: Record = self._record[0]
        write_state(self._simulator.duels[0], self._simulator.fight[0], state)
        return state

    @property
    def reward_quantities(self) -> Mapping[str, float]:
        return dict(zip(REWARD_TERMS, self._simulator.results[0].terms.tolist(), strict=True))


def duel_of(env: gymnasium.Env[Any, Any], wrapper: str) -> ShowsDuel:
    """Return the duel behind an environment.

    Args:
        env: Wrapped or not.
        wrapper: Who asks, for the error.

    Raises:
        EnvironmentUsageError: It has none.
    """
    inner = env.unwrapped
    if isinstance(inner, ArenaEnv):
        return _ArenaDuel(inner)
    # By the type: to ask an environment for its duel may mean to look for one.
    if hasattr(type(inner), "duel_state"):
        return cast("ShowsDuel", inner)
    raise EnvironmentUsageError(f"{wrapper} needs a boss duel: {_NEEDS_DUEL}; {type(inner).__name__} is none")


def game_of(env: gymnasium.Env[Any, Any], wrapper: str) -> WritesQuantities:
    """Return the environment whose game can be written.

    Args:
        env: Wrapped or not.
        wrapper: Who asks, for the error.

    Raises:
        EnvironmentUsageError: Nothing can be written there.
    """
    inner = env.unwrapped
    # By the type: to ask an environment for its game may start it.
    if isinstance(inner, ArenaEnv) or not hasattr(type(inner), "write_quantities"):
        raise EnvironmentUsageError(f"{wrapper} needs {_NEEDS_GAME}; {type(inner).__name__} has none")
    return cast("WritesQuantities", inner)


def check_knows(env: WritesQuantities, wrapper: str, *quantities: str) -> None:
    """Raise `EnvironmentUsageError` if the game's profile does not say where these quantities are."""
    missing = [name for name in quantities if not env.game.has(name)]
    if missing:
        raise EnvironmentUsageError(
            f"{wrapper} needs {', '.join(missing)}, which the game's profile does not have; add it to [duel.attributes]"
        )
