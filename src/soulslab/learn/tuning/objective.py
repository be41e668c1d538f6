"""The value of a training run under the objective of a study, computed from the run's telemetry.

If a run evaluates its policy, only the evaluations count; otherwise the moving averages of its progress count. The
maximum of many noisy measurements would be biased upwards, so ``win_rate`` and ``return`` are means over the last few
measurements.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import msgspec

from soulslab.learn.ppo import episode_tracker as tracker
from soulslab.learn.rainbow import episode_window as episodes
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.telemetry import Evaluated, Message, TrainProgress
from soulslab.learn.training import AnySettings
from soulslab.learn.tuning.settings import Objective, StudySettings

LEVELS: Final[dict[Objective, float]] = {"decisions_to_50": 0.5, "decisions_to_80": 0.8}
"""Win rates of the objectives that count the game decisions until a win rate is reached."""


def is_maximised(objective: Objective) -> bool:
    """Return whether a higher value is better."""
    return objective not in LEVELS


def run_settings(settings: AnySettings, objective: Objective) -> AnySettings:
    """Return the settings of the runs: if the objective is a win rate to reach, a run ends when it is reached."""
    if objective not in LEVELS:
        return settings
    run = msgspec.structs.replace(settings.run, stop_win_rate=LEVELS[objective])
    return msgspec.structs.replace(settings, run=run)


class _Point(NamedTuple):
    """One measurement: win rate (None if unknown), mean return, and whether it is reliable enough for a level."""

    win_rate: float | None
    mean_return: float
    is_solid: bool


class RunValue:
    """Computes the value of one run from its messages.

    Attributes:
        env_steps: Number of game decisions so far.
        seconds: Training time so far (s).
        win_rate: Last win rate; None before the first.
    """

    def __init__(self, settings: AnySettings, study: StudySettings) -> None:
        self.env_steps = 0
        self.seconds = 0.0
        self.win_rate: float | None = None
        self._run = settings.run
        self._full_window = episodes.WINDOW if isinstance(settings, RainbowSettings) else tracker.WINDOW
        self._is_evaluated = settings.run.evaluate_every > 0
        self._objective = study.objective
        self._last: deque[_Point] = deque(maxlen=study.window)
        self._best_win_rate: float | None = None
        self._reached_at: int | None = None

    def take(self, message: Message) -> bool:
        """Process a message of the run; return whether it was a measurement."""
        match message:
            case TrainProgress():
                self.env_steps, self.seconds = message.env_steps, message.seconds
                if self._is_evaluated or message.mean_return is None:
                    return False
                # An average over less than a full window is noisy: a level may be reached by chance.
                self._add(_Point(message.win_rate, message.mean_return, message.n_fights >= self._full_window))
            case Evaluated() if self._is_evaluated:
                self.env_steps = message.env_steps
                self._add(_Point(message.win_rate, message.mean_return, is_solid=True))
            case _:
                return False
        return True

    @property
    def share(self) -> float:
        """Completed share of the run, 0..1: the larger of the shares of its decisions and of its time."""
        return min(1.0, max(self.env_steps / self._run.total_steps, self.seconds / self._run.max_seconds))

    @property
    def value(self) -> float | None:
        """Present value of the run; None before the first measurement.

        For ``decisions_to_50`` and ``decisions_to_80`` it is the number of decisions, at most ``run.total_steps``. If
        the level was not reached, it is between one and two times ``run.total_steps``; a higher best win rate gives a
        lower value.
        """
        if not self._last:
            return None
        if self._objective == "return":
            return sum(point.mean_return for point in self._last) / len(self._last)
        known = [point.win_rate for point in self._last if point.win_rate is not None]
        if not known:
            return None
        if self._objective == "win_rate":
            return sum(known) / len(known)
        if self._reached_at is not None:
            return float(min(self._reached_at, self._run.total_steps))
        best = min(self._best_win_rate or 0.0, LEVELS[self._objective])
        return self._run.total_steps * (2.0 - best / LEVELS[self._objective])

    def _add(self, point: _Point) -> None:
        self._last.append(point)
        if point.win_rate is None:
            return
        self.win_rate = point.win_rate
        level = LEVELS.get(self._objective)
        if level is not None and self._reached_at is None and point.is_solid and point.win_rate >= level:
            self._reached_at = self.env_steps
        if point.is_solid:
            self._best_win_rate = max(self._best_win_rate or 0.0, point.win_rate)
