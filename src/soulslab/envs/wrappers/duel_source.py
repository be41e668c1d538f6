"""Access of wrappers to the duel and the game of the unwrapped environment, so that they work in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import gymnasium

from soulslab.arena.records import Record
from soulslab.errors import EnvironmentUsageError

if TYPE_CHECKING:
    from soulslab.envs.tasks.duel.duel_game import DuelGame

Wrapper: TypeAlias = gymnasium.Wrapper[Any, Any, Any, Any]
Env: TypeAlias = gymnasium.Env[Any, Any]

FIGHTERS = ("player", "boss")

_NEEDS_DUEL = "soulslab/Arena-v0, soulslab/ArenaLive-v0, or an environment with duel_state and reward_quantities"
_NEEDS_GAME = "a running game whose memory can be written (soulslab/ArenaLive-v0)"


class ShowsDuel(Protocol):
    """Interface of an environment that the wrappers for duels can wrap."""

    @property
    def duel_state(self) -> Record:
        """`DUEL_STATE` record of the last observation. Do not change it; the next step overwrites it."""
        ...

    @property
    def reward_quantities(self) -> Mapping[str, float]:
        """Quantity of each reward term in the last step, without weights (see `soulslab.envs.rewards`)."""
        ...


class WritesQuantities(Protocol):
    """Interface of an environment whose running game wrappers can change."""

    @property
    def game(self) -> DuelGame:
        """The game; available after the first reset."""
        ...

    def write_quantities(self, values: Mapping[str, Any]) -> None:
        """Write quantities to the game, and to the environment's record of its last state.

        So the next step does not count the change as an effect of the fight, such as healing or walking.
        """
        ...


def duel_of(env: Env, wrapper: str) -> ShowsDuel:
    """Return the duel of an environment, which may be wrapped; raise `EnvironmentUsageError` if it has none."""
    inner = env.unwrapped
    # Ask the type, not the instance: the property of an instance may fail before the first reset.
    if hasattr(type(inner), "duel_state"):
        return cast("ShowsDuel", inner)
    raise EnvironmentUsageError(f"{wrapper} needs a boss duel: {_NEEDS_DUEL}; {type(inner).__name__} has no duel")


def game_of(env: Env, wrapper: str) -> WritesQuantities:
    """Return the unwrapped environment; raise `EnvironmentUsageError` if its game cannot be written."""
    inner = env.unwrapped
    if not hasattr(type(inner), "write_quantities"):
        raise EnvironmentUsageError(f"{wrapper} needs {_NEEDS_GAME}; {type(inner).__name__} has none")
    return cast("WritesQuantities", inner)


def check_knows(env: WritesQuantities, wrapper: str, *quantities: str) -> None:
    """Raise `EnvironmentUsageError` if the game's profile lacks one of these quantities."""
    missing = [name for name in quantities if not env.game.has(name)]
    if missing:
        raise EnvironmentUsageError(
            f"{wrapper} needs {', '.join(missing)}, which the game's profile does not have; add it to [duel.attributes]"
        )
