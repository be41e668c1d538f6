"""Any game with a profile as a Gymnasium environment (``soulslab/Process-v0``).

::

    env = gymnasium.make("soulslab/Process-v0", profile="my_game.toml")

The profile's ``[env]`` table defines observations, actions, rewards and the ends of an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from soulslab.envs.attribute_gate import AttributeGate
from soulslab.envs.game.connect import GameStart, hold_session
from soulslab.envs.game.game_env import GameEnv, GameEnvSettings, check_render_mode
from soulslab.envs.game.timing import LockstepTiming, TimingOptions
from soulslab.envs.game.vector_env import GameVectorEnv
from soulslab.envs.tasks.process.process_options import find_profile, make_options, make_settings
from soulslab.envs.tasks.process.process_settings import tick_s
from soulslab.envs.tasks.process.process_task import ProcessTask


class ProcessEnv(GameEnv):
    """Environment of a game with a profile (`GameEnv`).

    One step is one `Session.step`: changed keys, game time, one read of all attributes, one frame. In addition to the
    entries of `GameEnv`, ``info`` contains ``values`` (the attributes of ``env.info``) and ``reward_terms`` (the
    contribution of each term). If the profile names a tick attribute, ``info`` contains ``ticks`` and
    ``ticks_expected``; with a lockstep clock also ``ticks_lost`` and ``ticks_doubled`` of the episode so far (a step
    that waited for the game to load is not counted). After the last step it also contains ``end`` (the condition,
    ``max_steps`` or ``failure``). If an `unreadable` condition ends the episode, the last observation has the last
    known value of each attribute that cannot be read.

    ``reset(seed=...)`` seeds ``random_start_ticks``. In a deterministic environment (`ProcessOptions.deterministic`)
    it also restarts the game with this seed, modulo 2**32; starts without a seed get seeds that follow from it.
    ``reset(options={"deterministic": True})`` makes the environment deterministic from then on, and restarts the game.

    Args:
        render_mode: None, ``"rgb_array"``, or ``"human"`` (the game's window opens on the screen of the user, at its
            own speed).
        options: See `ProcessOptions` and `ConnectOptions`.

    Attributes:
        profile: Profile of the game.
        action_names: Names of the actions, keys or groups of the action space.

    Raises:
        EnvironmentUsageError: An option is wrong.
        ProfileError: The profile is wrong.
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        given, connect = make_options(options)
        self.profile, source = find_profile(given, connect)
        settings = make_settings(given, self.profile, source)
        task = ProcessTask(settings, self.profile, is_read_only=connect.read_only, is_deterministic=given.deterministic)
        self.action_names = task.action_names
        display = "" if render_mode == "human" else "private"
        start = GameStart(launch=given.launch, options=given.options, display=display)
        holder = hold_session(connect, self.profile, start)
        holder.check = AttributeGate(task.attributes)
        step_s = settings.frame_skip * (settings.step_s or (settings.step_ticks or 0) * tick_s(self.profile))
        timing = LockstepTiming(TimingOptions(step_s=step_s, is_paced=render_mode == "human"))
        env_settings = GameEnvSettings(
            render_fps=1 / step_s,
            reset_deadline_s=settings.reset_deadline_s,
            max_steps=settings.max_steps,
            on_failure=given.on_failure,
        )
        super().__init__(holder, task, timing, env_settings, render_mode)


class ProcessVectorEnv(GameVectorEnv):
    """N games with the same profile (`GameVectorEnv` of `ProcessEnv`)."""

    single: ClassVar[Callable[..., GameEnv]] = ProcessEnv
