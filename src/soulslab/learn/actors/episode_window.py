"""Statistics of training episodes: counted by the actor, averaged by the learner."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.learn.actors.transport import EpisodeResult
from soulslab.learn.environment import Info
from soulslab.learn.telemetry import FightStats

WINDOW: Final = 100
"""Number of episodes in the moving averages: about an hour of game time."""

MIN_REPORTED_EPISODES: Final = 20
"""Smallest number of episodes over which the means of a message are taken, if there are enough; a single fight is too
noisy and shows few of the boss's attacks."""


class EpisodeCounter:
    """Sums over the running episodes of N environments."""

    def __init__(self, n_envs: int, n_actions: int, attack_names: Sequence[str]) -> None:
        """Start with new episodes; the names are in the order of ``info["fight"]["damage_by_attack"]``."""
        self._n_actions = n_actions
        self._attack_names = tuple(attack_names)
        self._running = [self._fresh() for _ in range(n_envs)]

    def record(
        self,
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        decisions: NDArray[np.int64],
        dones: NDArray[np.bool_],
        info: Info,
        version: int,
    ) -> list[EpisodeResult]:
        """Record one step of all environments, arrays (N,); return the results of the episodes that ended."""
        results = []
        terms = _terms_of(info)
        for i, running in enumerate(self._running):
            running.total_reward += float(rewards[i])
            running.n_decisions += int(decisions[i])
            running.n_steps += 1
            running.actions[actions[i]] += 1
            for name, values in terms.items():
                running.reward_terms[name] = running.reward_terms.get(name, 0.0) + float(values[i])
            if dones[i]:
                results.append(self._result(running, info, i, version))
                self._running[i] = self._fresh()
        return results

    def forget_running(self) -> None:
        """Discard the running episodes, because their environments were reset."""
        self._running = [self._fresh() for _ in self._running]

    def state(self) -> bytes:
        """Return everything that :meth:`load` needs."""
        return msgspec.json.encode(self._running)

    def load(self, state: bytes) -> None:
        """Continue from what :meth:`state` returned."""
        self._running = msgspec.json.decode(state, type=list[_Running])

    def _fresh(self) -> _Running:
        return _Running(actions=[0] * self._n_actions)

    def _result(self, running: _Running, info: Info, i: int, version: int) -> EpisodeResult:
        fight = info.get("final_info", {}).get("fight", {})
        # An episode that ended because its game failed has no result.
        is_known = "won" in fight and bool(fight.get("_won", np.ones(i + 1, np.bool_))[i])
        damage: dict[str, float] = {}
        if is_known and self._attack_names and "damage_by_attack" in fight:
            taken = np.asarray(fight["damage_by_attack"][i], np.float64).tolist()
            damage = dict(zip(self._attack_names, taken, strict=True))
        killer = int(fight["killed_by"][i]) if damage and "killed_by" in fight else -1
        sums = msgspec.structs.asdict(running) | {"actions": tuple(running.actions)}
        return EpisodeResult(
            **sums,
            is_won=bool(fight["won"][i]) if is_known else None,
            damage_by_attack=damage,
            weights_version=version,
            killed_by=self._attack_names[killer] if killer >= 0 else "",
            start_pose=int(fight["start_pose"][i]) if is_known and "start_pose" in fight else -1,
        )


class EpisodeWindow:
    """Moving averages over the last finished episodes.

    Attributes:
        n_episodes: Number of finished episodes.
    """

    def __init__(self) -> None:
        self.n_episodes = 0
        self._last: deque[EpisodeResult] = deque(maxlen=WINDOW)
        self._n_unreported = 0

    def add(self, results: Sequence[EpisodeResult]) -> None:
        """Add finished episodes, in their order."""
        self.n_episodes += len(results)
        self._last.extend(results)
        self._n_unreported += len(results)

    @property
    def is_full(self) -> bool:
        """Whether the averages cover a full window."""
        return len(self._last) == WINDOW

    @property
    def win_rate(self) -> float | None:
        """Share of wins; None if no result is known."""
        return _mean([float(result.is_won) for result in self._last if result.is_won is not None])

    @property
    def mean_return(self) -> float | None:
        """Mean return; None before the first episode."""
        return _mean([result.total_reward for result in self._last])

    @property
    def mean_decisions(self) -> float | None:
        """Mean length (game decisions); None before the first episode."""
        return _mean([float(result.n_decisions) for result in self._last])

    def stats(self, env_steps: int) -> FightStats | None:
        """Return the means over the new episodes, at least `MIN_REPORTED_EPISODES`; None without new ones."""
        if self._n_unreported == 0:
            return None
        results = list(self._last)[-max(self._n_unreported, MIN_REPORTED_EPISODES) :]
        self._n_unreported = 0
        actions = np.sum([result.actions for result in results], axis=0)
        return FightStats(
            env_steps=env_steps,
            n_fights=len(results),
            reward_terms=means_by_name([result.reward_terms for result in results]),
            damage_by_attack=means_by_name([result.damage_by_attack for result in results]),
            kills_by_attack=kills_by_attack(results),
            wins_by_pose=wins_by_pose(results),
            action_shares=tuple((actions / max(1, actions.sum())).tolist()),
        )

    def state(self) -> bytes:
        """Return everything that :meth:`load` needs."""
        return msgspec.json.encode((self.n_episodes, list(self._last), self._n_unreported))

    def load(self, state: bytes) -> None:
        """Continue from what :meth:`state` returned."""
        kind = tuple[int, list[EpisodeResult], int]
        self.n_episodes, last, self._n_unreported = msgspec.json.decode(state, type=kind)
        self._last = deque(last, maxlen=WINDOW)


class _Running(msgspec.Struct):
    actions: list[int]
    total_reward: float = 0.0
    n_decisions: int = 0
    n_steps: int = 0
    reward_terms: dict[str, float] = {}


def _terms_of(info: Info) -> dict[str, NDArray[Any]]:
    """Return the terms of the reward of this step, each (N,), including those of the last step of an episode."""
    terms = {name: values for name, values in info.get("reward_terms", {}).items() if not name.startswith("_")}
    last = info.get("final_info", {}).get("reward_terms", {})
    for name, values in last.items():
        if not name.startswith("_"):
            where = last.get(f"_{name}", np.ones(len(values), np.bool_))
            # Gymnasium's SyncVectorEnv reports the last step of an episode only there.
            terms[name] = np.where(where, values, terms.get(name, 0.0))
    return terms


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def kills_by_attack(results: Sequence[EpisodeResult]) -> dict[str, float]:
    """Return the share of the episodes that each attack ended."""
    return means_by_name([{result.killed_by: 1.0} if result.killed_by else {} for result in results])


def means_by_name(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each name over all rows, where a missing name counts as 0."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: sum(row.get(name, 0.0) for row in rows) / len(rows) for name in names}


def wins_by_pose(results: Sequence[EpisodeResult]) -> dict[str, float]:
    """Return the share of wins from each of the varied start poses, in the order of their numbers."""
    wins: dict[int, list[bool]] = {}
    for result in results:
        if result.start_pose >= 0 and result.is_won is not None:
            wins.setdefault(result.start_pose, []).append(result.is_won)
    return {str(pose): sum(won) / len(won) for pose, won in sorted(wins.items())}
