"""A key log's fights (``soulslab arena --log``) as episodes of ``soulslab/Arena-v0``: what a person did in the window.

A person presses keys in any of the 60 ticks of a second; a decision has 6. So a decision begins where a button goes
down, and else 6 ticks after the one before: each has the observation in which it was made, the action that was open
there, and at most a decision's length. What comes of it is the window's own fight, tick by tick.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.features import write_features, write_state
from soulslab.arena.player import write_mask
from soulslab.arena.relative import write_relative
from soulslab.arena.simulator import CENTRE_FREE_M
from soulslab.arena.state import DUEL, MAX_DECISIONS, REWARD_TERMS, TICKS_PER_DECISION, Record
from soulslab.arena.vocabulary import N_ACTIONS, NOTHING
from soulslab.arena.window.keylog import KeyLog, State
from soulslab.arena.window.replay import Replay
from soulslab.envs.duels import ArenaOptions
from soulslab.envs.rewards import reward_weights
from soulslab.envs.spaces import ROW_NAMES, duel_observation, row
from soulslab.errors import EnvironmentUsageError, KeyLogError
from soulslab.learn.demonstrations.recorded_episode import Episode, stack

#: What adds up over a fight as the rules play it; a step's share is the difference.
_COUNTED: Final = (("roll", "n_rolls"), ("attack", "n_attacks"), ("hit_streak", "streak_gain"))

_log = logging.getLogger(__name__)


def episodes_of_key_log(log: KeyLog, options: ArenaOptions) -> Iterator[Episode]:
    """Yield the fights of a log that were fought to their end.

    Args:
        log: From :func:`soulslab.arena.window.keylog.read_key_log`.
        options: Of the environment that is trained on; the start poses may differ.

    Raises:
        KeyLogError: Boss or phase are others, something other than keys changed the fight, or it does not play.
        EnvironmentUsageError: The reward is a Python function, which only the environment itself can call.
    """
    _check(log, options)
    replay = Replay(log)
    game = replay.fight
    fight: _Fight | None = None
    n_fights = 0
    while not replay.is_over:
        if game.stage == "fighting" and game.n_fights != n_fights:
            if fight is not None:
                _log.info("fight %d of the log was left before its end; passed over", n_fights)
            n_fights, fight = game.n_fights, _Fight(game.fight, options)
        before = game.duel.copy()
        replay.tick()
        if fight is None or replay.is_over:
            continue
        fight.tick(before, game.action, is_press=game.is_press)
        if game.stage in ("won", "lost") or fight.n_decisions >= MAX_DECISIONS:
            yield fight.end(game.duel, is_won=game.stage == "won", is_terminated=game.stage != "fighting")
            fight = None


class _Fight:
    """A fight that becomes an episode, tick by tick.

    Attributes:
        n_decisions: Decisions that have ended.
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
        self._ticks = 0  # of the decision that is under way
        self._centre_m = 0.0  # towards the centre, in the step that is under way
        self.n_decisions = 0

    def tick(self, before: Record, action: int, *, is_press: bool) -> None:
        """Take in a tick: the duel before it, and what was done in it."""
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
        self._look(last)
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
        self._look(duel)
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
        """Add the reward of the step that is under way: the terms of `soulslab.arena.simulator`."""
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

    def _look(self, duel: Record) -> None:
        """Add the observation and the mask of a moment."""
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
    for what, theirs, ours in (("boss", header.boss, options.boss), ("phase", header.phase, options.phase)):
        if str(theirs) != str(ours):
            raise KeyLogError(
                log.source, f"its {what} is {theirs}, that of the environment {ours}; set the environment's {what}"
            )
    if any(isinstance(line, State) for line in log.lines):
        raise KeyLogError(log.source, "a program wrote into the fight, so it is not what a person did by keys alone")
    if callable(options.reward):
        raise EnvironmentUsageError("reward: a function cannot be asked about a key log; use a table of terms")
