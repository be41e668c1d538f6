"""Options of an environment that plays a boss duel in a running game."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from soulslab.arena.state import DECISION_S, MAX_DECISIONS, PHASES
from soulslab.envs.arguments import refuse_unknown_options
from soulslab.envs.live.actions import ACTION_MODES, Actions
from soulslab.envs.live.observation import OBSERVATIONS
from soulslab.envs.live.timing import TIMINGS, TimingOptions
from soulslab.envs.process_settings import ON_FAILURE, Pixels
from soulslab.envs.rewards import check_reward_function, reward_weights
from soulslab.errors import EnvironmentUsageError, did_you_mean

EPISODES = ("demo", "in_place")
_MAX_LAST_ACTIONS = 100
_Options = TypeVar("_Options", bound="DuelOptions")


class DuelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of any duel in a running game, as given to ``gymnasium.make``.

    Attributes:
        phase: ``"1"``, ``"2"`` or ``"full"``.
        reward: A preset, a table of terms and weights, or a function (see `soulslab.envs.rewards`).
        random_pose: Draw the player's start from the poses of the place, where there are any. A real game that is not
            played in place begins where it does.
        read_only: Observe a fight that a person or another program plays: no write, no key, no control of time, no
            restart. A reset waits for a fight, a decision waits for its length in wall time, and the only action is
            "nothing". The game has to run already; `episodes` and seeds have no effect.
        observation: ``"features"`` (74 numbers), ``"relative"`` (73 numbers in the player's own frame), ``"dict"`` (the
            15 `DuelState` fields with SoulsGym's spaces), ``"boxes"`` (the same fields as float32 Boxes), ``"pixels"``,
            ``"pixels+state"`` (the fields of ``"dict"`` and ``pixels``) or ``"pixels+features"``.
        pixels: Picture, as ``{"width_px": 84, "height_px": 84, "is_grey": False}``.
        skip_locked: Step on while "nothing" is the only open action; rewards add up.
        action_mode: ``"discrete"`` (the 20 actions), ``"multi_binary"`` or ``"continuous"`` (the 8 buttons).
        actions: Names of the actions of ``"discrete"``, in this order; all 20 without.
        threshold: A button of ``"continuous"`` is down from here on, above 0 to 1.
        n_last_actions: So many of the last actions are part of the observation, the newest first.
        timing: ``"lockstep"`` (the game stands while the agent thinks) or ``"realtime"`` (it runs on).
        step_ms: Game time of a decision.
        game_speed: Game seconds per wall second, where the game runs freely (``"realtime"``, or for an onlooker), and
            in lockstep where the game's own speed is what steps it (``info["clock"]`` is ``"scaled"``).
        latency_ms: Game time from a look to the keys that come of it, beside what the agent takes.
        episodes: ``"demo"`` (changes nothing in the game, fights to the end) or ``"in_place"`` (the game never ends a
            fight by itself; health is counted by the environment).
        max_episode_steps: Steps until truncation, as Gymnasium counts them: with `skip_locked` a step may take several
            decisions. None for 300 s of game time, which are the 3000 decisions of ``soulslab/Arena-v0``.
            `gymnasium.make` keeps an argument of this name for its own `TimeLimit`, which does the same.
        hard_reset_minutes: The game is restarted at a reset after so much wall time; None for never.
        step_deadline_s: Wall time that the game may take for a decision.
        reset_deadline_s: Wall time that a reset may take, with all retries.
        check_keys: Before the first episode, press the key of each button that the actions use, and refuse a game in
            which one has no effect. The check takes at most 10 s of game time, and another start of a fight.
        on_failure: What a step comes to in which the game dies, freezes or loses its window: ``"raise"`` its error, or
            ``"truncate"`` the episode. The next reset brings a new game either way.
    """

    phase: str = "full"
    reward: Any = "soulsgym"
    random_pose: bool = False
    read_only: bool = False
    observation: str = "features"
    pixels: Any = None
    skip_locked: bool = False
    action_mode: str = "discrete"
    actions: Any = None
    threshold: float = 0.5
    n_last_actions: int = 0
    timing: str = "lockstep"
    step_ms: float = 100
    game_speed: float = 1.0
    latency_ms: float = 0
    episodes: str = "demo"
    max_episode_steps: int | None = None
    hard_reset_minutes: float | None = None
    step_deadline_s: float = 10.0
    reset_deadline_s: float = 120.0
    check_keys: bool = False
    on_failure: str = "raise"

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is wrong."""
        self._check_choices()
        for name in ("random_pose", "skip_locked", "check_keys"):
            if not isinstance(getattr(self, name), bool):
                raise EnvironmentUsageError(f"{name} must be True or False, not {getattr(self, name)!r}")
        self._check_read_only()
        _check_whole("n_last_actions", self.n_last_actions, 0, _MAX_LAST_ACTIONS)
        if self.max_episode_steps is not None:
            _check_whole("max_episode_steps", self.max_episode_steps, 1, 10**9)
        check_number("step_ms", self.step_ms, 1, 10_000)
        check_number("game_speed", self.game_speed, 0.01, 1000)
        check_number("latency_ms", self.latency_ms, 0, 10_000)
        if self.hard_reset_minutes is not None:
            check_number("hard_reset_minutes", self.hard_reset_minutes, 0.001, 10**6)
        check_number("step_deadline_s", self.step_deadline_s, 0.01, 3600)
        check_number("reset_deadline_s", self.reset_deadline_s, 0.01, 36_000)
        if self.n_last_actions and self.observation == "pixels":
            raise EnvironmentUsageError("n_last_actions: pixels alone have no place for them; use 'pixels+features'")
        Actions(self.action_mode, self.actions, self.threshold)
        reward_weights(self.reward)
        check_reward_function(self.reward, 1)
        _ = self.picture

    def _check_read_only(self) -> None:
        if not isinstance(self.read_only, bool):
            raise EnvironmentUsageError(f"read_only must be True or False, not {self.read_only!r}")
        if self.read_only and (self.timing != "lockstep" or self.latency_ms or str(self.phase) == "2"):
            raise EnvironmentUsageError(
                "read_only: an observed fight has the timing of its player; leave out timing, latency_ms and phase='2'"
            )

    def _check_choices(self) -> None:
        if str(self.phase) not in PHASES:
            raise EnvironmentUsageError(f"phase: unknown phase {self.phase!r}{did_you_mean(str(self.phase), PHASES)}")
        choices = {
            "observation": OBSERVATIONS,
            "action_mode": ACTION_MODES,
            "timing": TIMINGS,
            "episodes": EPISODES,
            "on_failure": ON_FAILURE,
        }
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in known:
                raise EnvironmentUsageError(f"{name}: unknown kind {value!r}{did_you_mean(str(value), known)}")

    @property
    def max_decisions(self) -> int | None:
        """Decisions until truncation; None where steps are counted (`max_episode_steps`)."""
        if self.max_episode_steps is not None:
            return None
        return max(round(MAX_DECISIONS * DECISION_S * 1000 / self.step_ms), 1)

    @property
    def picture(self) -> Pixels:
        """The picture of an observation."""
        try:
            return msgspec.convert(dict(self.pixels or {}), Pixels)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise EnvironmentUsageError(
                f"pixels must be a table such as {{'width_px': 84, 'height_px': 84, 'is_grey': True}}: {error}"
            ) from error

    @property
    def times(self) -> TimingOptions:
        """What is said about time, in seconds."""
        return TimingOptions(
            step_s=self.step_ms / 1000,
            latency_s=self.latency_ms / 1000,
            speed=float(self.game_speed),
            deadline_s=float(self.step_deadline_s),
        )


def make_duel_options(kind: type[_Options], options: Mapping[str, Any], env_id: str) -> _Options:
    """Return the options of an environment, checked, with a clear error for one that does not exist.

    Args:
        kind: The options' type.
        options: As given.
        env_id: For errors.

    Raises:
        EnvironmentUsageError: An option is unknown or wrong.
    """
    refuse_unknown_options(env_id, options, kind.__struct_fields__)
    made = kind(**options)
    made.check()
    return made


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """Raise `EnvironmentUsageError` unless an option is a number between two others."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not low <= value <= high:
        raise EnvironmentUsageError(f"{name} must be a number from {low:g} to {high:g}, not {value!r}")


def _check_whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise EnvironmentUsageError(f"{name} must be a whole number from {low} to {high}, not {value!r}")
