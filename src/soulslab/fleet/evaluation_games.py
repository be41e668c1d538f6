"""Evaluation by games: some games play a candidate policy greedily, and their fights count towards its win rate.

A candidate is the average of the learner's weights at one moment, the same that is saved as a policy. Each evaluation
game contributes the same number of fights, its first ones with the candidate, so that short fights do not count more
than long ones (`soulslab.learn.evaluate`). The learner continues meanwhile, and takes the steps of these fights, too.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.fleet.access import Access
from soulslab.fleet.messages import EvaluationStatus
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.spool import Spool
from soulslab.learn.actors.episode_window import kills_by_attack, means_by_name, wins_by_pose
from soulslab.learn.actors.transport import EpisodeResult, Weights
from soulslab.learn.algorithm import Algorithm
from soulslab.learn.archive import Tensors
from soulslab.learn.evaluate import wilson_interval
from soulslab.learn.policy_header import Player
from soulslab.learn.replay.step_rows import Outcome
from soulslab.learn.telemetry import Evaluated
from soulslab.learn.training_loop import FinishedEvaluation

if TYPE_CHECKING:
    from soulslab.fleet.redis_learner_end import RedisLearnerEnd
    from soulslab.learn.network_policy import NetworkPolicy


class EvaluationEnd(RedisActorEnd):
    """The end of an evaluation game of one environment; it pulls candidates, and only between episodes."""

    def __init__(self, access: Access, worker: str, row_type: np.dtype[Any], spool: Spool, expected: Tensors) -> None:
        """Start sending; see `RedisActorEnd`."""
        super().__init__(access, worker, 1, row_type, spool, expected)
        self._weights_keys = self._keys.candidate_version, self._keys.candidate
        self._is_between_episodes = True

    def push(self, rows: NDArray[Any]) -> None:
        """Send the rows of one step."""
        self._is_between_episodes = rows["outcome"][-1] in (Outcome.TERMINATED, Outcome.FINAL)
        super().push(rows)

    def push_episodes(self, results: Sequence[EpisodeResult]) -> None:
        """Send the results of episodes, with the number of the candidate that played them."""
        candidate, _ = self._pulled
        super().push_episodes([msgspec.structs.replace(result, candidate=candidate) for result in results])

    def pull(self, newer_than: int) -> Weights | None:
        """Return the newest candidate if it is new and no episode runs."""
        return super().pull(newer_than) if self._is_between_episodes else None


class Evaluation:
    """The evaluation of one candidate.

    Attributes:
        candidate: Random number of the candidate, not 0.
        policy: A copy of the policy, with its weights.
        n_fights: Number of fights; slightly more if it is not a multiple of the number of games.
    """

    def __init__(self, policy: Player, n_fights: int) -> None:
        self.candidate = secrets.randbits(60) + 1
        self.policy = policy
        self.n_fights = n_fights
        self._results: dict[str, list[EpisodeResult]] = {}

    def add(self, incarnation: str, result: EpisodeResult) -> None:
        """Add the result of a fight of a game; that of another candidate, or of a failed game, is ignored."""
        if result.candidate != self.candidate or result.is_won is None:
            return
        results = self._results.setdefault(incarnation, [])
        if len(results) < self.n_fights:
            results.append(result)

    def n_done(self, games: Set[str]) -> int:
        """Return the number of fights that count so far, given the incarnations of the evaluation games."""
        return sum(len(results) for results in self._counted(games).values())

    def result(self, games: Set[str]) -> Evaluated | None:
        """Return the result, None before each game has played its share; a game that has ended counts if it had."""
        n_each = self._n_each(games)
        counted = self._counted(games)
        if not games or any(len(counted.get(game, [])) < n_each for game in games):
            return None
        results = [result for each in counted.values() if len(each) == n_each for result in each]
        n_wins = sum(result.is_won is True for result in results)
        low, high = wilson_interval(n_wins, len(results))
        return Evaluated(
            env_steps=self.policy.header.env_steps,
            n_fights=len(results),
            mean_return=float(np.mean([result.total_reward for result in results])),
            win_rate=n_wins / len(results),
            low=low,
            high=high,
            damage_by_attack=means_by_name([result.damage_by_attack for result in results]),
            kills_by_attack=kills_by_attack(results),
            wins_by_pose=wins_by_pose(results),
            uses_by_attack=means_by_name([result.fight.uses_by_attack for result in results]),
            hits_by_attack=means_by_name([result.fight.hits_by_attack for result in results]),
        )

    def _n_each(self, games: Set[str]) -> int:
        return math.ceil(self.n_fights / max(1, len(games)))

    def _counted(self, games: Set[str]) -> dict[str, list[EpisodeResult]]:
        n_each = self._n_each(games)
        return {game: results[:n_each] for game, results in self._results.items()}


class EvaluationGames:
    """Evaluations, one after another, by the games that are there for it.

    Attributes:
        status: The last evaluation and the progress of the running one; None if no game evaluates.
    """

    def __init__(self, n_fights: int) -> None:
        self.status: EvaluationStatus | None = None
        self._n_fights = n_fights
        self._running: Evaluation | None = None
        self._last: Evaluated | None = None

    def advance(self, channel: RedisLearnerEnd, games: Set[str], algorithm: Algorithm) -> FinishedEvaluation | None:
        """Count the fights that have ended; return the evaluation if it is complete, and begin the next one.

        ``games`` are the incarnations of the evaluation games.
        """
        results, finished = channel.take_evaluations(), None
        if not games:
            self._running = self.status = None
            return None
        if self._running is not None:
            for incarnation, result in results:
                self._running.add(incarnation, result)
            if (found := self._running.result(games)) is not None:
                finished = FinishedEvaluation(found, self._running.policy)
                self._running, self._last = None, found
        if self._running is None:
            self._running = self._begin(channel, algorithm)
        self.status = EvaluationStatus(
            last=self._last, n_done=self._running.n_done(games), n_fights=self._running.n_fights
        )
        return finished

    def _begin(self, channel: RedisLearnerEnd, algorithm: Algorithm) -> Evaluation:
        """Publish the present best estimate of the policy as a candidate."""
        algorithm.policy_header()
        with algorithm.best_estimate() as estimate:
            policy = cast("NetworkPolicy[Any]", estimate).copy()  # a fleet trains no joined policies
        evaluation = Evaluation(policy, self._n_fights)
        tensors, factors = policy.weights(), channel.reward_factors
        weights = Weights(version=channel.version, epsilon=0.0, tensors=tensors, reward_factors=factors)
        channel.publish(weights, evaluation.candidate)
        return evaluation
