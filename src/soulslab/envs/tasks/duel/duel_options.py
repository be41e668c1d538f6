"""Options of the environments that play a boss duel in a running game."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from soulslab.arena.records import DECISION_S, MAX_DECISIONS
from soulslab.envs.arguments import Phase
from soulslab.envs.game.game_env import OnFailure
from soulslab.envs.game.timing import TimingOptions
from soulslab.envs.rewards import check_reward_function, reward_weights
from soulslab.envs.tasks.duel.duel_actions import ActionMode, DuelActions
from soulslab.envs.tasks.duel.duel_observation import Observation
from soulslab.envs.tasks.process.process_settings import Pixels
from soulslab.errors import EnvironmentUsageError

Timing: TypeAlias = Literal["lockstep", "realtime"]
Minutes: TypeAlias = Annotated[float, Meta(ge=0.001, le=10**6)]


class DuelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of every duel in a running game, as given to ``gymnasium.make``.

    Attributes:
        phase: Phase of the fight that is played: ``"1"``, ``"2"`` or ``"full"`` (both).
        reward: A preset, a table of terms and weights, or a function (see `soulslab.envs.rewards`).
        random_pose: Draw the player's start pose from those of the scenario, if it has any. It has no effect on demo
            episodes of a real game, whose start pose the game chooses.
        observation: ``"features"`` (74 numbers), ``"relative"`` (73 numbers relative to the player's pose), ``"dict"``
            (the 15 fields of the state with SoulsGym's spaces), ``"boxes"`` (the same fields as float32 Boxes),
            ``"pixels"``, ``"pixels+state"`` (the fields of ``"dict"`` and ``pixels``) or ``"pixels+features"``.
        pixels: Picture, as ``{"width_px": 84, "height_px": 84, "is_grey": False}``.
        skip_locked: Continue a step while "nothing" is the only open action; the rewards are added.
        action_mode: ``"discrete"`` (the 20 actions), ``"multi_binary"`` or ``"continuous"`` (the 8 buttons).
        actions: Names of the actions of ``"discrete"``, in this order; None for all 20.
        threshold: Smallest number at which a button of ``"continuous"`` is down, above 0 and at most 1.
        n_last_actions: Number of last actions in the observation, the newest first.
        timing: ``"lockstep"`` (the game stands still while the agent thinks) or ``"realtime"`` (the game runs on).
        step_ms: Game time of a decision.
        game_speed: Game seconds per wall second in real time, with ``render_mode="human"``, and in lockstep with a
            scaled clock (``info["clock"]`` is ``"scaled"``).
        latency_ms: Game time from an observation to the keys that follow from it, in addition to the time of the agent.
        episodes: ``"demo"`` (the environment does not change the fight, which is played to its end) or ``"in_place"``
            (the game never ends a fight, because the environment counts the health and refills it).
        max_episode_steps: Steps until truncation; with `skip_locked` a step may take several decisions. None for 300 s
            of game time, which are the 3000 decisions of ``soulslab/Arena-v0``. `gymnasium.make` does not pass on an
            argument of this name, but wraps the environment in `TimeLimit`, which has the same effect.
        hard_reset_minutes: Wall time after which a reset restarts the game; None for never.
        step_deadline_s: Limit of wall time for a decision.
        reset_deadline_s: Limit of wall time for a reset, with all retries.
        check_keys: Before the first episode, press the key of each button that the actions use, and raise an error if
            a key has no effect. The check takes at most 10 s of game time, and one more start of a fight.
        on_failure: What happens in a step in which the game ends, freezes or loses its window: ``"raise"`` the error,
            or ``"truncate"`` the episode. In both cases the next reset restarts the game.
    """

    phase: Phase = "full"
    reward: Any = "soulsgym"
    random_pose: bool = False
    observation: Observation = "features"
    pixels: Pixels = Pixels()
    skip_locked: bool = False
    action_mode: ActionMode = "discrete"
    actions: Any = None
    threshold: float = 0.5
    n_last_actions: Annotated[int, Meta(ge=0, le=100)] = 0
    timing: Timing = "lockstep"
    step_ms: Annotated[float, Meta(ge=1, le=10_000)] = 100
    game_speed: Annotated[float, Meta(ge=0.01, le=1000)] = 1.0
    latency_ms: Annotated[float, Meta(ge=0, le=10_000)] = 0
    episodes: Literal["demo", "in_place"] = "demo"
    max_episode_steps: Annotated[int, Meta(ge=1)] | None = None
    hard_reset_minutes: Minutes | None = None
    step_deadline_s: Annotated[float, Meta(ge=0.01, le=3600)] = 10.0
    reset_deadline_s: Annotated[float, Meta(ge=0.01, le=36_000)] = 120.0
    check_keys: bool = False
    on_failure: OnFailure = "raise"

    def check(self, *, is_read_only: bool) -> None:
        """Raise `EnvironmentUsageError` for the first option that contradicts another."""
        if is_read_only and (self.timing != "lockstep" or self.latency_ms or str(self.phase) == "2"):
            raise EnvironmentUsageError(
                "read_only: an observed fight has the timing of its player; leave out timing, latency_ms and phase='2'"
            )
        if self.n_last_actions and self.observation == "pixels":
            raise EnvironmentUsageError(
                "n_last_actions: an observation of pixels alone cannot contain them; use 'pixels+features'"
            )
        DuelActions(self.action_mode, self.actions, self.threshold)
        reward_weights(self.reward)
        check_reward_function(self.reward, 1)

    @property
    def max_decisions(self) -> int | None:
        """Decisions until truncation; None if steps are counted instead (`max_episode_steps`)."""
        if self.max_episode_steps is not None:
            return None
        return max(round(MAX_DECISIONS * DECISION_S * 1000 / self.step_ms), 1)

    @property
    def times(self) -> TimingOptions:
        """Options of time, in seconds."""
        return TimingOptions(
            step_s=self.step_ms / 1000,
            latency_s=self.latency_ms / 1000,
            speed=float(self.game_speed),
            deadline_s=float(self.step_deadline_s),
        )


class WindowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a window that an environment starts.

    Attributes:
        size_px: Width and height of the window, at least 64 x 64 and at most 1280 x 720.
        renderer: ``"software"``, ``"gpu"`` or ``"auto"``.
        launch_seed: Seed of the first fight of a window in the layout of another game, which accepts no seed at a
            reset; None draws one.
    """

    # The largest size is that of a private display.
    size_px: tuple[Annotated[int, Meta(ge=64, le=1280)], Annotated[int, Meta(ge=64, le=720)]] = (320, 180)
    renderer: Literal["auto", "gpu", "software"] = "software"
    launch_seed: Annotated[int, Meta(ge=0)] | None = None

    @property
    def first_seed(self) -> int:
        """`launch_seed`, or a random seed, so that several games of one program do not all play the same fight."""
        return self.launch_seed if self.launch_seed is not None else secrets.randbelow(2**31)

    def launch_options(self) -> dict[str, str]:
        """Return the options of the command that starts the window."""
        return {"size": f"{self.size_px[0]}x{self.size_px[1]}", "renderer": self.renderer}
