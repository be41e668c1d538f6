"""``python -m benchmarks fit-training``: train on a boss that is known only roughly, and fight the true one.

A known boss is either a distorted copy of the true one, or a fit to recorded fights of a script. A policy is
trained on the file alone, and another one on bosses that are drawn from the intervals of its numbers. Both then fight
the true boss, which they have never met. The loop of a fit is its fit, training and prediction, and the fits and
trainings of a refinement; its time is measured without the recording and the evaluations. For comparison, Rainbow
learns in the true fights alone, in as much play as a recording and a round of refinement need. Development and report
have different seeds. With recordings of several lengths, a picture shows the win rate against the game time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast, get_args

import msgspec
import numpy as np

from benchmarks.fit import GENERATED
from benchmarks.learner_curves import draw_curves
from benchmarks.learner_run import LearnerRun, LearnerTask, Point, play
from benchmarks.result import Result, Row
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import Boss, Ground
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.recorded_fight import RecordedFight, read_fights, save_fight
from soulslab.arena.fitting.simulated import record_simulated, thinned
from soulslab.arena.held_out_rules import HeldOutRules
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.arena.records import DECISION_S, TICKS_PER_S
from soulslab.arena.reference_player import ReferencePlayer
from soulslab.arena.uncertainty import Uncertainty, draw_boss, numbers_of, uncertainty_path
from soulslab.config import dump_settings
from soulslab.envs.duels import TRAINING_CONDITIONS
from soulslab.errors import ConfigError
from soulslab.fights.prediction import PredictionSettings, predict
from soulslab.fights.recording import FightRecorder, fight_seeds
from soulslab.fights.refinement import RefineSettings, refine
from soulslab.learn.evaluate import Evaluation, EvaluationSettings, Interval, evaluate, wilson_interval
from soulslab.learn.players import load_player
from soulslab.learn.policy import Policy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.run_folder import POLICY_NAME
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import ConsoleSink
from soulslab.learn.train import train_uninterrupted

#: What is known of the boss: a distorted copy, by its factor, a fit, or nothing; the last two also with held-out rules.
Source: TypeAlias = Literal["1x", "2x", "3x", "fit", "fit, held-out rules", "nothing", "nothing, held-out rules"]
#: How it is used: the boss file alone, or bosses drawn from the intervals.
Use: TypeAlias = Literal["file", "drawn"]
#: Who plays the recorded fights: the probing player, whose health is restored, or the reference player.
Recorded: TypeAlias = Literal["probe", "reference"]
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
USES: Final[tuple[Use, ...]] = ("file", "drawn")
#: Name of the columns with the wins against the true boss.
WON: Final = "won against the true boss"
#: Column with the wins against the bosses that the recording allows.
ENSEMBLE_WON: Final = "won against the ensemble (%)"
#: Folder of a recording, beside the boss file of its fit.
RECORDING: Final = "recording"
#: First seed of the distortion, the recordings, the training and the fights, by purpose. Results with 15 earlier
#: report seeds, 5,000,000 to 15,000,000, 17,000,000, 18,000,000, 20,000,000 and 25,000,000, led to changes; those with
#: 16,000,000, 21,000,000 and 23,000,000, and one each with 19,000,000 and 24,000,000, did not.
SEEDS: Final = {"development": 100, "report": 26_000_000}
#: Difference between the seeds of two trainings: the fights of a recording have consecutive seeds.
SEED_STEP: Final = 1_000
#: Fights of the policy against the known boss that Rainbow learns from while it plays the true fights.
N_SIMULATED: Final = 60

#: Half the width of the distortion of each kind of number with factor 1: absolute, or as a share of the number.
ABSOLUTE: Final = {"start_s": 0.06, "reach_m": 0.3}
SHARES: Final = {
    "damage": 0.15,
    "arc_rad": 0.15,
    "recovery_s": 0.25,
    "pause_s": 0.3,
    "weight": 0.4,
    "walk_m_s": 0.1,
    "run_m_s": 0.1,
    "poise": 0.1,
    "stagger_s": 0.1,
}


Trained = TypeVar("Trained", TrainSettings, RainbowSettings)


class FitTrainingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        train: The config; its boss, its conditions and its seed change.
        bosses: The true bosses.
        sources: What is known of them.
        uses: How it is used.
        purpose: Which seeds are used.
        seed: First seed, instead of that of the purpose.
        n_trainings: Trainings per boss, source and use; each has its own recording and its own seed.
        player: Player of the recordings of a fit.
        rate_hz: Rate of the recordings of a fit, a divisor of 60.
        minutes: Game time of a recording (min); each value is measured.
        n_fights: Greedy fights of each evaluation.
        decisions: Decisions of each training, in which its schedules end; by default, those of the config.
        limit_s: Maximum training time per run (s).
        refine_minutes: Game time of each round in which the policy then plays against the true boss, and learns from it
            (`soulslab.fights.refinement`). The last policy is evaluated. 0 plays none.
            Only with a fit and the use ``drawn``.
        n_refine_rounds: Greatest number of these rounds.
        refine_decisions: Decisions of the trainings of all rounds.
        online_decisions: Decisions in which Rainbow then learns in the true fights, with fights of the policy against
            the known boss in half of each batch; it is evaluated three times. 0 skips this.
        rainbow: The config of Rainbow, also of the comparison that knows nothing of the boss.
        picture: PNG file of the win rate against the game time; drawn if ``minutes`` has several values.
    """

    train: TrainSettings
    bosses: tuple[str, ...] = ("judge",)
    sources: tuple[Source, ...] = SOURCES
    uses: tuple[Use, ...] = USES
    purpose: Literal["development", "report"] = "report"
    seed: int | None = None
    n_trainings: int = 1
    player: Recorded = "probe"
    rate_hz: int = TICKS_PER_S
    minutes: tuple[float, ...] = (20.0,)
    n_fights: int = 500
    decisions: int | None = None
    limit_s: float = float("inf")
    refine_minutes: float = 0.0
    n_refine_rounds: int = 5
    refine_decisions: int = 40_000_000
    online_decisions: int = 0
    rainbow: RainbowSettings = RainbowSettings()
    picture: Path = Path("bench-results") / "fit_training_curve.png"

    def rules(self, source: Source) -> HeldOutRules:
        """Return the rules of the true fights: for the held-out ones, the set of the purpose."""
        return self.purpose if source.endswith("held-out rules") else "none"

    def quick(self) -> FitTrainingSettings:
        """Return settings for a run of a minute, in which little is learned."""
        return msgspec.structs.replace(
            self, sources=("1x", "fit"), purpose="development", minutes=(5.0,), n_fights=50, limit_s=5.0
        )


class Case(NamedTuple):
    """What is measured: a true boss, what is known of it, the game time of a recording (min), and the first seed.

    A distorted copy has no recording. Rainbow that knows nothing plays for twice the game time.
    """

    boss: str
    source: Source
    minutes: float
    seed: int

    @property
    def is_fit(self) -> bool:
        """Return whether the boss is fitted to a recording."""
        return self.source.startswith("fit")

    @property
    def is_from_nothing(self) -> bool:
        """Return whether nothing is known, so that Rainbow learns in the true fights."""
        return self.source.startswith("nothing")

    @property
    def n_decisions(self) -> int:
        """Return the decisions of a recording; Rainbow has twice as many."""
        return round((2 if self.is_from_nothing else 1) * self.minutes * 60 / DECISION_S)


class Stopwatch:
    """The wall time of several blocks.

    Attributes:
        total_s: Their sum (s).
    """

    def __init__(self) -> None:
        self.total_s = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure a block."""
        started = perf_counter()
        yield
        self.total_s += perf_counter() - started


def measure_fit_training(settings: FitTrainingSettings) -> Iterator[Result]:
    """Train on everything that is known of every boss, evaluate against the true boss, and draw the picture."""
    measured = [(case, row) for case in cases(settings) for row in _rows(settings, case)]
    tables = {
        f"trained on a boss that is known roughly, fights against the true one, {settings.purpose} seeds": False,
        f"Rainbow that learned in the true fights alone, {settings.purpose} seeds": True,
    }
    for title, is_from_nothing in tables.items():
        if rows := [row for case, row in measured if case.is_from_nothing == is_from_nothing]:
            yield Result(title=f"{title} (95 % interval)", rows=rows)
    runs = _runs(measured)
    if runs and len(settings.minutes) > 1:  # after the tables, which an error must not lose
        draw_curves(runs, settings.picture)


def _runs(measured: Sequence[tuple[Case, Row]]) -> dict[str, list[LearnerRun]]:
    """Return the win rates against the play as runs, one per seed, by what was known; distorted copies have none."""
    points: defaultdict[tuple[str, int], list[Point]] = defaultdict(list)
    for case, row in measured:
        if case.is_fit or case.is_from_nothing:
            n_decisions = cast("int", row["decisions"]) if case.is_from_nothing else case.n_decisions
            win_rate = cast("float", row[f"{WON} (%)"]) / 100
            point = Point(decisions=n_decisions, win_rate=win_rate, mean_return=0.0, seconds=0.0)
            points[f"{case.boss}, {case.source}, {row['trained on']}", case.seed].append(point)
    runs: defaultdict[str, list[LearnerRun]] = defaultdict(list)
    for (name, _), of_seed in points.items():
        runs[name].append(LearnerRun(n_decisions=of_seed[-1].decisions, points=tuple(of_seed)))
    return runs


def cases(settings: FitTrainingSettings) -> list[Case]:
    """Return everything that is measured, the shortest recordings of a boss first.

    Raises:
        ConfigError: A generated boss is reserved for the other purpose.
    """
    for boss in settings.bosses:
        is_reserved = boss in {f"generated:{number}" for number in GENERATED["report"]}
        if boss.startswith("generated:") and is_reserved != (settings.purpose == "report"):
            first, last = GENERATED["report"][0], GENERATED["report"][-1]
            raise ConfigError(
                f"generated:{first} to {last} are for reports alone, and all others for development; got {boss}"
            )
    first = SEEDS[settings.purpose] if settings.seed is None else settings.seed
    seeds = range(first, first + SEED_STEP * settings.n_trainings, SEED_STEP)
    minutes = sorted(set(settings.minutes))
    every = [Case(*each) for each in product(settings.bosses, settings.sources, minutes, seeds)]
    return [case for case in every if case.is_fit or case.is_from_nothing or case.minutes == minutes[0]]


def _rows(settings: FitTrainingSettings, case: Case) -> list[Row]:
    """Return a row for each use of what is known of a boss, or that of Rainbow."""
    if case.is_from_nothing:
        return [_row_of_rainbow(settings, case)]
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        fights = recorded_fights(settings, case) if case.is_fit else []
        for fight in fights:
            save_fight(Path(folder) / RECORDING, fight)
        fitting = Stopwatch()
        with fitting.running():
            known, uncertainty = known_boss(case, fights)
        path = Path(folder) / "known.toml"
        path.write_text(dump_settings(known), encoding="utf-8")
        uncertainty_path(path).write_text(dump_settings(uncertainty), encoding="utf-8")
        return [_row(settings, case, use, path, fitting.total_s) for use in settings.uses]


def recorded_fights(settings: FitTrainingSettings, case: Case) -> list[RecordedFight]:
    """Return the fights of a recording."""
    truth = find_boss(case.boss)
    # The probing player learns from fight to fight.
    is_probe = settings.player == "probe"
    recorded = ProbePlayer(1, case.seed) if is_probe else ReferencePlayer(truth, 1)
    fights = record_simulated(
        truth,
        lambda _: recorded,
        seed=case.seed,
        minutes=case.minutes,
        top_up=is_probe,
        held_out_rules=settings.rules(case.source),
    )
    every = TICKS_PER_S // settings.rate_hz
    return [thinned(fight, every) for fight in fights if len(fight.moments) > every]


def known_boss(case: Case, fights: list[RecordedFight]) -> tuple[Boss, Uncertainty]:
    """Return what is known of a boss, and its intervals: a fit to recorded fights, or a distorted copy."""
    truth = find_boss(case.boss)
    if not case.is_fit:
        return distorted(truth, float(case.source.removesuffix("x")), np.random.default_rng(case.seed))
    fit = fit_boss(fights, load_knight(), ground=truth.ground)
    return fit.boss, fit.uncertainty


def distorted(truth: Boss, factor: float, rng: np.random.Generator) -> tuple[Boss, Uncertainty]:
    """Return a copy whose numbers are wrong by up to `ABSOLUTE` and `SHARES`, and intervals with the true numbers."""
    halves = _half_widths(truth, factor)
    known = draw_boss(truth, Uncertainty(intervals=_around(truth, halves)), rng)
    moves = []
    for move, true in zip(known.moves, truth.moves, strict=True):
        # A window keeps its length: its end is shifted with its start.
        windows = [
            msgspec.structs.replace(window, end_s=window.start_s + other.end_s - other.start_s)
            for window, other in zip(move.windows, true.windows, strict=True)
        ]
        moves.append(msgspec.structs.replace(move, windows=tuple(windows)))
    known = draw_boss(msgspec.structs.replace(known, moves=tuple(moves)), Uncertainty(intervals={}), rng)
    # The end of a window is as uncertain as its start.
    halves |= {place.replace("start_s", "end_s"): half for place, half in halves.items()}
    return known, Uncertainty(intervals=_around(known, halves))


def _half_widths(boss: Boss, factor: float) -> dict[str, float]:
    """Return half the width of the interval of each number that is distorted."""
    halves = {}
    for place, number in numbers_of(boss):
        kind = place.split(".")[-1].split("[")[0]
        if kind in ABSOLUTE or kind in SHARES:
            halves[place] = factor * (ABSOLUTE[kind] if kind in ABSOLUTE else SHARES[kind] * number)
    return halves


def _around(boss: Boss, halves: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Return intervals around the numbers of a boss."""
    numbers = dict(numbers_of(boss))
    return {place: (max(numbers[place] - half, 0.0), numbers[place] + half) for place, half in halves.items()}


def _configured(base: Trained, options: dict[str, Any], seed: int, total_steps: int, limit_s: float) -> Trained:
    """Return a config with other options of its environment, a seed, and limits of decisions and of time (s)."""
    run = msgspec.structs.replace(
        base.run, seed=seed, total_steps=total_steps, max_seconds=min(base.run.max_seconds, limit_s)
    )
    return msgspec.structs.replace(base, env=msgspec.structs.replace(base.env, options=options), run=run)


def _row(settings: FitTrainingSettings, case: Case, use: Use, path: Path, fit_s: float) -> Row:
    """Train and evaluate one policy."""
    boss, source, _, seed = case
    loop = Stopwatch()
    base = settings.train
    clean = {name: value for name, value in base.env.options.items() if name not in TRAINING_CONDITIONS}
    options = {**(base.env.options if use == "drawn" else clean), "boss": str(path)}
    train_settings = _configured(base, options, seed, settings.decisions or base.run.total_steps, settings.limit_s)
    true_fight = {**clean, "boss": boss, "held_out_rules": settings.rules(source)}

    def wins(policy_path: Path, options: dict[str, Any]) -> Evaluation:
        fights = EvaluationSettings(env_id=base.env.id, env_options=options, n_fights=settings.n_fights, seed=seed)
        return evaluate(Policy.load(policy_path), fights, sinks=[ConsoleSink()])

    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        run = Path(folder) / "run"
        with loop.running():
            result = train_uninterrupted(train_settings, run, sinks=[ConsoleSink()])
        known, true = wins(result.policy_path, {**clean, "boss": str(path)}), wins(result.policy_path, true_fight)
        recording = path.with_name(RECORDING)
        # No more bosses than fights: a quick run is as rough as its evaluation.
        ensemble = PredictionSettings(
            env_options=clean, n_bosses=min(PredictionSettings().n_bosses, settings.n_fights), n_fights=50, seed=seed
        )
        with loop.running():
            predicted = _predicted(result.policy_path, recording, ensemble, find_boss(boss).ground)
        corrected: Row = {}
        if settings.online_decisions:
            corrected = _corrected(settings, result.policy_path, path, true_fight, seed)
        refined: Row = {}
        if settings.refine_minutes:
            more = RefineSettings(
                env_id=base.env.id,
                env_options=true_fight,
                minutes=settings.refine_minutes,
                max_rounds=settings.n_refine_rounds,
                decisions=settings.refine_decisions // settings.n_refine_rounds,
                seed=seed,
            )
            with loop.running():  # the fights take seconds in the simulator
                rounds = list(refine(run, [recording], Path(folder) / "rounds", more))
            after = wins(rounds[-1].refined / POLICY_NAME, true_fight)
            minutes = sum(each.game_time_s for each in rounds) / 60
            refined = {"played (min)": minutes, **_share("won then", after.interval, after.win_rate, "then ")}
    return {
        "boss": boss,
        "known": source,
        "held-out rules": settings.rules(source),
        "recorded": settings.player if case.is_fit else None,
        "recorded (min)": case.minutes if case.is_fit else None,
        "recorded (Hz)": settings.rate_hz if case.is_fit else None,
        "trained on": use,
        "seed": seed,
        "decisions": result.env_steps,
        "training (s)": result.train_seconds,
        "won against the known boss (%)": 100 * (known.win_rate or 0.0),
        **predicted,
        **_share(WON, true.interval, true.win_rate, ""),
        **corrected,
        **refined,
        "loop without the play (min)": (fit_s + loop.total_s) / 60 if case.is_fit else None,
    }


def _row_of_rainbow(settings: FitTrainingSettings, case: Case) -> Row:
    """Train Rainbow in the true fights, in the play of a recording and as much again, and evaluate it."""
    boss, source, _, seed = case
    base = settings.rainbow
    options = {**base.env.options, "boss": boss, "held_out_rules": settings.rules(source)}
    train_settings = _configured(base, options, seed, case.n_decisions, settings.limit_s)
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        result = train_uninterrupted(train_settings, Path(folder) / "run", sinks=[ConsoleSink()])
        fights = EvaluationSettings(env_id=base.env.id, env_options=options, n_fights=settings.n_fights, seed=seed)
        true = evaluate(load_player(result.policy_path), fights, sinks=[ConsoleSink()])
    return {
        "boss": boss,
        "known": source,
        "held-out rules": settings.rules(source),
        "trained on": "true fights",
        "seed": seed,
        "decisions": result.env_steps,
        "training (s)": result.train_seconds,
        **_share(WON, true.interval, true.win_rate, ""),
    }


def _corrected(settings: FitTrainingSettings, policy: Path, known: Path, true_fight: dict[str, Any], seed: int) -> Row:
    """Train Rainbow in the true fights with simulated fights of a policy, and return the columns of its evaluations."""
    base, n_fights = settings.rainbow, settings.n_fights
    true_boss = {name: true_fight[name] for name in ("boss", "held_out_rules")}
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        simulated = Path(folder) / "simulated"
        player = load_player(policy)
        options = {**base.env.options, "boss": str(known)}
        with FightRecorder(simulated, base.env.id, options, "policy") as recorder:
            for fight_seed in fight_seeds(seed, min(N_SIMULATED, n_fights)):
                recorder.play(player, fight_seed)
        demonstrations = msgspec.structs.replace(base.demonstrations, path=str(simulated), is_simulated=True)
        run = msgspec.structs.replace(
            base.run, evaluate_every=settings.online_decisions // 3, evaluate_fights=n_fights, evaluate_envs=n_fights
        )
        train_settings = _configured(
            msgspec.structs.replace(base, demonstrations=demonstrations, run=run),
            {**base.env.options, **true_boss},
            seed,
            settings.online_decisions,
            settings.limit_s,
        )
        points = play(LearnerTask(name="", kind="rainbow", settings=train_settings), lambda _: None).points
    columns: Row = {}
    for n, point in enumerate(points, start=1):
        interval = wilson_interval(round(point.win_rate * n_fights), n_fights)
        columns[f"online {n} (decisions)"] = point.decisions
        columns |= _share(f"online {n} won", interval, point.win_rate, f"online {n} ")
    return columns


def _predicted(policy: Path, recording: Path, ensemble: PredictionSettings, ground: Ground) -> Row:
    """Return the columns of the win rate that is predicted from a recording, with its 90 % interval."""
    names = (ENSEMBLE_WON, "predicted (%)", "predicted from (%)", "predicted to (%)")
    if not recording.exists():  # a distorted copy
        return dict.fromkeys(names)
    found = predict(Policy.load(policy), read_fights(recording), ensemble, ground)
    rates = found.ensemble_rate, found.win_rate, *found.interval
    return {name: 100 * rate for name, rate in zip(names, rates, strict=True)}


def _share(name: str, interval: Interval | None, win_rate: float | None, prefix: str) -> Row:
    """Return the columns of a win rate with its 95 % interval."""
    low, high = interval or (0.0, 0.0)
    return {
        f"{name} (%)": 100 * (win_rate or 0.0),
        f"{prefix}from (%)": 100 * low,
        f"{prefix}to (%)": 100 * high,
    }
