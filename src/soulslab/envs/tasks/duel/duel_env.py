"""A boss duel in a running game as a Gymnasium environment, given a session, a profile and a scenario."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec
from gymnasium.vector import AutoresetMode

from soulslab.arena.records import SITUATIONS, Record
from soulslab.envs.arguments import step_options_of
from soulslab.envs.game.game_env import GameEnv, GameEnvSettings, Info
from soulslab.envs.game.session_holder import AttributeGate, SessionHolder
from soulslab.envs.game.timing import LockstepTiming, RealtimeTiming
from soulslab.envs.game.vector_env import GameVectorEnv
from soulslab.envs.registration import ARENA_ID
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.duel_task import DuelTask
from soulslab.envs.tasks.duel.entrance import Entrance
from soulslab.envs.tasks.duel.episode import DemoEpisode, Episode, InPlaceEpisode, ObservedEpisode
from soulslab.envs.time_limit import OuterTimeLimits
from soulslab.errors import SiphonError
from soulslab.games.self_check import needed_by
from soulslab.siphon.profile import Profile


class DuelSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The game and the boss of a `DuelEnv`.

    Attributes:
        entrance: Brings the game to a fight; None for a game that begins its fights by itself. After each start of the
            game it checks the attributes that were not loaded when the session was opened.
        is_read_only: Whether the game is observed and not played.
    """

    profile: Profile
    source: str
    scenario: Scenario
    holder: SessionHolder
    entrance: Entrance | None = None
    is_read_only: bool = False

    def make_game(self, step_deadline_s: float) -> DuelGame:
        """Return the access to the game by quantity."""
        game = DuelGame(self.holder, self.profile, self.source, self.scenario.frame)
        game.step_deadline_s = step_deadline_s
        return game

    def make_gate(self, *attributes: str) -> AttributeGate:
        """Return the check of each new session: of `attributes`, and of the attributes that a duel needs."""
        return AttributeGate((*needed_by(self.profile), *attributes), may_be_loading=self.entrance is not None)


class DuelEnv(GameEnv):
    """A boss duel in a running game (`GameEnv`).

    Spaces, features, masks, rewards and the report of a fight are those of ``soulslab/Arena-v0``. A decision is one
    `Session.step`: changed keys, game time, one reading, one picture. In addition to the entries of `GameEnv`,
    ``info`` contains ``n_decisions`` (of the step, 0 after a reset), ``n_masked``, ``reward_terms`` and, where the game
    counts them, ``ticks``, in lockstep also ``ticks_lost`` and ``ticks_doubled`` of the episode so far; after the last
    step ``fight``, also if Gymnasium's `TimeLimit` truncates the episode, but not after a failure.

    ``reset(seed=...)`` repeats a fight if the game accepts a seed. The first reset raises `EnvironmentUsageError` if
    the game fights another boss, or if a key has no effect (`DuelOptions.check_keys`).

    Args:
        setup: The game and the boss.
        options: Options of the duel.
        render_mode: None, ``"rgb_array"`` (the game's window), or ``"human"`` (its window is on the user's screen).

    Attributes:
        game: Access to the game by quantity; it can be used from the first reset on.
        episode: Begins and ends episodes; its ``log`` counts resets and their retries.
        attack_names: Names of the boss's attacks (``damage_by_attack`` and ``killed_by`` count by them).
        situation_names: Names of the situations of ``actions_by_situation``.
        feature_names: Names of the features, in their order; empty for observations without features.
        action_names: Names of the actions, or of the buttons.

    Raises:
        EnvironmentUsageError: An option is wrong.
        ProfileError: The profile lacks a quantity of a duel.
    """

    # Policies that were trained in the simulator can be used, for example against a fitted boss.
    metadata = {  # noqa: RUF012
        **GameEnv.metadata,
        "step_options": step_options_of(DuelOptions()),
        "policies_of": (ARENA_ID,),
    }

    def __init__(self, setup: DuelSetup, options: DuelOptions, render_mode: str | None = None) -> None:
        self.profile, self.scenario, self.options = setup.profile, setup.scenario, options
        self.game = setup.make_game(options.step_deadline_s)
        self.episode = make_episode(options, setup)
        setup.holder.check = setup.make_gate()
        self._duel = DuelTask(self.game, setup.scenario, self.episode, options, is_read_only=setup.is_read_only)
        self.action_names = self._duel.actions.names
        self.attack_names = self._duel.score.attack_names
        self.situation_names = SITUATIONS
        self.feature_names = self._duel.observation_builder.feature_names
        times = msgspec.structs.replace(options.times, is_paced=render_mode == "human")
        settings = GameEnvSettings(
            render_fps=times.speed / times.step_s,
            reset_deadline_s=options.reset_deadline_s,
            max_steps=options.max_episode_steps,
            on_failure=options.on_failure,
        )
        timing = LockstepTiming(times) if options.timing == "lockstep" else RealtimeTiming(times)
        super().__init__(setup.holder, self._duel, timing, settings, render_mode)
        self._time_limits = OuterTimeLimits()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """See `GameEnv.reset`."""
        self._time_limits.find(self)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """See `GameEnv.step`."""
        observation, reward, terminated, truncated, info = super().step(action)
        if not (terminated or truncated) and self._time_limits.end_with_this_step():
            info["fight"] = self.fight_report()
        return observation, reward, terminated, truncated, info

    @property
    def duel_state(self) -> Record:
        """`DUEL_STATE` record of the last observation; do not change it. The next step overwrites it."""
        return self._duel.record

    def scene(self, place: int) -> dict[str, bytes]:  # noqa: ARG002 (one game has one place)
        """Return what `soulslab.dashboard` shows beside the picture: the record of the last observation."""
        return {"state": self._duel.record.tobytes()}

    @property
    def reward_quantities(self) -> dict[str, float]:
        """Quantity of each reward term in the last step, before weights (`soulslab.envs.rewards`)."""
        return self._duel.score.quantities

    def fight_report(self) -> Info:
        """Return ``info["fight"]`` as if the fight were lost now. Raises `NotResetError` before the first reset."""
        self._require_episode("fight_report")
        return self._duel.score.report(is_won=False)

    def empty_fight_report(self) -> Info:
        """Return the report of a fight without decisions, with the keys and types of ``info["fight"]``."""
        return self._duel.score.empty_report()

    def write_quantities(self, values: Mapping[str, Any]) -> None:
        """Write to the game between two steps; the reward of the next step does not count the change.

        Raises `SiphonError` if the write failed; `reset` then recovers the game.
        """
        with self._recovering():
            self._duel.write_quantities(values)

    def restore_player(self) -> None:
        """Restore the player's health between two steps; the reward of the next step does not count the change.

        So a recording shows the whole fight. Raises `SiphonError` if the write failed; `reset` then recovers the game.
        """
        with self._recovering():
            self._duel.restore_player()

    @contextmanager
    def _recovering(self) -> Iterator[None]:
        """Make the next reset recover the game after a `SiphonError`."""
        try:
            yield
        except SiphonError:
            self._is_ready = False
            raise


def make_episode(options: DuelOptions, setup: DuelSetup) -> Episode:
    """Return the object that begins and ends the episodes of an environment."""
    if setup.is_read_only:
        return ObservedEpisode(setup.scenario, options)
    if options.episodes == "demo":
        return DemoEpisode(setup.scenario, options, setup.entrance)
    return InPlaceEpisode(setup.scenario, options, setup.entrance)


class DuelVectorEnv(GameVectorEnv):
    """N duels in N games (`GameVectorEnv` of `DuelEnv`).

    At most as many games start at the same time as the machine has cores. A game that is reset in place loads nothing
    and does not wait. `attack_names`, `situation_names` and `feature_names` are those of
    `DuelEnv`.
    """

    single: ClassVar[Callable[..., DuelEnv]]
    envs: Sequence[DuelEnv]

    def __init__(
        self,
        num_envs: int = 1,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(num_envs, autoreset_mode, copy, render_mode, **options)
        self.attack_names = self.envs[0].attack_names
        self.situation_names = SITUATIONS
        self.feature_names = self.envs[0].feature_names
        gate = threading.BoundedSemaphore(os.cpu_count() or 1)
        for env in self.envs:
            env.holder.gate = gate
