"""Options of an environment that plays a boss duel in a running game."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from soulslab.arena.records import DECISION_S, MAX_DECISIONS
from soulslab.envs.game.timing import TimingOptions
from soulslab.envs.rewards import check_reward_function, reward_weights
from soulslab.envs.tasks.duel.duel_actions import ActionMode, Actions
from soulslab.envs.tasks.duel.duel_observation import Observation
from soulslab.envs.tasks.process.process_settings import OnFailure, Pixels
from soulslab.errors import EnvironmentUsageError

Phase: TypeAlias = Literal["1", "2", "full", 1, 2]
Timing: TypeAlias = Literal["lockstep", "realtime"]
Minutes: TypeAlias = Annotated[float, Meta(ge=0.001, le=10**6)]


class DuelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of any duel in a running game, as given to ``gymnasium.make``.

    Attributes:
        phase: ``"1"``, ``"2"`` or ``"full"``.
        reward: A preset, a table of terms and weights, or a function (see `soulslab.envs.rewards`).
        random_pose: Draw the player's start from the poses of the place, where there are any. A real game that is not
            played in place begins where it does.
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
            raise EnvironmentUsageError("n_last_actions: pixels alone have no place for them; use 'pixels+features'")
        Actions(self.action_mode, self.actions, self.threshold)
        reward_weights(self.reward)
        check_reward_function(self.reward, 1)

    @property
    def max_decisions(self) -> int | None:
        """Decisions until truncation; None where steps are counted (`max_episode_steps`)."""
        if self.max_episode_steps is not None:
            return None
        return max(round(MAX_DECISIONS * DECISION_S * 1000 / self.step_ms), 1)

    @property
    def times(self) -> TimingOptions:
        """What is said about time, in seconds."""
        return TimingOptions(
            step_s=self.step_ms / 1000,
            latency_s=self.latency_ms / 1000,
            speed=float(self.game_speed),
            deadline_s=float(self.step_deadline_s),
        )


#: Seeds that were not given are drawn below this.
MAX_DRAWN_SEED = 2**31


class WindowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a window that an environment starts.

    Attributes:
        size_px: Its width and height, at least 64 x 64 and at most 1280 x 720.
        renderer: ``"software"``, ``"gpu"`` or ``"auto"``.
        launch_seed: Seed of its first fight, where it stands in for another game, which takes no seed from a reset;
            None draws one.
    """

    # The largest size is that of a private display.
    size_px: tuple[Annotated[int, Meta(ge=64, le=1280)], Annotated[int, Meta(ge=64, le=720)]] = (320, 180)
    renderer: Literal["auto", "gpu", "software"] = "software"
    launch_seed: Annotated[int, Meta(ge=0)] | None = None

    @property
    def first_seed(self) -> int:
        """`launch_seed`, or a random one: several games of one program would all fight the same fight."""
        return secrets.randbelow(MAX_DRAWN_SEED) if self.launch_seed is None else self.launch_seed

    def launch_options(self) -> dict[str, str]:
        """Return the options of the command that starts the window."""
        return {"size": f"{self.size_px[0]}x{self.size_px[1]}", "renderer": self.renderer}
