"""Statistics of training episodes: counted by the actor, averaged by the learner."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.learn.actors.transport import EpisodeResult, FightCounts
from soulslab.learn.environment import FightNames, Info
from soulslab.learn.telemetry import FightStats

WINDOW: Final = 100
"""Number of episodes in the moving averages: about an hour of game time."""

MIN_REPORTED_EPISODES: Final = 20
"""Smallest number of episodes over which the means of a message are taken, if there are enough; a single fight is too
noisy and shows few of the boss's attacks."""


_BY_ATTACK: Final = ("uses_by_attack", "hits_by_attack")
_BY_PHASE: Final = ("decisions_by_phase", "damage_dealt_by_phase", "damage_taken_by_phase")
_REPORTED: Final = ("damage_by_attack", "start_pose", "actions_by_situation", *_BY_ATTACK, *_BY_PHASE)


class EpisodeCounter:
    """Sums over the running episodes of N environments."""

    def __init__(self, n_envs: int, n_actions: int, names: FightNames) -> None:
        """Start with new episodes; ``names`` are those of the environment's reports."""
        self._n_actions = n_actions
        self._names = names
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
        terms = reward_terms(info)
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
        row = {name: fight[name][i] for name in _REPORTED if is_known and name in fight}
        damage = _by_name(row, "damage_by_attack", self._names.attacks)
        killer = int(fight["killed_by"][i]) if damage and "killed_by" in fight else -1
        sums = msgspec.structs.asdict(running) | {"actions": tuple(running.actions)}
        return EpisodeResult(
            **sums,
            is_won=bool(fight["won"][i]) if is_known else None,
            damage_by_attack=damage,
            weights_version=version,
            killed_by=self._names.attacks[killer] if killer >= 0 else "",
            start_pose=int(row.get("start_pose", -1)),
            fight=_counts(row, self._names),
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
        fights = [result.fight for result in results]
        dealt = means_by_name([fight.damage_dealt_by_phase for fight in fights])
        taken = means_by_name([fight.damage_taken_by_phase for fight in fights])
        return FightStats(
            env_steps=env_steps,
            n_fights=len(results),
            reward_terms=means_by_name([result.reward_terms for result in results]),
            damage_by_attack=means_by_name([result.damage_by_attack for result in results]),
            kills_by_attack=kills_by_attack(results),
            wins_by_pose=wins_by_pose(results),
            action_shares=_shares([result.actions for result in results]),
            uses_by_attack=means_by_name([fight.uses_by_attack for fight in fights]),
            hits_by_attack=means_by_name([fight.hits_by_attack for fight in fights]),
            damage_dealt=sum(dealt.values()) if dealt else None,
            damage_taken=sum(taken.values()) if taken else None,
            decisions_by_phase=means_by_name([fight.decisions_by_phase for fight in fights]),
            damage_dealt_by_phase=dealt,
            damage_taken_by_phase=taken,
            actions_by_situation=_actions_by_situation(fights),
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


def reward_terms(info: Info) -> dict[str, NDArray[Any]]:
    """Return the terms of the reward of this step, each (N,), including those of the last step of an episode."""
    terms = {name: values for name, values in info.get("reward_terms", {}).items() if not name.startswith("_")}
    last = info.get("final_info", {}).get("reward_terms", {})
    for name, values in last.items():
        if not name.startswith("_"):
            where = last.get(f"_{name}", np.ones(len(values), np.bool_))
            # Gymnasium's SyncVectorEnv reports the last step of an episode only there.
            terms[name] = np.where(where, values, terms.get(name, 0.0))
    return terms


def _counts(row: dict[str, Any], names: FightNames) -> FightCounts:
    """Return the counts of the report of a fight; empty for what it does not have."""
    actions = row.get("actions_by_situation", ())
    return FightCounts(
        **{name: _by_name(row, name, names.attacks) for name in _BY_ATTACK},
        **{name: _by_name(row, name) for name in _BY_PHASE},
        actions_by_situation={
            situation: tuple(np.asarray(counts, np.int64).tolist())
            for situation, counts in zip(names.situations, actions, strict=False)
        },
    )


def _by_name(row: dict[str, Any], name: str, columns: Sequence[str] | None = None) -> dict[str, float]:
    """Return a value of a report by the names of its columns, by default "1", "2" ...; empty if it is unknown."""
    if name not in row or columns == ():
        return {}
    values = np.asarray(row[name], np.float64).tolist()
    return dict(zip(columns or map(str, range(1, len(values) + 1)), values, strict=True))


def _shares(rows: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Return the share of each column in the sum of all rows; empty if that is 0."""
    counts = np.sum(rows, axis=0)
    return tuple((counts / counts.sum()).tolist()) if counts.sum() else ()


def _actions_by_situation(fights: Sequence[FightCounts]) -> dict[str, tuple[float, ...]]:
    """Return the share of each action among those of all fights, by situation."""
    names = dict.fromkeys(name for fight in fights for name in fight.actions_by_situation)
    return {
        name: _shares([fight.actions_by_situation[name] for fight in fights if name in fight.actions_by_situation])
        for name in names
    }


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
