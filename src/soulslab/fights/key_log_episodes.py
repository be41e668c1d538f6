"""Fights of a key log (``soulslab arena --log``) as episodes of ``soulslab/Arena-v0``.

A person presses keys in any of the 60 ticks of a second; a decision has 6 ticks. A decision therefore starts when a
button is pressed, otherwise 6 ticks after the previous one. It has the observation at its start, an action that is
allowed there, and at most the usual length. Its result is that of the fight in the window, tick by tick.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.features import write_features, write_state
from soulslab.arena.player_rules import write_mask
from soulslab.arena.records import DUEL, MAX_DECISIONS, REWARD_TERMS, TICKS_PER_DECISION, Record
from soulslab.arena.relative_features import write_relative
from soulslab.arena.simulator import CENTRE_FREE_M
from soulslab.arena.vocabulary import N_ACTIONS, NOTHING
from soulslab.arena.window.key_log import KeyLog, State
from soulslab.arena.window.key_log_replay import Replay
from soulslab.envs.duels import ArenaOptions
from soulslab.envs.rewards import reward_weights
from soulslab.envs.spaces import ROW_NAMES, duel_observation, row
from soulslab.errors import EnvironmentUsageError, KeyLogError
from soulslab.learn.demonstrations.recorded_episode import Episode, stack

#: Reward terms that are counters of the rules; the value for a step is the difference.
_COUNTED: Final = (("roll", "n_rolls"), ("attack", "n_attacks"), ("hit_streak", "streak_gain"))

_log = logging.getLogger(__name__)


def episodes_of_key_log(log: KeyLog, options: ArenaOptions) -> Iterator[Episode]:
    """Yield the completed fights of a log.

    Args:
        log: Log from :func:`soulslab.arena.window.key_log.read_key_log`.
        options: Options of the environment used for training; the start poses may differ.

    Raises:
        KeyLogError: Boss or phase differ, a program changed the fight, or the log cannot be replayed.
        EnvironmentUsageError: The reward is a Python function, which only the environment itself can call.
    """
    _check(log, options)
    replay = Replay(log)
    game = replay.fight
    fight: _EpisodeBuilder | None = None
    n_fights = 0
    while not replay.is_over:
        if game.stage == "fighting" and game.n_fights != n_fights:
            if fight is not None:
                _log.info("fight %d of the log was not completed; skipped", n_fights)
            n_fights, fight = game.n_fights, _EpisodeBuilder(game.fight, options)
        before = game.duel.copy()
        replay.tick()
        if replay.is_over or fight is None:
            continue
        fight.tick(before, game.action, is_press=game.is_press)
        if game.stage in ("won", "lost") or fight.n_decisions >= MAX_DECISIONS:
            yield fight.end(game.duel, is_won=game.stage == "won", is_terminated=game.stage != "fighting")
            fight = None


class _EpisodeBuilder:
    """Builds an episode from the ticks of a fight.

    Attributes:
        n_decisions: Number of completed decisions.
    """

    def __init__(self, rules: Record, options: ArenaOptions) -> None:
        self._rules = rules
        self._options = options
        self._weights = reward_weights(options.reward)
        self._observations: list[Any] = []
        self._masks: list[NDArray[np.bool_]] = []
        self._actions: list[int] = []
        self._taken: list[int] = []
        self._rewards: list[float] = []
        self._step_start: Record = np.zeros(1, DUEL)[0]
        self._decision_start = self._step_start
        self._ticks = 0  # of the current decision
        self._centre_m = 0.0  # towards the centre, in the current step
        self.n_decisions = 0

    def tick(self, before: Record, action: int, *, is_press: bool) -> None:
        """Add a tick: the duel before it, and the action during it."""
        is_first = not self._actions
        if is_first or self._ticks == TICKS_PER_DECISION or is_press:
            if self._ticks:
                self._end_decision(before, is_over=False)
            self._begin_decision(before, action, is_first=is_first)
        self._ticks += 1

    def end(self, last: Record, *, is_won: bool, is_terminated: bool) -> Episode:
        """Return the episode, given the duel after its last tick."""
        if self._ticks:
            self._end_decision(last, is_over=is_terminated)
        self._end_step(last, is_won=is_won)
        self._observe(last)
        return Episode(
            observations=stack(self._observations),
            actions=np.array(self._actions, np.int64),
            rewards=np.array(self._rewards),
            masks=np.array(self._masks),
            n_decisions=np.array(self._taken, np.int64),
            is_terminated=is_terminated,
            is_won=is_won,
        )

    def _begin_decision(self, duel: Record, action: int, *, is_first: bool) -> None:
        self._decision_start, self._ticks = duel, 0
        mask = np.zeros(N_ACTIONS, np.bool_)
        n_open = write_mask(duel, self._rules, mask)
        if not is_first and self._options.skip_locked and n_open == 1:
            return
        if not is_first:
            self._end_step(duel, is_won=False)
        self._observe(duel)
        self._actions.append(action if mask[action] else NOTHING)
        self._taken.append(0)
        self._step_start, self._centre_m = duel, 0.0

    def _end_decision(self, duel: Record, *, is_over: bool) -> None:
        self.n_decisions += 1
        self._taken[-1] += 1
        self._ticks = 0
        after_m = self._from_centre_m(duel)
        if not is_over and after_m > CENTRE_FREE_M:
            self._centre_m += self._from_centre_m(self._decision_start) - after_m

    def _end_step(self, duel: Record, *, is_won: bool) -> None:
        """Add the reward of the current step, with the terms of `soulslab.arena.simulator`."""
        start, rules = self._step_start, self._rules
        terms = {
            "boss_damage": (start.b_hp - duel.b_hp) / rules.b_max_hp,
            "player_damage": (start.p_hp - duel.p_hp) / rules.p_max_hp,
            "win": float(is_won),
            "death": float(duel.p_hp <= 0.0),
            "time": float(self._taken[-1]),
            "centre": self._centre_m,
        }
        terms |= {name: float(duel[field] - start[field]) for name, field in _COUNTED}
        self._rewards.append(sum(self._weights.get(name, 0.0) * float(terms[name]) for name in REWARD_TERMS))

    def _observe(self, duel: Record) -> None:
        """Add the observation and the action mask for a state."""
        mask = np.zeros(N_ACTIONS, np.bool_)
        write_mask(duel, self._rules, mask)
        self._masks.append(mask)
        kind = self._options.observation
        if kind in ROW_NAMES:
            features = np.zeros(len(ROW_NAMES[kind]), np.float32)
            write = write_relative if kind == "relative" else write_features
            write(duel, self._rules, features)
            self._observations.append(features)
            return
        states = np.zeros(1, DUEL_STATE)
        write_state(duel, self._rules, states[0])
        self._observations.append(row(duel_observation(states), 0))

    def _from_centre_m(self, duel: Record) -> float:
        return float(np.hypot(duel.p_x - self._rules.reward_x, duel.p_y - self._rules.reward_y))


def _check(log: KeyLog, options: ArenaOptions) -> None:
    header = log.header
    for name, theirs, ours in (("boss", header.boss, options.boss), ("phase", header.phase, options.phase)):
        if str(theirs) != str(ours):
            raise KeyLogError(
                log.source, f"its {name} is {theirs}, but the environment has {ours}; set the {name} of the environment"
            )
    if any(isinstance(line, State) for line in log.lines):
        raise KeyLogError(log.source, "a program changed the fight, so the log is not the play of a person")
    if callable(options.reward):
        raise EnvironmentUsageError("reward: a function cannot be evaluated for a key log; use a table of terms")
