"""Rewards and the report of a fight, from its states alone: the quantities of `soulslab.envs.rewards`.

They are those of the simulator, but for what cannot be seen in health: a blow that takes nothing (the boss waits for
its second phase) is no hit, and a projectile counts for the attack that was seen last.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulslab.arena import records as st
from soulslab.arena.boss_rules import MAX_STREAK
from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.records import REWARD_TERMS, Record
from soulslab.arena.simulator import CENTRE_FREE_M
from soulslab.arena.vocabulary import FIRST_ROLL, HEAVY_ATTACK, LIGHT_ATTACK
from soulslab.envs.rewards import Reward, Transition, call_reward, reward_weights
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.episode import Verdict

#: A start belongs to the pose of a list that it is nearest to, if it is this near (`random_pose` adds 0.5 m each way).
_POSE_M = 1.0


class _Mark(NamedTuple):
    """What of a state is compared with the one before; plain numbers, as reading them from a record takes long."""

    player_hp: float
    boss_hp: float
    centre_m: float


class FightScore:
    """Counts a fight from state to state.

    Args:
        scenario: The boss and its place.
        reward: See `soulslab.envs.rewards`.
        step_s: Game time of a decision.

    Attributes:
        attack_names: Names of the boss's attacks.
        n_decisions: Decisions of this fight.
    """

    def __init__(self, scenario: Scenario, reward: Reward, step_s: float) -> None:
        weights = reward_weights(reward)
        self._reward = reward
        self._weights = np.array([weights.get(name, 0.0) for name in REWARD_TERMS])
        self._scenario = scenario
        self._step_s = step_s
        self.attack_names = tuple(dict.fromkeys(scenario.attacks.values()))
        self._attacks = {name: self.attack_names.index(attack) for name, attack in scenario.attacks.items()}
        # Whole states are kept for reward functions only.
        self._states_before, self._states = np.zeros(1, DUEL_STATE), np.zeros(1, DUEL_STATE)
        self._before = self._last = _Mark(0.0, 0.0, 0.0)
        self._terms = np.zeros(st.N_TERMS)
        self._has_function = callable(reward)
        self._player_max_hp = 1.0
        self.n_decisions = 0
        self._begin_counts()

    def begin(self, state: Record, start_pose: int) -> None:
        """Begin a fight with its first state and the number of the player's start pose, -1 for the fixed one."""
        self.n_decisions = 0
        self._begin_counts()
        self.note(state)
        self._start_pose = start_pose
        self._player_max_hp = float(state.player_max_hp)

    @property
    def quantities(self) -> dict[str, float]:
        """Quantity of each reward term in the last step, before weights."""
        return dict(zip(REWARD_TERMS, self._terms.tolist(), strict=True))

    def note(self, state: Record) -> None:
        """Take a state for given: what changed in it since the last decision was written, not fought for."""
        self._last = self._mark(state)
        if self._has_function:
            self._states[0] = state

    def begin_step(self) -> None:
        """Begin a step, which may take several decisions."""
        self._terms[:] = 0.0
        self._before = self._last
        if self._has_function:
            self._states_before[0] = self._states[0]
        self._n = 0

    def add(self, action: int, state: Record, boss_animation: str, *, is_falling: bool, is_over: bool) -> None:
        """Add a decision.

        Args:
            action: What was done.
            state: The state after it.
            boss_animation: Name of the boss's animation after it.
            is_falling: The player falls.
            is_over: The fight ended with it.
        """
        last, now = self._last, self._mark(state)
        self._n += 1
        self.n_decisions += 1
        if FIRST_ROLL <= action < LIGHT_ATTACK:
            self._terms[st.ROLL] += 1
        elif LIGHT_ATTACK <= action <= HEAVY_ATTACK:
            self._terms[st.ATTACK] += 1
        if now.boss_hp < last.boss_hp:
            self._hits_dealt += 1
            self._streak += 1
            self._terms[st.HIT_STREAK] += min(self._streak, MAX_STREAK)
        # A blow may push over the edge, but whoever dies falling died of the fall.
        if now.player_hp < last.player_hp and not (is_falling and now.player_hp <= 0.0):
            self._count_hit(last.player_hp - now.player_hp, now.player_hp <= 0.0, boss_animation)
        if boss_animation in self._attacks:
            self._attack = self._attacks[boss_animation]
        if not is_over and now.centre_m > CENTRE_FREE_M:
            self._terms[st.CENTRE] += last.centre_m - now.centre_m
        self.note(state)

    def end_step(self, verdict: Verdict, *, is_truncated: bool) -> tuple[float, dict[str, float]]:
        """Return the reward of the step, and what each term added to it."""
        terms, before, after = self._terms, self._before, self._last
        terms[st.BOSS_DAMAGE] = (before.boss_hp - after.boss_hp) / self._scenario.boss_max_hp
        terms[st.PLAYER_DAMAGE] = (before.player_hp - after.player_hp) / self._player_max_hp
        terms[st.WIN], terms[st.DEATH], terms[st.TIME] = verdict == "won", verdict == "lost", self._n
        self._rolls += int(terms[st.ROLL])
        self._attacks_begun += int(terms[st.ATTACK])
        if self._has_function:
            reward = self._call(bool(verdict), is_truncated)
            shares = {"function": reward}
        else:
            weighted = self._weights * terms
            shares = dict(zip(REWARD_TERMS, weighted.tolist(), strict=True))
            reward = sum(shares.values())
        self._return += reward
        return reward, shares

    def no_shares(self) -> dict[str, float]:
        """Return what each term adds to the reward of a step that did not come about."""
        return dict.fromkeys(("function",) if self._has_function else REWARD_TERMS, 0.0)

    def report(self, *, is_won: bool) -> dict[str, Any]:
        """Return ``info["fight"]``, with the keys and types of ``soulslab/Arena-v0``."""
        return {
            "n_decisions": np.int64(self.n_decisions),
            "start_pose": np.int64(self._start_pose),
            "killed_by": np.int64(self._killed_by),
            "hits_dealt": np.int64(self._hits_dealt),
            "hits_taken": np.int64(self._hits_taken),
            "rolls": np.int64(self._rolls),
            "attacks": np.int64(self._attacks_begun),
            "damage_taken": np.float64(self._damage_taken),
            "won": is_won,
            "return": np.float64(self._return),
            "time_s": np.float64(self.n_decisions * self._step_s),
            "damage_by_attack": self._damage_by_attack.copy(),
        }

    def empty_report(self) -> dict[str, Any]:
        """Return the report of a fight without decisions, with the keys and types of `report`."""
        report = self.report(is_won=False)
        damage = {"damage_by_attack": np.zeros_like(report.pop("damage_by_attack"))}
        nobody = {name: np.int64(-1) for name in ("start_pose", "killed_by")}
        return {name: type(value)(0) for name, value in report.items()} | nobody | damage

    def _begin_counts(self) -> None:
        self._n = 0
        self._streak = self._hits_dealt = self._hits_taken = self._rolls = self._attacks_begun = 0
        self._damage_taken = self._return = 0.0
        self._damage_by_attack: NDArray[np.float64] = np.zeros(len(self.attack_names))
        self._attack = self._killed_by = self._start_pose = -1

    def _count_hit(self, damage: float, is_deadly: bool, boss_animation: str) -> None:
        self._hits_taken += 1
        self._damage_taken += damage
        self._streak = 0
        # A blow does not land in an attack's first tenth of a second: it is of the one that was seen before.
        attack = self._attack if self._attack >= 0 else self._attacks.get(boss_animation, -1)
        if attack >= 0:
            self._damage_by_attack[attack] += damage
        if is_deadly:
            self._killed_by = attack

    def _call(self, is_terminated: bool, is_truncated: bool) -> float:
        terms = {name: self._terms[i : i + 1].copy() for i, name in enumerate(REWARD_TERMS)}
        ends = np.array([is_terminated]), np.array([is_truncated])
        transition = Transition(self._states_before.copy(), self._states.copy(), terms, *ends)
        return float(call_reward(self._reward, transition, 1)[0])  # type: ignore[arg-type]

    def _mark(self, state: Record) -> _Mark:
        x, y = self._scenario.reward_centre_m
        pose = state["player_pose"].tolist()
        return _Mark(float(state["player_hp"]), float(state["boss_hp"]), math.hypot(pose[0] - x, pose[1] - y))


def nearest_pose(scenario: Scenario, state: Record) -> int:
    """Return which of the random poses the player starts at; -1 if at none of them."""
    x, y = float(state.player_pose[0]), float(state.player_pose[1])
    far = [math.hypot(pose[0] - x, pose[1] - y) for pose in scenario.player_poses_random]
    nearest = int(np.argmin(far)) if far else -1
    return nearest if far and far[nearest] < _POSE_M else -1
