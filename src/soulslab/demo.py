"""Demo: train on the built-in fight, evaluate, write a report, draw the learning curve, record a won fight.

All results are in one folder::

    config.toml, policy.safetensors, checkpoints/    the run (see `soulslab.learn.run_folder`)
    progress.jsonl, tensorboard/                     metrics of the training
    report.json                                      evaluation on new fights
    learning_curve.png, won_fight.mp4                plot and video
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import gymnasium
import msgspec

from soulslab.config import load_settings
from soulslab.envs.duels import ArenaOptions, make_options
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import CheckpointError, ConfigError, NoWinError
from soulslab.learn.archive import write_atomically
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.configs import config_path
from soulslab.learn.curve import draw_curve
from soulslab.learn.evaluate import Evaluation, EvaluationSettings, evaluate
from soulslab.learn.policy import Policy
from soulslab.learn.run_folder import CHECKPOINTS_NAME, CONFIG_NAME, POLICY_NAME, StopReason, TrainResult, lock_run
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import PROGRESS_NAME, ConsoleSink, run_sinks
from soulslab.learn.train import train
from soulslab.learn.untrusted import check_stored_settings
from soulslab.video import find_won_fight, record_won_fight

DEFAULT_CONFIG = "demo.toml"
N_FIGHTS = 300
#: Maximum number of fights when searching for a won one.
MAX_ATTEMPTS = 100
REPORT_NAME = "report.json"
CURVE_NAME = "learning_curve.png"
VIDEO_NAME = "won_fight.mp4"

_log = logging.getLogger(__name__)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``report.json``.

    The win rate is the share of the fights won with greedy actions, with its 95 % Wilson interval; the environment
    steps are decisions in training.
    """

    win_rate: float
    ci_low: float
    ci_high: float
    fights: int
    env_steps: int
    train_seconds: float
    boss: str
    phase: str
    seed: int

    def line(self) -> str:
        """Return the report as one line."""
        rate, low, high = (f"{100 * share:.1f} %" for share in (self.win_rate, self.ci_low, self.ci_high))
        return (
            f"win rate {rate} (95 % interval {low} to {high}), {self.fights} fights, {self.env_steps} env steps, "
            f"{self.train_seconds:.0f} s of training"
        )


def run_demo(
    config: Path | None, run_dir: Path, overrides: Sequence[str] = (), *, is_trusted: bool = False
) -> Report | None:
    """Train, evaluate and report. Resume an interrupted demo; rename the folder of a completed one.

    Without a config, a new demo has the settings of `DEFAULT_CONFIG`. Returns None if the training was interrupted;
    another call without a config resumes it. Raises ConfigError for a wrong setting, another environment than the
    built-in fight, or a config for an interrupted demo, CheckpointError if the folder has a foreign ``report.json``,
    UntrustedFileError if an interrupted demo that is not trusted names a boss file, VideoError if the video cannot be
    written, and the errors of `train`.
    """
    is_finished = _is_finished(run_dir)
    resume = not is_finished and bool(CheckpointStore(run_dir / CHECKPOINTS_NAME, keep=1).paths())
    if resume and config is not None:
        raise ConfigError(
            f"{run_dir} has an interrupted demo, which continues with its own settings; leave out --config, or choose "
            "another folder",
            source="--config",
        )
    source = run_dir / CONFIG_NAME if resume else config_path(config or DEFAULT_CONFIG)
    settings = load_settings(TrainSettings, source, overrides)
    if resume and not is_trusted:
        check_stored_settings(settings, source, overrides)
    if settings.env.id != ARENA_ID:
        raise ConfigError(f"the demo supports {ARENA_ID}, not {settings.env.id}", path="env.id", source=source)
    options = make_options(settings.env.options)
    if is_finished:
        _move_aside(run_dir)
    result = train(settings, run_dir, resume=resume, sinks=run_sinks(run_dir, settings.sinks))
    if result.reason is StopReason.INTERRUPTED:
        return None
    policy = Policy.load(result.policy_path)
    greedy = EvaluationSettings(
        env_id=settings.env.id, env_options=settings.env.options, n_fights=N_FIGHTS, seed=settings.run.seed
    )
    evaluation = evaluate(policy, greedy, sinks=[ConsoleSink()])
    draw_curve(run_dir / PROGRESS_NAME, run_dir / CURVE_NAME, f"{options.boss}, phase {options.phase}")
    _record_video(policy, settings, run_dir / VIDEO_NAME)
    report = _report(evaluation, result, settings, options)
    write_atomically(run_dir / REPORT_NAME, msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    return report


def _is_finished(run_dir: Path) -> bool:
    """Return whether a folder holds a completed demo."""
    if not (run_dir / REPORT_NAME).exists():
        return False
    if all((run_dir / name).exists() for name in (CONFIG_NAME, POLICY_NAME)):
        return True
    raise CheckpointError(run_dir, f"holds {REPORT_NAME}, but no demo; choose another folder")


def _move_aside(run_dir: Path) -> None:
    """Rename the folder of a completed demo, so that it is not overwritten."""
    lock_run(run_dir).release()  # raises an error if another process trains in this folder
    finished = datetime.fromtimestamp((run_dir / REPORT_NAME).stat().st_mtime).astimezone()
    kept = run_dir.with_name(f"{run_dir.name}_{finished:%Y-%m-%d_%H-%M-%S}")
    run_dir.rename(kept)
    _log.warning("the previous demo was moved to %s", kept)


def _record_video(policy: Policy, settings: TrainSettings, path: Path) -> None:
    """Record a won fight; its seed is searched for first, because drawing takes much longer than the fight itself."""

    def act(observation: Any, mask: Any, _n_decisions: int) -> Any:
        return policy.act(observation, mask)

    try:
        with closing(gymnasium.make(settings.env.id, **settings.env.options)) as env:
            seed = find_won_fight(env, act, seed=settings.run.seed, max_attempts=MAX_ATTEMPTS)
    except NoWinError as error:
        _log.warning("no video: %s", error)
        return
    _log.info("recording a won fight")
    with closing(gymnasium.make(settings.env.id, render_mode="rgb_array_list", **settings.env.options)) as env:
        record_won_fight(env, act, path, seed=seed, max_attempts=1)


def _report(evaluation: Evaluation, result: TrainResult, settings: TrainSettings, options: ArenaOptions) -> Report:
    if evaluation.win_rate is None or evaluation.interval is None:
        raise TypeError("environments of soulslab report wins")  # a bug, not a mistake of the user
    return Report(
        win_rate=evaluation.win_rate,
        ci_low=evaluation.interval.low,
        ci_high=evaluation.interval.high,
        fights=evaluation.n_fights,
        env_steps=result.env_steps,
        train_seconds=round(result.train_seconds, 1),
        boss=str(options.boss),
        phase=str(options.phase),
        seed=settings.run.seed,
    )
