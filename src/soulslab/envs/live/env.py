"""A boss duel in a running game as a Gymnasium environment: over a session, a profile and a scenario."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.arena.records import Record
from soulslab.arena.vocabulary import N_ACTIONS, NOTHING
from soulslab.envs.arguments import reset_options_of
from soulslab.envs.attribute_gate import AttributeGate
from soulslab.envs.game.session_holder import Deadline, SessionHolder
from soulslab.envs.live.actions import Actions
from soulslab.envs.live.demo import DemoEpisode
from soulslab.envs.live.duel_game import DuelGame
from soulslab.envs.live.entrance import Entrance
from soulslab.envs.live.episode import Episode, EpisodeSettings
from soulslab.envs.live.in_place import InPlaceEpisode
from soulslab.envs.live.key_check import check_keys
from soulslab.envs.live.masks import Freedom
from soulslab.envs.live.observation import Observer
from soulslab.envs.live.observed import ObservedEpisode
from soulslab.envs.live.options import DuelOptions
from soulslab.envs.live.play import DuelPlay
from soulslab.envs.live.scenario import Scenario
from soulslab.envs.live.terms import FightScore
from soulslab.envs.live.timing import StepTimes, make_timing
from soulslab.envs.tick_count import TickCount
from soulslab.errors import EnvironmentUsageError, NotResetError, ReadOnlyError, SiphonError
from soulslab.games.self_check import needed_by
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import Session

Info = dict[str, Any]


class DuelSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a `DuelEnv` is made of.

    Attributes:
        profile: The game as data.
        source: Its file, for errors.
        scenario: The boss and its place.
        holder: Opens and holds the session.
        entrance: Gets the game to a fight; None for one that begins its fights by itself. After each start of the game
            it has to check what was not loaded when it was attached to.
        is_read_only: The game is observed and not played.
    """

    profile: Profile
    source: str
    scenario: Scenario
    holder: SessionHolder
    entrance: Entrance | None = None
    is_read_only: bool = False


class DuelEnv(gymnasium.Env[Any, Any]):
    """A boss duel in a running game.

    Spaces, features, masks, rewards and the report of a fight are those of ``soulslab/Arena-v0``. A decision is one
    `Session.step`: keys that change, game time, one reading, one picture. ``info`` holds after each reset and step
    ``action_mask``, ``clock`` (the grade of game time), ``game_time_s`` (of the episode), ``n_restarts`` (of the
    game, to get this episode started), ``n_decisions`` (of the step, 0 after a reset), ``n_masked``, ``reward_terms``,
    ``late_s`` and, where the game counts them, ``ticks``, in lockstep also ``ticks_lost`` and ``ticks_doubled`` of the
    episode so far; after the last step ``fight``.

    When a step fails (the game was killed, its window closed, a value cannot be read), it raises; the next `reset`
    brings the game back. Nothing is made up in its place. With ``on_failure="truncate"`` it ends the episode instead,
    with what was seen last, no reward, no ``fight``, and ``info["failure"]``: ``error`` (the class) and ``message``.

    Args:
        setup: The game and the boss.
        options: What is played, seen and rewarded.
        render_mode: None, ``"rgb_array"`` (the game's window), or ``"human"`` (its window is on your own screen).

    Attributes:
        attack_names: Names of the boss's attacks (``damage_by_attack`` and ``killed_by`` count by them).
        feature_names: Names of the features, in their order; empty where it gives none.
        action_names: What can be chosen: actions, or buttons.

    Raises:
        EnvironmentUsageError: An option is wrong.
        ProfileError: The profile does not say where to find a duel.
    """

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, setup: DuelSetup, options: DuelOptions, render_mode: str | None = None) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise EnvironmentUsageError(f"render_mode must be None, 'rgb_array' or 'human', not {render_mode!r}")
        self.render_mode = render_mode
        times = msgspec.structs.replace(options.times, is_paced=render_mode == "human")
        self.metadata = {**self.metadata, "render_fps": max(1, round(times.speed / times.step_s))}
        self.profile, self.scenario, self.options = setup.profile, setup.scenario, options
        self._actions = Actions(options.action_mode, options.actions, options.threshold)
        self._score = FightScore(setup.scenario, options.reward, times.step_s)
        last = (options.n_last_actions, len(self._actions.names))
        self._observer = Observer(options.observation, setup.scenario, options.pixels, last)
        game = DuelGame(setup.holder, setup.profile, setup.source, setup.scenario.frame)
        game.step_deadline_s = options.step_deadline_s
        setup.holder.check = AttributeGate(needed_by(setup.profile), may_be_loading=setup.entrance is not None)
        self._is_read_only = setup.is_read_only
        episode = make_episode(options, setup)
        timing = make_timing(options.timing, times)
        is_late = options.skip_locked and options.timing == "lockstep"
        self._play = DuelPlay(game, setup.scenario, episode, timing, self._observer.frame, is_late_frame=is_late)
        self.observation_space = self._observer.space
        self.action_space = self._actions.space
        self.action_names = self._actions.names
        self.attack_names = self._score.attack_names
        self.feature_names = self._observer.feature_names
        self._ticks = TickCount(setup.profile)
        self._decision_ticks = _ticks_of(times.step_s, setup.profile) if options.timing == "lockstep" else None
        self._is_ready = False
        self._must_check_keys = options.check_keys and not setup.is_read_only
        self._max_decisions, self._n_steps = options.max_decisions, 0
        self._n_masked = self._n_restarts = 0
        self._latest: Any = None

    # --- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Begin an episode; see `gymnasium.Env.reset`. Brings the game back if it is gone.

        Args:
            seed: Draws what is drawn; a game that takes seeds fights the same fight for the same one.
            options: ``{"restart": True}`` restarts the game first.

        Raises:
            SiphonError: The start failed, also after retries.
            EnvironmentUsageError: The game fights another boss than it was asked for, a key has no effect, or an
                option is unknown.
        """
        given = reset_options_of(options, ("restart",))
        super().reset(seed=seed)
        self._is_ready = False
        play, holder = self._play, self._play.game.holder
        if given.get("restart"):
            holder.is_lost = True
        n_restarts = holder.n_restarts
        deadline = Deadline(self.options.reset_deadline_s)
        if self._must_check_keys:
            # The episode then begins anew, from the same draws.
            play.episode.begin(play.game, copy.deepcopy(self.np_random), seed, deadline)
            check_keys(play.game, self.scenario, self._actions.buttons)
            self._must_check_keys = False
        play.episode.begin(play.game, self.np_random, seed, deadline)
        play.begin()
        self._observer.begin()
        self._n_masked = self._n_steps = 0
        self._ticks.begin(play.tick)
        self._score.begin(play.state, play.start_pose(is_random=self.options.random_pose))
        self._n_restarts = holder.n_restarts - n_restarts
        self._is_ready = True
        self._latest = self._observation()
        return self._latest, self._info() | self._no_step()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Play one decision, or several with ``skip_locked``; see `gymnasium.Env.step`.

        Raises:
            NotResetError: Before the first reset, after the end of a fight, or after a step that failed.
            InvalidActionError: The action is not in the space.
            ReadOnlyError: The environment is read-only, and the action is not "nothing".
            SiphonError: The step failed; call `reset`, which brings the game back.
        """
        if not self._is_ready:
            raise NotResetError("step: the fight is over, has not begun, or has failed; call reset() first")
        choice = self._actions.choose(action, self._play.freedom)
        if self._is_read_only and choice.action != NOTHING:
            raise ReadOnlyError("cannot send keys: the environment is read-only; the action has to be 'nothing'")
        times = self._play.timing.times
        if times is not None:
            times.begin_step()
        self._is_ready = False
        self._n_steps += 1
        self._n_masked += choice.is_masked
        try:
            n_decisions, is_truncated = self._play_step(choice.action)
            self._play.see()
        except SiphonError as error:
            if self.options.on_failure == "raise":
                raise
            return self._cut_off(error)
        if self._observer.has_last_actions:
            self._observer.remember(self._actions.one_hot(action))
        verdict = self._play.verdict
        reward, shares = self._score.end_step(verdict, is_truncated=is_truncated)
        self._is_ready = not (verdict or is_truncated)
        info = self._info()
        late_s = self._play.late_s
        info |= {"n_decisions": n_decisions, "n_masked": self._n_masked, "reward_terms": shares, "late_s": late_s}
        info |= self._count_ticks(n_decisions)
        if not self._is_ready:
            info["fight"] = self._score.report(is_won=verdict == "won")
        self._latest = self._observation()
        if times is not None:
            times.end_step()
        return self._latest, reward, bool(verdict), is_truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the open actions of a discrete space by the name that sb3-contrib's MaskablePPO looks for."""
        if not isinstance(self.action_space, spaces.Discrete):
            raise EnvironmentUsageError("action_masks: only discrete actions have a mask")
        return self._mask()

    def render(self) -> Any:
        """Return the game's window, (H, W, 3) RGB, as it is now; None without ``render_mode="rgb_array"``.

        Raises:
            NotResetError: Before the first reset.
            WindowGoneError: The window was closed.
        """
        if self.render_mode != "rgb_array":
            return None
        if not self._play.grade:
            raise NotResetError("render: there is no game yet; call reset() first")
        return self.session.capture().pixels

    def close(self) -> None:
        """Release all keys and end the game, if it was started for this environment; a second call does nothing."""
        self._is_ready = False
        play, holder = self._play, self._play.game.holder
        if holder.is_open:
            # A game that goes on without us gets back what episodes changed; one that is gone needs nothing.
            with contextlib.suppress(SiphonError):
                play.episode.release(play.game)
        holder.close()

    # --- for whoever looks closer ---------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session with the game; it is opened if it is not yet."""
        return self._play.game.session

    @property
    def episode(self) -> Episode:
        """What begins and ends episodes; its ``log`` counts what resets took."""
        return self._play.episode

    @property
    def game(self) -> DuelGame:
        """The game by quantities; it can be used from the first reset on."""
        return self._play.game

    @property
    def duel_state(self) -> Record:
        """`DUEL_STATE` record behind the last observation; not to be changed, and overwritten by the next step."""
        return self._play.state

    @property
    def reward_quantities(self) -> dict[str, float]:
        """Quantity of each reward term in the last step, before weights (`soulslab.envs.rewards`)."""
        return self._score.quantities

    def fight_report(self) -> Info:
        """Return what ``info["fight"]`` would be if the fight ended now, not won.

        Raises:
            NotResetError: Before the first reset.
        """
        if not self._play.grade:
            raise NotResetError("fight_report: there is no fight yet; call reset() first")
        return self._score.report(is_won=False)

    def write_quantities(self, values: Mapping[str, Any]) -> None:
        """Write to the game between two steps, and take what was written for given: no reward comes of it.

        Raises:
            SiphonError: It failed; call `reset`, which brings the game back.
        """
        try:
            self._play.write(values, has_real_health=self.options.episodes == "demo")
        except SiphonError:
            self._is_ready = False
            raise
        self._score.note(self._play.state)

    @property
    def needs_reset(self) -> bool:
        """Whether `step` would be refused: no episode has begun, or it is over or has failed."""
        return not self._is_ready

    @property
    def step_times(self) -> StepTimes | None:
        """Wall time of the parts of each decision since this was set to a `StepTimes`; None (nothing is measured)."""
        return self._play.timing.times

    @step_times.setter
    def step_times(self, times: StepTimes | None) -> None:
        self._play.timing.times = times

    def empty_fight_report(self) -> Info:
        """Return the report of a fight without decisions, with the keys and types of ``info["fight"]``."""
        return self._score.empty_report()

    # --- a step ---------------------------------------------------------------------------------------------

    def _play_step(self, action: int) -> tuple[int, bool]:
        """Play a step; return its decisions, and whether it ran into the limit of decisions."""
        play, score, options = self._play, self._score, self.options
        score.begin_step()
        n = 0
        while True:
            n_open = play.decide(action)
            n += 1
            is_over = bool(play.verdict)
            score.add(action, play.state, play.boss_animation, is_falling=play.is_falling, is_over=is_over)
            is_truncated = self._max_decisions is not None and score.n_decisions >= self._max_decisions
            if is_over or is_truncated or not options.skip_locked or n_open > 1:
                break
            action = NOTHING
        is_truncated = is_truncated or self._n_steps == options.max_episode_steps
        return n, is_truncated and not is_over

    def _count_ticks(self, n_decisions: int) -> Info:
        """Count the ticks of a step; return what ``info`` holds of them."""
        is_exact = self._play.grade == "lockstep" and self._decision_ticks is not None
        if self._play.tick >= 0:
            self._ticks.add(self._play.tick, n_decisions * (self._decision_ticks or 0) if is_exact else None)
        return self._tick_info(self._ticks.n_ticks)

    def _tick_info(self, n_ticks: int) -> Info:
        if self._play.tick < 0:
            return {}
        info: Info = {"ticks": n_ticks}
        if self._play.grade == "lockstep" and self._decision_ticks is not None:
            info |= {"ticks_lost": self._ticks.n_lost, "ticks_doubled": self._ticks.n_doubled}
        return info

    def _cut_off(self, error: SiphonError) -> tuple[Any, float, bool, bool, Info]:
        """Return the end of an episode whose game failed: what was seen last, and why."""
        info = self._info() | self._no_step()
        info["failure"] = {"error": type(error).__name__, "message": str(error)}
        return self._latest, 0.0, False, True, info

    def _no_step(self) -> Info:
        """Return the part of ``info`` that describes a step, for a reset and for a step that failed."""
        info: Info = {"n_decisions": 0, "n_masked": self._n_masked}
        info |= {"reward_terms": self._score.no_shares(), "late_s": 0.0}
        return info | self._tick_info(0)

    def _observation(self) -> Any:
        return self._observer.observation(self._play.state, self._play.picture)

    def _mask(self) -> NDArray[np.bool_]:
        """Return the open actions; only "nothing" where the fight is observed."""
        if not self._is_read_only:
            return self._actions.mask(self._play.open, self._play.freedom)
        return self._actions.mask(np.arange(N_ACTIONS) == NOTHING, Freedom(False, False, False))

    def _info(self) -> Info:
        play = self._play
        return {
            "action_mask": self._mask(),
            "clock": play.grade,
            "game_time_s": play.game_time_s,
            "n_restarts": self._n_restarts,
        }


def _ticks_of(step_s: float, profile: Profile) -> int | None:
    """Return the ticks of a decision; None if they are not known, or no whole number."""
    n = step_s * profile.clock.tick_hz
    return round(n) if profile.clock.tick_attribute and abs(n - round(n)) < 1e-6 else None


def make_episode(options: DuelOptions, setup: DuelSetup) -> Episode:
    """Return the object that begins and ends the episodes that were asked for."""
    settings = EpisodeSettings(
        phase=str(options.phase), random_pose=options.random_pose, hard_reset_minutes=options.hard_reset_minutes
    )
    if setup.is_read_only:
        return ObservedEpisode(setup.scenario, settings)
    if options.episodes == "demo":
        return DemoEpisode(setup.scenario, settings, setup.entrance)
    return InPlaceEpisode(setup.scenario, settings, setup.entrance)
