"""Rewards and the report of a fight, computed from its states.

The quantities are those of the simulator (`soulslab.envs.rewards`), with two differences, because only health can be
read: a blow without damage (while the boss waits for its second phase) is not counted as a hit, and a projectile is
attributed to the attack that was observed last.
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
from soulslab.arena.vocabulary import FIRST_ROLL, HEAVY_ATTACK, LIGHT_ATTACK, N_ACTIONS
from soulslab.envs.rewards import Reward, Transition, call_reward, reward_weights
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.episode import Outcome

#: Largest distance of the player from a random start pose that it starts at (`random_pose` adds up to 0.5 m along x
#: and y each).
_POSE_M = 1.0


class _ScoreState(NamedTuple):
    """Values of a state that are compared with those of the next state, as plain numbers, because records are slow."""

    player_hp: float
    boss_hp: float
    centre_m: float
    distance_m: float
    boss_animation_s: float
    phase: int


class FightScore:
    """Computes the rewards of steps and the report of a fight.

    For each step, call `begin_step`, `add` for each decision, and `finish_step`.
    """

    def __init__(self, scenario: Scenario, reward: Reward, step_s: float) -> None:
        weights = reward_weights(reward)
        self._reward = reward
        self._weights = np.array([weights.get(name, 0.0) for name in REWARD_TERMS])
        self._scenario = scenario
        self._step_s = step_s
        self.attack_names = tuple(dict.fromkeys(scenario.attacks.values()))
        self._attacks = {name: self.attack_names.index(attack) for name, attack in scenario.attacks.items()}
        # Only reward functions need complete states.
        self._states_before, self._states = np.zeros(1, DUEL_STATE), np.zeros(1, DUEL_STATE)
        self._before = self._last = _ScoreState(0.0, 0.0, 0.0, 0.0, 0.0, 1)
        self._terms = np.zeros(st.N_TERMS)
        self._has_function = callable(reward)
        self.term_names = ("function",) if self._has_function else REWARD_TERMS
        self._player_max_hp = 1.0
        self.n_decisions = 0
        self._begin_counts()

    def begin(self, state: Record, start_pose: int) -> None:
        """Begin a fight with its first `DUEL_STATE` record and the index of the start pose; -1 for the fixed pose."""
        self.n_decisions = 0
        self._begin_counts()
        self.set_baseline(state)
        self._start_pose = start_pose
        self._player_max_hp = float(state.player_max_hp)

    @property
    def quantities(self) -> dict[str, float]:
        """Quantity of each reward term in the last step, before weights."""
        return dict(zip(REWARD_TERMS, self._terms.tolist(), strict=True))

    def set_baseline(self, state: Record) -> None:
        """Compare the next state with this one, so that changes that were written are not counted as damage."""
        self._keep(state, self._score_state(state))

    def begin_step(self) -> None:
        """Begin a step, which may take several decisions."""
        self._terms[:] = 0.0
        self._before = self._last
        if self._has_function:
            self._states_before[0] = self._states[0]
        self._n = 0

    def add(self, action: int, state: Record, boss_animation: str, *, is_falling: bool, is_over: bool) -> None:
        """Add a decision to the step: one of the 20 actions, and the state and animation of the boss after it."""
        last, now = self._last, self._score_state(state)
        if self._n == 0:
            self._actions[2 * (self._running >= 0) + (last.distance_m < st.NEAR_M), action] += 1
        self._n += 1
        self._decisions_by_phase[last.phase - 1] += 1
        self._dealt_by_phase[last.phase - 1] += max(0.0, last.boss_hp - now.boss_hp)
        self.n_decisions += 1
        if FIRST_ROLL <= action < LIGHT_ATTACK:
            self._terms[st.ROLL] += 1
        elif LIGHT_ATTACK <= action <= HEAVY_ATTACK:
            self._terms[st.ATTACK] += 1
        if now.boss_hp < last.boss_hp:
            self._hits_dealt += 1
            self._streak += 1
            self._terms[st.HIT_STREAK] += min(self._streak, MAX_STREAK)
        # A player that dies while it falls died of the fall, even if a blow pushed it over the edge.
        if now.player_hp < last.player_hp and not (is_falling and now.player_hp <= 0.0):
            self._count_hit(last, now, boss_animation)
        self._follow_attack(boss_animation, is_restarted=now.boss_animation_s < last.boss_animation_s)
        if not is_over and now.centre_m > CENTRE_FREE_M:
            self._terms[st.CENTRE] += last.centre_m - now.centre_m
        self._keep(state, now)

    def finish_step(self, outcome: Outcome, *, is_truncated: bool) -> tuple[float, dict[str, float]]:
        """Return the reward of the step, and the contribution of each term to it."""
        terms, before, after = self._terms, self._before, self._last
        terms[st.BOSS_DAMAGE] = (before.boss_hp - after.boss_hp) / self._scenario.boss_max_hp
        terms[st.PLAYER_DAMAGE] = (before.player_hp - after.player_hp) / self._player_max_hp
        terms[st.WIN], terms[st.DEATH], terms[st.TIME] = outcome == "won", outcome == "lost", self._n
        self._rolls += int(terms[st.ROLL])
        self._attacks_begun += int(terms[st.ATTACK])
        if self._has_function:
            quantities = {name: terms[i : i + 1].copy() for i, name in enumerate(REWARD_TERMS)}
            ends = np.array([bool(outcome)]), np.array([is_truncated])
            transition = Transition(self._states_before.copy(), self._states.copy(), quantities, *ends)
            reward = float(call_reward(self._reward, transition, 1)[0])  # type: ignore[arg-type]
            contributions = {"function": reward}
        else:
            weighted = self._weights * terms
            contributions = dict(zip(REWARD_TERMS, weighted.tolist(), strict=True))
            reward = sum(contributions.values())
        self._return += reward
        return reward, contributions

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
            "decisions_by_phase": self._decisions_by_phase.copy(),
            "damage_taken_by_phase": self._taken_by_phase.copy(),
            "damage_dealt_by_phase": self._dealt_by_phase.copy(),
            "damage_by_attack": self._damage_by_attack.copy(),
            "uses_by_attack": self._uses_by_attack.copy(),
            "hits_by_attack": self._hits_by_attack.copy(),
            "actions_by_situation": self._actions.copy(),
        }

    def empty_report(self) -> dict[str, Any]:
        """Return the report of a fight without decisions, with the keys and types of `report`."""
        report = self.report(is_won=False)
        unknown = {name: np.int64(-1) for name in ("start_pose", "killed_by")}
        zeros = {
            name: np.zeros_like(value) if isinstance(value, np.ndarray) else type(value)(0)
            for name, value in report.items()
        }
        return zeros | unknown

    def _keep(self, state: Record, values: _ScoreState) -> None:
        self._last = values
        if self._has_function:
            self._states[0] = state

    def _begin_counts(self) -> None:
        self._n = 0
        self._streak = self._hits_dealt = self._hits_taken = self._rolls = self._attacks_begun = 0
        self._damage_taken = self._return = 0.0
        n = len(self.attack_names)
        self._damage_by_attack: NDArray[np.float64] = np.zeros(n)
        self._uses_by_attack: NDArray[np.uint16] = np.zeros(n, np.uint16)
        self._hits_by_attack: NDArray[np.uint16] = np.zeros(n, np.uint16)
        self._decisions_by_phase: NDArray[np.int64] = np.zeros(st.N_PHASES, np.int64)
        self._taken_by_phase: NDArray[np.float64] = np.zeros(st.N_PHASES)
        self._dealt_by_phase: NDArray[np.float64] = np.zeros(st.N_PHASES)
        self._actions: NDArray[np.uint16] = np.zeros((len(st.SITUATIONS), N_ACTIONS), np.uint16)
        self._unhit: set[int] = set()
        self._boss_animation = ""
        self._attack = self._running = self._killed_by = self._start_pose = -1

    def _follow_attack(self, boss_animation: str, *, is_restarted: bool) -> None:
        """Count a use of an attack when it begins; an attack of several animations is one use."""
        running = self._attacks.get(boss_animation, -1)
        is_new = running != self._running or (is_restarted and boss_animation == self._boss_animation)
        self._running, self._boss_animation = running, boss_animation
        if running >= 0:
            self._attack = running
            if is_new:
                self._uses_by_attack[running] += 1
                self._unhit.add(running)

    def _count_hit(self, last: _ScoreState, now: _ScoreState, boss_animation: str) -> None:
        damage = last.player_hp - now.player_hp
        self._hits_taken += 1
        self._damage_taken += damage
        self._taken_by_phase[last.phase - 1] += damage
        self._streak = 0
        # An attack does not hit in its first tenth of a second, so the blow belongs to the attack observed before.
        attack = self._attack if self._attack >= 0 else self._attacks.get(boss_animation, -1)
        if attack >= 0:
            self._damage_by_attack[attack] += damage
            if attack in self._unhit:
                self._unhit.remove(attack)
                self._hits_by_attack[attack] += 1
        if now.player_hp <= 0.0:
            self._killed_by = attack

    def _score_state(self, state: Record) -> _ScoreState:
        x, y = self._scenario.reward_centre_m
        pose, boss = state["player_pose"].tolist(), state["boss_pose"].tolist()
        return _ScoreState(
            player_hp=float(state["player_hp"]),
            boss_hp=float(state["boss_hp"]),
            centre_m=math.hypot(pose[0] - x, pose[1] - y),
            distance_m=math.hypot(pose[0] - boss[0], pose[1] - boss[1]),
            boss_animation_s=float(state["boss_animation_duration"]),
            phase=min(max(int(state["phase"]), 1), st.N_PHASES),  # a game may report any number
        )


def nearest_pose(scenario: Scenario, state: Record) -> int:
    """Return the index of the random start pose at which the player is; -1 if it is at none of them."""
    x, y = float(state.player_pose[0]), float(state.player_pose[1])
    distances_m = [math.hypot(pose[0] - x, pose[1] - y) for pose in scenario.player_poses_random]
    distance_m = min(distances_m, default=math.inf)
    return distances_m.index(distance_m) if distance_m < _POSE_M else -1
