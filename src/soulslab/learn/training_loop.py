"""The training loop: one loop for all algorithms, from the first step to the saved policy.

A run has one folder::

    config.toml                the resolved settings
    policy.safetensors         the newest policy
    policy_best.safetensors    the policy with the highest evaluated win rate, if the run evaluates
    evaluated_fights.jsonl     some fights of each evaluation
    checkpoints/               the newest checkpoints
    replay/                    the replay buffer of Rainbow, in chunks to which the checkpoints refer

A run that was interrupted and resumed gives the same tensors, bit for bit, as an uninterrupted one if the machine is
the same, no remote actor is used and the environment can be saved (``get_state``). Other environments start new
episodes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, Protocol

import msgspec

from soulslab.errors import CheckpointError, CorruptCheckpointError, DivergedError, NonFinitePriorityError
from soulslab.learn import telemetry
from soulslab.learn.algorithm import Algorithm
from soulslab.learn.checkpoint import Checkpoint
from soulslab.learn.demonstrations.recorded_episode import Episode
from soulslab.learn.environment import without_functions
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.evaluated_fights import N_FIGHTS, append_evaluated_fights
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.policy_header import Player
from soulslab.learn.recent_rate import RecentRate
from soulslab.learn.run_folder import (
    BEST_POLICY_NAME,
    MILESTONES,
    POLICY_NAME,
    Duration,
    Milestone,
    RunFolder,
    StopReason,
    TrainResult,
    check_same_run,
    continuing_from,
)
from soulslab.learn.run_requests import SAVE_NAME, STOP_NAME, RunRequests
from soulslab.learn.settings import AlgorithmSettings, change_reward
from soulslab.learn.stop_request import StopRequest
from soulslab.version import VERSION

_UNSAVED_ERRORS: Final = (CheckpointError, DivergedError, NonFinitePriorityError)
"""No checkpoint is written after these errors: it cannot be written, or the weights are not finite."""

_WinRate = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]

_log = logging.getLogger(__name__)


class FinishedEvaluation(NamedTuple):
    """Result of an evaluation, and the policy that was evaluated."""

    result: telemetry.Evaluated
    policy: Player


class RunControl(Protocol):
    """Requests of people to a run that is training, from other processes, and evaluations by other machines."""

    def is_stop_requested(self) -> bool:
        """Return whether the run shall save and end."""

    def takes_save_request(self) -> bool:
        """Return whether a checkpoint was requested since the last call."""

    def changed_settings(self) -> Mapping[str, float]:
        """Return the settings that were changed while the run trains, by path."""

    def take_evaluation(self, algorithm: Algorithm) -> FinishedEvaluation | None:
        """Return an evaluation that was completed since the last call; begin another one if games evaluate."""


class TrainingLoop:
    """Trains one algorithm: budget, checkpoints, signals, evaluation, milestones and telemetry."""

    def __init__(
        self,
        folder: RunFolder[Any],
        algorithm: Algorithm,
        sinks: Sequence[telemetry.Sink],
        control: RunControl | None = None,
    ) -> None:
        """Prepare a run; :meth:`begin` must follow. The sinks stay open."""
        self._folder = folder
        self._settings: AlgorithmSettings = folder.settings
        self._algorithm = algorithm
        self._sinks = sinks
        self._control = control
        self._changes: dict[str, float] = {}  # of settings, since the start of the run
        self._milestones: tuple[Milestone, ...] = ()
        self._evaluated: telemetry.Evaluated | None = None
        self._best_win_rate: float | None = None
        self._started, self._seconds_before = time.monotonic(), 0.0
        self._saved_at_s = self._reported_at_s = 0.0
        self._reported_steps = 0
        self._step_rate = RecentRate(0.0, 0)
        self._is_reported = True
        self._is_resumed = False
        self._requests = RunRequests(folder.path)

    def begin(self) -> None:
        """Start a new run, or load the checkpoint of a resumed one, which must belong to it and be intact."""
        if self._folder.checkpoint is None:
            self._algorithm.start()
            return
        with continuing_from(self._folder.checkpoint.path):
            checkpoint = self._load_files(self._folder.checkpoint)
        with continuing_from(checkpoint.path):
            self._load(checkpoint)

    def run(self) -> TrainResult:
        """Train until a limit is reached, a signal arrives or an error occurs."""
        self._folder.begin()
        run = self._settings.run
        started = telemetry.TrainStarted(
            env_id=self._settings.env.id,
            total_steps=run.total_steps,
            env_steps=self._algorithm.env_steps,
            seed=run.seed,
            is_resumed=self._is_resumed,
        )
        self._send(started)
        if self._algorithm.saves_at_start and not self._is_resumed:
            self._save()
        for sink in self._sinks:
            if isinstance(sink, LiveFeed):
                self._algorithm.show_live(sink)
        with StopRequest() as request:
            while (reason := self._reason_to_stop(request)) is None:
                try:
                    self._iterate()
                except Exception as error:
                    # The state of the environments may be damaged, but the state of the algorithm is not.
                    if not isinstance(error, _UNSAVED_ERRORS):
                        self._save(with_env=False)
                    raise
            self._algorithm.finish()
            self._algorithm.observe()
            if not self._is_reported or self._algorithm.env_steps > self._reported_steps:
                self._report()
            self._save()
            if reason is StopReason.INTERRUPTED:
                _log.info("%s: the run is saved and can be resumed", request.signal_name or "stop request")
            if reason is StopReason.TIME:
                n_steps = self._algorithm.env_steps
                _log.info(
                    "run.max_seconds = %g ended the run after %d of %d decisions",
                    run.max_seconds,
                    n_steps,
                    run.total_steps,
                )
        seconds, episodes, env_steps = self._seconds(), self._algorithm.episodes, self._algorithm.env_steps
        self._send(telemetry.TrainFinished(env_steps=env_steps, seconds=seconds, reason=reason.value))
        return TrainResult(
            reason=reason,
            env_steps=env_steps,
            train_seconds=seconds,
            n_fights=episodes.n_episodes,
            win_rate=self._win_rate(),
            mean_return=episodes.mean_return,
            milestones=self._milestones,
            policy_path=self._folder.path / POLICY_NAME,
        )

    def _reason_to_stop(self, request: StopRequest) -> StopReason | None:
        run = self._settings.run
        asked = self._requests.take()
        if asked == SAVE_NAME:
            self._save()
        if request.signal_name or asked == STOP_NAME:
            return StopReason.INTERRUPTED
        if self._control is not None and self._control.is_stop_requested():
            return StopReason.REQUESTED
        if self._algorithm.env_steps >= run.total_steps:
            return StopReason.COMPLETED
        is_known = self._evaluated is not None or (not run.evaluate_every and self._algorithm.episodes.is_full)
        win_rate = self._win_rate() if is_known else None
        if win_rate is not None and win_rate > run.stop_win_rate:
            return StopReason.WIN_RATE
        if self._seconds() >= run.max_seconds:
            return StopReason.TIME
        return None

    def _iterate(self) -> None:
        """Act and learn once; then evaluate, report and save if it is due."""
        algorithm, run = self._algorithm, self._settings.run
        before = algorithm.env_steps
        self._is_reported = False
        algorithm.act()
        algorithm.observe()
        algorithm.update()
        every = run.evaluate_every
        if not every:
            if algorithm.episodes.is_full:
                self._note_milestones(algorithm.episodes.win_rate)
        elif algorithm.env_steps // every > before // every:
            self._evaluate()
        self._apply_changes()
        if self._control is not None and (finished := self._control.take_evaluation(algorithm)) is not None:
            self._note_evaluation(finished)
        if self._seconds() - self._reported_at_s >= algorithm.report_every_s:
            self._report()
        is_requested = self._control is not None and self._control.takes_save_request()
        if is_requested or self._seconds() - self._saved_at_s >= run.checkpoint_every_s:
            self._save()

    def _evaluate(self) -> None:
        """Play evaluation fights, and record some of them for the dashboard."""
        run = self._settings.run
        settings = EvaluationSettings(
            env_id=self._settings.env.id,
            env_options=without_functions(change_reward(self._folder.options, self._changes)),
            n_fights=run.evaluate_fights,
            n_envs=run.evaluate_envs,
            seed=run.seed,
            n_recorded=N_FIGHTS,
        )
        recorded: list[Episode] = []
        with self._algorithm.best_estimate() as policy:
            found = evaluate(policy, settings, record=recorded.append)
            append_evaluated_fights(self._folder.path, self._algorithm.env_steps, recorded)
            low, high = found.interval or (None, None)
            evaluated = telemetry.Evaluated(
                env_steps=self._algorithm.env_steps,
                n_fights=found.n_fights,
                mean_return=found.mean_return,
                win_rate=found.win_rate,
                low=low,
                high=high,
                damage_by_attack={row.name: row.mean_damage for row in found.by_attack},
                kills_by_attack={row.name: (row.n_kills or 0) / found.n_fights for row in found.by_attack},
                wins_by_pose={str(row.pose): row.n_wins / row.n_fights for row in found.by_pose if row.pose >= 0},
                uses_by_attack={row.name: row.mean_uses for row in found.by_attack if row.mean_uses is not None},
                hits_by_attack={row.name: row.mean_hits for row in found.by_attack if row.mean_hits is not None},
            )
            self._note_evaluation(FinishedEvaluation(evaluated, policy))

    def _note_evaluation(self, finished: FinishedEvaluation) -> None:
        """Note milestones, and save the policy if it is the best so far."""
        self._keep_best(finished.policy, finished.result.win_rate)
        self._evaluated = finished.result
        self._send(self._evaluated)
        self._note_milestones(finished.result.win_rate)

    def _keep_best(self, policy: Player, win_rate: float | None) -> None:
        """Save the policy if no evaluation gave a higher win rate; of equal ones the newest is kept."""
        if win_rate is None or (self._best_win_rate is not None and win_rate < self._best_win_rate):
            return
        self._algorithm.policy_header()
        policy.save(self._folder.path / BEST_POLICY_NAME)
        self._best_win_rate = win_rate

    def _apply_changes(self) -> None:
        """Change settings if someone asked for it, and save them, so that a resumed run has them."""
        if self._control is None:
            return
        wanted = self._control.changed_settings()
        changes = {path: value for path, value in wanted.items() if self._changes.get(path) != value}
        if changes:
            self._algorithm.adjust({**self._changes, **changes})
            self._changes |= changes
            _log.info("from decision %d on: %s", self._algorithm.env_steps, changes)
            self._save()

    def _note_milestones(self, win_rate: float | None) -> None:
        if win_rate is None:
            return
        for level in MILESTONES[len(self._milestones) :]:
            if win_rate >= level:
                self._milestones += (Milestone(level, self._algorithm.env_steps, self._seconds()),)

    def _send(self, message: telemetry.Message) -> None:
        telemetry.send_message(self._sinks, message)

    def _report(self) -> None:
        """Send the progress of the run and the telemetry of the algorithm."""
        seconds, env_steps, episodes = self._seconds(), self._algorithm.env_steps, self._algorithm.episodes
        passed = max(seconds - self._reported_at_s, 1e-9)
        progress = telemetry.TrainProgress(
            env_steps=env_steps,
            total_steps=self._settings.run.total_steps,
            seconds=seconds,
            steps_per_second=self._step_rate.update(seconds, env_steps),
            n_fights=episodes.n_episodes,
            win_rate=episodes.win_rate,
            mean_return=episodes.mean_return,
            mean_decisions=episodes.mean_decisions,
        )
        self._send(progress)
        for message in self._algorithm.report(passed):
            self._send(message)
        self._reported_at_s, self._reported_steps, self._is_reported = seconds, env_steps, True

    def _save(self, *, with_env: bool = True) -> None:
        algorithm = self._algorithm
        state, policy_header = algorithm.state(with_env=with_env), algorithm.policy_header()
        header = {
            "settings": msgspec.to_builtins(self._settings),
            "changes": self._changes,
            "policy": policy_header,
            "milestones": msgspec.to_builtins(self._milestones),
            "evaluated": msgspec.to_builtins(self._evaluated) if self._evaluated is not None else None,
            "best_win_rate": self._best_win_rate,
            "train_seconds": self._seconds(),
            "soulslab": VERSION,
            "commit": policy_header["commit"],
            **state.header,
        }
        path = self._folder.store.save(algorithm.env_steps, state.tensors, header)
        algorithm.after_save(path)
        with algorithm.best_estimate() as policy:
            policy.save(self._folder.path / POLICY_NAME)
        self._saved_at_s = self._seconds()
        self._send(telemetry.CheckpointSaved(env_steps=algorithm.env_steps, path=str(path)))

    def _load_files(self, checkpoint: Checkpoint) -> Checkpoint:
        """Load the files to which a checkpoint refers; return an older checkpoint if some are damaged."""
        while True:
            check_same_run(checkpoint, self._settings)
            try:
                self._algorithm.load_files(checkpoint.header)
            except CorruptCheckpointError as error:
                _log.warning("skipping %s, because a file that it needs is damaged: %s", checkpoint.path, error)
                checkpoint = self._folder.store.latest(before=checkpoint.path)
            else:
                return checkpoint

    def _load(self, checkpoint: Checkpoint) -> None:
        header = checkpoint.header
        self._milestones = msgspec.convert(header["milestones"], tuple[Milestone, ...])
        # Older checkpoints lack these three values.
        self._changes = msgspec.convert(header.get("changes", {}), dict[str, float])
        self._algorithm.adjust(self._changes)
        self._evaluated = msgspec.convert(header.get("evaluated"), telemetry.Evaluated | None)
        self._best_win_rate = msgspec.convert(header.get("best_win_rate"), _WinRate | None)
        self._seconds_before = self._saved_at_s = self._reported_at_s = msgspec.convert(
            header["train_seconds"], Duration
        )
        self._algorithm.load(checkpoint)
        self._started = time.monotonic()
        self._reported_steps = self._algorithm.env_steps
        self._step_rate = RecentRate(self._seconds_before, self._reported_steps)
        self._is_resumed = True

    def _win_rate(self) -> float | None:
        """Return the win rate of the last evaluation, or the moving average of training without an evaluation."""
        return self._evaluated.win_rate if self._evaluated is not None else self._algorithm.episodes.win_rate

    def _seconds(self) -> float:
        """Return the training time, including the time before a resume (s)."""
        return self._seconds_before + time.monotonic() - self._started
