"""The arena environments: one fight of the built-in arena, or a vector of fights in one simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from soulslab.arena.boss_file import Boss
from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.features import write_state
from soulslab.arena.records import DECISION_S, RESULT, REWARD_TERMS, SITUATIONS, Record, Table
from soulslab.arena.simulator import Simulator
from soulslab.arena.vocabulary import ACTION_NAMES, N_ACTIONS
from soulslab.envs.arguments import (
    action_number,
    autoreset_mode_of,
    checked_count,
    checked_seed,
    reset_mask_of,
    reset_options_of,
    step_options_of,
)
from soulslab.envs.duels import ArenaOptions, Duels, Info, make_options
from soulslab.envs.spaces import row
from soulslab.envs.time_limit import OuterTimeLimits
from soulslab.errors import EnvironmentUsageError, InvalidActionError, NotResetError, WindowGoneError, optional_imports

if TYPE_CHECKING:
    from soulslab.arena.window.fight_window import FightWindow

#: Keys of the vector environment's ``info`` that have a value for every fight at every step.
_STEP_KEYS = ("action_mask", "n_decisions", "n_masked", "reward_terms")
#: Frames per second of ``render_mode="rgb_array_list"``.
FILM_FPS = 30


class ArenaEnv(gymnasium.Env[Any, np.int64]):
    """One fight of the built-in arena (``soulslab/Arena-v0``).

    After each reset and step, ``info`` contains ``action_mask`` (20,) bool, ``n_decisions`` (of this step, 0 after a
    reset), ``n_masked`` (number of masked actions in this fight; they are carried out as "nothing") and
    ``reward_terms`` (the contribution of each term to the reward). After the last step of a fight, also of one that
    Gymnasium's `TimeLimit` truncates, it contains ``fight`` (won, time_s and more, with many bosses ``boss_seed``).

    Args:
        render_mode: None, ``"rgb_array"`` (a drawing from above), ``"rgb_array_list"`` (all drawings since the last
            ``render``, 30 for each second of game time, including the ticks between two decisions), or ``"human"`` (a
            window that shows each tick in real time; needs the extra ``window``).
        options: See `ArenaOptions`.

    Raises:
        EnvironmentUsageError: An option is invalid.
        BossFileError: A boss file is malformed.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["human", "rgb_array", "rgb_array_list"],
        "render_fps": round(1 / DECISION_S),
        "step_options": step_options_of(ArenaOptions()),
    }

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise EnvironmentUsageError(
                f"render_mode must be None, 'rgb_array', 'rgb_array_list' or 'human', not {render_mode!r}"
            )
        self.render_mode = render_mode
        self._window: FightWindow | None = None
        self._film: list[NDArray[np.uint8]] | None = None
        if render_mode == "rgb_array_list":
            self._film = []
            self.metadata = {**self.metadata, "render_fps": FILM_FPS}
        self._duels = Duels(make_options(options), 1, AutoresetMode.DISABLED)
        #: The simulator, for data that is not part of an observation. Only the environment may change it.
        self.simulator: Simulator = self._duels.simulator
        self.observation_space = self._duels.space
        self.action_space = spaces.Discrete(N_ACTIONS)
        self.attack_names = self._duels.attack_names
        self.action_names = ACTION_NAMES
        self.situation_names = SITUATIONS
        self.feature_names = self._duels.feature_names
        self._actions = np.zeros(1, np.int64)
        self._record: Record = np.zeros(1, DUEL_STATE)[0]
        self._time_limits = OuterTimeLimits()
        self._is_ready = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Begin a new fight; see `gymnasium.Env.reset`.

        Args:
            seed: Seed of this fight and of the following fights, from 0 to 2**64 - 1.
            options: Must be empty or None; the environment has no reset options.

        Raises:
            EnvironmentUsageError: The seed is out of range, or an option is given.
        """
        reset_options_of(options)
        self._time_limits.find(self)
        super().reset(seed=checked_seed(seed) if seed is not None else None)
        simulator, everyone = self.simulator, np.ones(1, np.bool_)
        if seed is not None:
            simulator.seed(np.array([seed], np.uint64), everyone)
        elif not simulator.duels["rng"][0]:
            simulator.seed(self.np_random.integers(2**63, size=1, dtype=np.uint64), everyone)
        self._duels.begin(everyone, is_seeded=seed is not None)
        self._is_ready = True
        if self._film is not None:
            self._film[:] = [self._draw()]
        if self.render_mode == "human":
            self._show_start()
        info: Info = {"action_mask": simulator.masks[0].copy(), "n_decisions": 0, "n_masked": 0}
        info["reward_terms"] = dict.fromkeys(self._duels.term_names, 0.0)
        return row(self._duels.observation(), 0), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Take one decision; see `gymnasium.Env.step`.

        Raises:
            NotResetError: `reset` was not called yet, or the fight has ended.
            InvalidActionError: The action is not an integer from 0 to 19.
            WindowGoneError: The window of ``render_mode="human"`` was closed; the next reset opens a new one.
        """
        if not self._is_ready:
            raise NotResetError("step: the fight is over or has not begun; call reset() first")
        self._actions[0] = action_number(action, N_ACTIONS)
        # Fields of the array are read five times as fast as attributes of its record.
        simulator, results = self.simulator, self.simulator.results
        is_shown = self._film is not None or self._window is not None
        before = simulator.duels.copy() if is_shown else None
        ended = self._duels.step(self._actions)
        if before is not None:
            self._show_step(before)
        reward = float(results["reward"][0])
        info: Info = {
            "action_mask": simulator.masks[0].copy(),
            "n_decisions": int(results["n_decisions"][0]),
            "n_masked": int(results["n_masked"][0]),
            "reward_terms": {"function": reward},
        }
        if not self._duels.has_function:
            info["reward_terms"] = dict(zip(REWARD_TERMS, results["shares"][0].tolist(), strict=True))
        if ended:
            self._is_ready = False
            info["fight"] = self._duels.fight_report(0)
        elif self._time_limits.end_with_this_step():
            info["fight"] = self.fight_report()
        observation = row(self._duels.observation(), 0)
        return observation, reward, bool(results["terminated"][0]), bool(results["truncated"][0]), info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the action mask, (20,) bool; sb3-contrib's MaskablePPO calls this method by its name."""
        masks: NDArray[np.bool_] = self.simulator.masks[0].copy()
        return masks

    def empty_fight_report(self) -> Info:
        """Return the report of a fight without decisions, with the keys and types of ``info["fight"]``."""
        return self._duels.empty_report()

    def render(self) -> Any:
        """Return a drawing of the fight from above, (H, W, 3) uint8; a list with ``"rgb_array_list"``.

        The list has all drawings since the last call. Returns None without a render mode, and with ``"human"``, whose
        window is updated by each step. Raises `NotResetError` before the first reset.
        """
        if self.render_mode in (None, "human"):
            return None
        if not self.simulator.duels["rng"][0]:
            raise NotResetError("render: no fight has begun; call reset() first")
        if self._film is None:
            return self._draw()
        film, self._film = self._film, []
        return film

    def close(self) -> None:
        """Close the window of ``render_mode="human"``; a second call does nothing."""
        window, self._window = self._window, None
        if window is not None:
            window.close()

    @property
    def boss(self) -> Boss:
        """The boss of the present fight."""
        return self.simulator.boss_of(0)

    @property
    def duel_state(self) -> Record:
        """`DUEL_STATE` record of the last observation; do not change it. The next step overwrites it."""
        write_state(self.simulator.duels[0], self.simulator.fight_of(0), self._record)
        return self._record

    @property
    def reward_quantities(self) -> dict[str, float]:
        """Quantity of each reward term in the last step, before weights (`soulslab.envs.rewards`)."""
        return dict(zip(REWARD_TERMS, self.simulator.results[0].terms.tolist(), strict=True))

    def scene_info(self) -> dict[str, bytes]:
        """Return what `soulslab.dashboard` needs once to draw the fights: the boss and the rules of the fight."""
        return self._duels.scene_info()

    def scene(self, place: int) -> dict[str, bytes]:
        """Return what `soulslab.dashboard` needs to draw the present state; ``place`` is 0."""
        return self._duels.scene(place)

    def fight_report(self) -> Info:
        """Return ``info["fight"]`` as if the fight ended now. Raises `NotResetError` before the first reset."""
        if not self.simulator.duels["rng"][0]:
            raise NotResetError("fight_report: no fight has begun; call reset() first")
        return self._duels.running_report(0)

    def _show_start(self) -> None:
        """Show the start of a fight in the window, which is opened if needed."""
        simulator, options = self.simulator, self._duels.options
        # The bosses that are drawn from intervals look alike.
        is_same = self._duels.pool is not None or (self._window is not None and self._window.boss is self.boss)
        if not (self._window and self._window.is_open and is_same):
            self.close()
            with optional_imports():
                from soulslab.arena.window.fight_window import FightWindow  # noqa: PLC0415 (the extra `window`)

            self._window = FightWindow(self.boss, str(options.phase))
        self._window.begin(simulator.duels[0])

    def _show_step(self, before: Table) -> None:
        """Draw a step to the film, or show it in the window. The (1,) copy of the duel before the step is advanced."""
        fight, after, action = self.simulator.fight_of(0), self.simulator.duels[0], int(self._actions[0])
        if self._film is not None:
            from soulslab.arena.top_down import draw_step  # noqa: PLC0415 (as below)

            self._film += draw_step(self.boss, fight, before, after, action)
        if self._window is not None:
            try:
                self._window.play(before, fight, after, action)
            except WindowGoneError:
                self._is_ready = False
                raise

    def _draw(self) -> NDArray[np.uint8]:
        from soulslab.arena.top_down import draw_duel  # noqa: PLC0415 (OpenCV takes 0.1 s to import)

        return draw_duel(self.boss, self.simulator.fight_of(0), self.simulator.duels[0])


class ArenaVectorEnv(VectorEnv[Any, NDArray[np.int64], NDArray[Any]]):
    """N fights of the built-in arena in one simulator (``make_vec`` with ``vector_entry_point``).

    For the same seeds it behaves as Gymnasium's ``SyncVectorEnv`` of `ArenaEnv`, in all three autoreset modes, with one
    exception: if a fight ends in mode ``"SameStep"``, ``n_decisions``, ``n_masked`` and ``reward_terms`` of ``info``
    are those of the last step, as in ``final_info``, not the zeros of the reset.

    Args:
        num_envs: Number of fights, N.
        autoreset_mode: ``"NextStep"``, ``"SameStep"``, ``"Disabled"``, the same names in the form ``"next_step"``, or
            Gymnasium's enum.
        copy: Whether observations, masks and infos are copies. If not, they are buffers that the next call overwrites,
            which is faster.
        render_mode: None, or ``"rgb_array"`` (`render` returns a drawing of each fight).
        options: See `ArenaOptions`.

    Raises:
        EnvironmentUsageError: An option is invalid.
        BossFileError: A boss file is malformed.
    """

    def __init__(
        self,
        num_envs: int = 1,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise EnvironmentUsageError(
                f"render_mode of a vector environment must be None or 'rgb_array', not {render_mode!r}"
            )
        self.render_mode = render_mode
        self.num_envs = checked_count("num_envs", num_envs)
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self.copy = copy
        self.metadata = {**ArenaEnv.metadata, "render_modes": ["rgb_array"], "autoreset_mode": self.autoreset_mode}
        self._duels = Duels(make_options(options), num_envs, self.autoreset_mode)
        self.single_observation_space = self._duels.space
        self.single_action_space = spaces.Discrete(N_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.attack_names = self._duels.attack_names
        self.action_names = ACTION_NAMES
        self.situation_names = SITUATIONS
        self.feature_names = self._duels.feature_names
        # The masks of a step's info never change; they are read-only and shared by all infos.
        all_true = np.ones(num_envs, np.bool_)
        all_true.setflags(write=False)
        self._term_masks: Info = {"_" + name: all_true for name in self._duels.term_names}
        self._step_masks: Info = {"_" + name: all_true for name in _STEP_KEYS}
        # The results as bytes, because numpy copies records field by field.
        self._result_bytes = self._duels.simulator.results.view(np.uint8)
        self._is_ready = False

    @property
    def duel_states(self) -> NDArray[np.record]:
        """`DUEL_STATE` records of all fights, (N,); they are computed when they are read."""
        return self._duels.states()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Info]:
        """Begin new fights; see `gymnasium.vector.VectorEnv.reset`.

        Args:
            seed: Fight i gets ``seed + i``, or the i-th seed of a sequence.
            options: ``reset_mask`` (N,) bool selects the fights to reset; by default all.

        Raises:
            EnvironmentUsageError: A seed is out of range, their number is not N, or an option is unknown or invalid.
            NotResetError: The mask leaves out a fight that has not begun.
        """
        simulator = self._duels.simulator
        mask = reset_options_of(options, ("reset_mask",)).get("reset_mask")
        which = reset_mask_of(mask, self.num_envs, simulator.duels["phase"] > 0)
        simulator.seed(*self._seeds(seed, which))
        self._duels.begin(which, is_seeded=seed is not None and bool(which.all()))
        self._is_ready = True
        masks = simulator.masks.copy() if self.copy else simulator.masks
        zeros = np.zeros(self.num_envs, np.int64)
        terms: Info = {}
        for name in self._duels.term_names:
            terms[name], terms["_" + name] = np.zeros(self.num_envs), which.copy()
        info: Info = {"action_mask": masks, "n_decisions": zeros, "n_masked": zeros.copy(), "reward_terms": terms}
        return self._observation(), info | {"_" + name: which.copy() for name in info}

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Info]:
        """Take one decision in each fight; see `gymnasium.vector.VectorEnv.step`.

        Args:
            actions: (N,) integers from 0 to 19.

        Raises:
            NotResetError: `reset` was not called yet; with ``"Disabled"`` autoreset also if a fight has ended.
            InvalidActionError: An action is out of range, or the shape is not (N,). No fight was stepped.
        """
        simulator = self._duels.simulator
        if not self._is_ready:
            raise NotResetError("step: no fight has begun; call reset() first")
        if self.autoreset_mode is AutoresetMode.DISABLED and simulator.duels["over"].any():
            over = np.flatnonzero(simulator.duels["over"])
            raise NotResetError(f"step: fights {over[:8]} are over; reset them with options={{'reset_mask': ...}}")
        ended = self._duels.step(self._checked(actions))
        results = np.ndarray(self.num_envs, RESULT, self._result_bytes.copy()) if self.copy else simulator.results
        info = self._info(results)
        terminated, truncated = results["terminated"].astype(np.bool_), results["truncated"].astype(np.bool_)
        if ended:
            self._add_finished(info, terminated | truncated)
        return self._observation(), results["reward"], terminated, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Return a drawing of each fight from above, N times (H, W, 3) uint8; None without a render mode.

        Raises:
            NotResetError: `reset` was not called yet.
        """
        if self.render_mode is None:
            return None
        if not self._is_ready:
            raise NotResetError("render: no fight has begun; call reset() first")
        from soulslab.arena.top_down import draw_duel  # noqa: PLC0415 (OpenCV takes 0.1 s to import)

        simulator = self._duels.simulator
        return tuple(
            draw_duel(simulator.boss_of(i), simulator.fight_of(i), simulator.duels[i]) for i in range(self.num_envs)
        )

    def scene_info(self) -> dict[str, bytes]:
        """See `ArenaEnv.scene_info`."""
        return self._duels.scene_info()

    def scene(self, place: int) -> dict[str, bytes]:
        """Return what `soulslab.dashboard` needs to draw fight number ``place``."""
        return self._duels.scene(place)

    def _observation(self) -> Any:
        observation = self._duels.observation()
        return observation.copy() if self.copy and isinstance(observation, np.ndarray) else observation

    def _info(self, results: NDArray[np.record]) -> Info:
        """Return the part of ``info`` with a value for every fight, each key with Gymnasium's ``_key`` mask."""
        if self._duels.has_function:
            terms: Info = {"function": results["reward"], **self._term_masks}
        else:
            # Not strict: the check for a further column would raise an exception inside numpy at each step.
            terms = dict(zip(REWARD_TERMS, results["shares"].T, strict=False))
            terms.update(self._term_masks)
        masks = self._duels.simulator.masks
        return {
            "action_mask": masks.copy() if self.copy else masks,
            "n_decisions": results["n_decisions"],
            "n_masked": results["n_masked"],
            "reward_terms": terms,
            **self._step_masks,
        }

    def _add_finished(self, info: Info, over: NDArray[np.bool_]) -> None:
        """Add reports and last observations of the fights that ended, under Gymnasium's keys."""
        report = {}
        for name, values in self._duels.fight_report(is_copied=self.copy).items():
            report[name], report["_" + name] = values, over
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            info["fight"], info["_fight"] = report, over
            return
        final = np.full(self.num_envs, None, dtype=object)
        for place in np.flatnonzero(over).tolist():
            final[place] = self._duels.final_observation(place)
        info["final_obs"], info["_final_obs"] = final, over
        masks = self._duels.simulator.final_masks
        final_info: Info = {"fight": report, "_fight": over}
        final_info |= {"action_mask": masks.copy() if self.copy else masks, "_action_mask": over}
        for name in _STEP_KEYS[1:]:
            final_info[name], final_info["_" + name] = info[name], over
        info["final_info"], info["_final_info"] = final_info, over

    def _checked(self, actions: Any) -> NDArray[np.int64]:
        """Return the actions as a contiguous int64 array; the simulator checks their range."""
        array = np.asarray(actions)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "iu":
            raise InvalidActionError(
                f"actions must be {self.num_envs} whole numbers, one per fight, not {array.dtype} {array.shape}"
            )
        return np.ascontiguousarray(array, dtype=np.int64)

    def _seeds(
        self, seed: int | Sequence[int | None] | None, which: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return a seed for each fight and a mask of fights to seed: with a given seed, or never seeded before."""
        fresh = self._duels.simulator.duels["rng"] == 0
        if isinstance(seed, int | np.integer):
            super().reset(seed=checked_seed(seed))
            return np.uint64(seed) + np.arange(self.num_envs, dtype=np.uint64), which
        drawn = self.np_random.integers(2**63, size=self.num_envs, dtype=np.uint64)
        if seed is None:
            return drawn, which & fresh
        if len(seed) != self.num_envs:
            raise EnvironmentUsageError(f"seed: {len(seed)} seeds for {self.num_envs} fights")
        given = np.array([one is not None for one in seed])
        drawn[given] = [checked_seed(one) for one in seed if one is not None]
        return drawn, which & (given | fresh)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all arrays that `set_state` needs to continue exactly from the current state."""
        return {name: array.copy() for name, array in self._state_arrays().items()} | {"fight": self._duels.digest()}

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from a state that `get_state` returned.

        Raises:
            EnvironmentUsageError: The state belongs to another boss, other options or another number of fights, or is
                impossible. The environment is not changed.
        """
        if not np.array_equal(state.get("fight", ()), self._duels.digest()):
            raise EnvironmentUsageError(
                "set_state: the state is of another boss, other options or another version of the rules"
            )
        arrays = self._state_arrays()
        for name, array in arrays.items():
            given = state.get(name)
            if not isinstance(given, np.ndarray) or (given.shape, given.dtype) != (array.shape, array.dtype):
                got = f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else repr(given)
                raise EnvironmentUsageError(f"set_state: {name!r} must be {array.dtype} {array.shape}, not {got}")
        if wrong := self._duels.find_problem(state):
            raise EnvironmentUsageError(f"set_state: no fight can be in this state: {wrong}")
        if self._duels.pool is not None:
            self._duels.pool.load(state)
        for name, array in arrays.items():
            array[:] = state[name]
        self._is_ready = True

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return views of all arrays that change during fights; records as bytes."""
        simulator, pool = self._duels.simulator, self._duels.pool
        # The number of steps only matters if there is a limit.
        steps = {"steps": simulator.steps} if simulator.options.max_steps else {}
        return {
            **steps,
            "duels": simulator.duels.view(np.uint8).reshape(self.num_envs, -1),
            "features": simulator.features,
            "states": simulator.states.view(np.uint8).reshape(self.num_envs, -1),
            "masks": simulator.masks,
            "returns": self._duels.returns,
            **(pool.state_arrays() if pool is not None else {}),
        }
