"""N duels with their options, observations, rewards and infos: what the single and the vector environment share."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import DECISION_S, FIGHT_REPORT, PHASES, REWARD_TERMS
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.envs.arguments import refuse_unknown_options
from soulslab.envs.rewards import Reward, Transition, call_reward, check_reward_function, reward_weights
from soulslab.envs.spaces import FIELD_KINDS, OBSERVATIONS, ROW_NAMES, duel_observation, duel_space, row, row_space
from soulslab.errors import EnvironmentUsageError, did_you_mean

Info = dict[str, Any]


class ArenaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``soulslab/Arena-v0``, as given to ``gymnasium.make`` and ``make_vec``.

    Attributes:
        boss: Name of a shipped boss, or the path of a boss file.
        phase: ``"1"``, ``"2"`` or ``"full"``.
        reward: A preset, a table of terms and weights, or a function (see `soulslab.envs.rewards`).
        random_pose: Draw the player's start from the ground's poses.
        observation: ``"features"`` (74 numbers), ``"relative"`` (73 numbers in the player's own frame), ``"dict"``
            (the 15 `DuelState` fields with SoulsGym's spaces) or ``"boxes"`` (the same fields as float32 Boxes).
        skip_locked: Step on while "nothing" is the only open action; rewards add up.
        max_episode_steps: Steps until truncation, as Gymnasium counts them: with `skip_locked` a step may take several
            decisions. A fight is truncated after 3000 decisions in any case (300 s of game time); None leaves it at
            that. `gymnasium.make` keeps an argument of this name for its own `TimeLimit`, which does the same.
    """

    boss: str | Path = "judge"
    phase: str = "full"
    reward: Any = "soulsgym"
    random_pose: bool = False
    observation: str = "features"
    skip_locked: bool = False
    max_episode_steps: int | None = None

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is wrong."""
        if not isinstance(self.boss, str | Path):
            raise EnvironmentUsageError(f"boss must be a name or the path of a boss file, not {self.boss!r}")
        if str(self.phase) not in PHASES:
            raise EnvironmentUsageError(f"phase: unknown phase {self.phase!r}{did_you_mean(str(self.phase), PHASES)}")
        if self.observation not in OBSERVATIONS:
            raise EnvironmentUsageError(
                f"observation: unknown kind {self.observation!r}{did_you_mean(str(self.observation), OBSERVATIONS)}"
            )
        for name in ("random_pose", "skip_locked"):
            if not isinstance(getattr(self, name), bool):
                raise EnvironmentUsageError(f"{name} must be True or False, not {getattr(self, name)!r}")
        limit = self.max_episode_steps
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise EnvironmentUsageError(f"max_episode_steps must be a whole number from 1 or None, not {limit!r}")


class Duels:
    """N duels, their observations, rewards and reports.

    Attributes:
        space: Observation space of one duel.
        feature_names: Names of a row's numbers, in their order; empty for a Dict.
        term_names: Names of the reward terms in ``info["reward_terms"]``.
        returns: (N,) sum of rewards of the present fights; kept up for reward functions only.
    """

    def __init__(self, options: ArenaOptions, n_duels: int, autoreset: AutoresetMode) -> None:
        options.check()
        check_reward_function(options.reward, n_duels)
        knight = load_knight()
        self.options = options
        self.reward: Reward = options.reward
        self.boss = load_boss(options.boss, list(knight.knock_backs))
        self.has_function = callable(options.reward)
        self.term_names = ("function",) if self.has_function else REWARD_TERMS
        self.simulator = Simulator(
            self.boss,
            n_duels,
            FightOptions(
                phase=str(options.phase),
                random_pose=options.random_pose,
                skip_locked=options.skip_locked,
                features=options.observation in ROW_NAMES,
                relative=options.observation == "relative",
                states=options.observation in FIELD_KINDS or self.has_function,
                max_steps=options.max_episode_steps or 0,
                autoreset=_AUTORESETS[autoreset],
                weights=reward_weights(options.reward),
            ),
        )
        self.returns = np.zeros(n_duels)
        self.feature_names = ROW_NAMES.get(options.observation, ())
        self.space: spaces.Space[Any] = duel_space(self.boss, knight, options.observation)
        if self.feature_names:
            self.space = row_space(options.observation, self.boss.ground.limits_m, self.boss.ground.floor_m)

    def observation(self) -> Any:
        """Return the present observations; features are the simulator's own buffer."""
        if self.feature_names:
            return self.simulator.features
        return duel_observation(self.simulator.states, self.options.observation)

    def final_observation(self, place: int) -> Any:
        """Return the last observation of a fight that ended and has been followed by another."""
        if self.feature_names:
            return self.simulator.final_features[place].copy()
        return row(duel_observation(self.simulator.final_states[place : place + 1], self.options.observation), 0)

    def step(self, actions: NDArray[np.int64]) -> int:
        """Step the simulator and, for a reward function, put its rewards in place of the weighted terms."""
        if not self.has_function:
            return self.simulator.step(actions)
        simulator = self.simulator
        before = simulator.states.copy()
        resting = simulator.duels["over"].astype(np.bool_)
        ended = simulator.step(actions)
        results = simulator.results
        terminated, truncated = results["terminated"].astype(np.bool_), results["truncated"].astype(np.bool_)
        after = simulator.states.copy()
        if simulator.options.autoreset == "same_step":
            over = terminated | truncated
            after[over] = simulator.final_states[over]
        terms = {name: results["terms"][:, i].copy() for i, name in enumerate(REWARD_TERMS)}
        transition = Transition(before, after, terms, terminated, truncated)
        rewards = call_reward(self.reward, transition, simulator.n_duels)  # type: ignore[arg-type]
        # A fresh fight in "next_step" mode began in this step; there was nothing to reward.
        results["reward"] = np.where(resting, 0.0, rewards)
        self.returns[resting] = 0.0
        self.returns += results["reward"]
        if ended:
            over = terminated | truncated
            simulator.reports["return_"][over] = self.returns[over]
            self.returns[over] = 0.0
        return ended

    def running_report(self, place: int) -> Info:
        """Return what `fight_report` would return of a fight if it ended now."""
        self.simulator.report_running(place)
        if self.has_function:
            self.simulator.reports["return_"][place] = self.returns[place]
        return self.fight_report(place)

    def fight_report(self, place: int | None = None) -> Info:
        """Return copies of what finished fights leave behind: arrays over all duels, or scalars for one place."""
        # As bytes, because numpy copies records field by field.
        everything = self.simulator.reports.view(np.uint8).copy().view(FIGHT_REPORT)
        return self._report(everything if place is None else everything[place], is_single=place is not None)

    def empty_report(self) -> Info:
        """Return the report of a fight without decisions, with the keys and types of `fight_report` for one place."""
        blank = np.zeros(1, FIGHT_REPORT)
        blank["killed_by"] = blank["start_pose"] = -1
        return self._report(blank[0], is_single=True)

    def _report(self, reports: Any, *, is_single: bool) -> Info:
        report: Info = {name: reports[name] for name in reports.dtype.names if name not in _REPORT_AS}
        # Of one fight a bool of Python: Gymnasium's vectors keep numpy's as objects, with None for the others.
        report["won"] = bool(reports["won"]) if is_single else reports["won"].astype(np.bool_)
        report["return"] = reports["return_"]
        report["time_s"] = reports["n_decisions"] * DECISION_S
        report["damage_by_attack"] = reports["damage_by_attack"][..., : len(self.boss.moves)]
        return report


_REPORT_AS = ("won", "return_", "damage_by_attack")
_AUTORESETS: dict[AutoresetMode, Literal["next_step", "same_step", "disabled"]] = {
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.DISABLED: "disabled",
}


def make_options(options: dict[str, Any]) -> ArenaOptions:
    """Return the options of an environment, with a clear error for one that does not exist."""
    refuse_unknown_options("soulslab/Arena-v0", options, ArenaOptions.__struct_fields__)
    return ArenaOptions(**options)
