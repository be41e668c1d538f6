"""Command line of the benchmarks: one command per benchmark, each with its own options."""

# ruff: noqa: PLC0415  (each command imports only what it measures; some need torch, a game or another library)

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec
from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number

from benchmarks.result import Result, as_rows, as_table, machine_line
from soulslab.cli.application import run_app
from soulslab.cli.output import EXIT_USAGE, check_file, make_folder, table_console, write_json
from soulslab.cli.parameters import SEED
from soulslab.errors import SoulslabError

if TYPE_CHECKING:
    from benchmarks.transfer import TransferBenchSettings

RESULTS: Final = Path("bench-results")

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=msgspec.Struct)

_AT_LEAST_ONE: Final = Number(gte=1)
Quick: TypeAlias = Annotated[bool, Parameter(negative="", help="Measure less: rough numbers in about a minute.")]
Json: TypeAlias = Annotated[Path | None, Parameter(help="Also write the rows of the tables to this file.")]
Config: TypeAlias = Annotated[Path, Parameter(help="Training config: a TOML file, or the name of a shipped one.")]
Overrides: TypeAlias = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="Change one setting of the config, as learner.lr=1e-4; may be repeated."),
]
Boss: TypeAlias = Annotated[
    str | None, Parameter(help="Only this boss: a name, generated:SEED, or the path of a boss file.")
]
Policy: TypeAlias = Annotated[Path | None, Parameter(help="Policy file to use; by default one is trained.")]
Steps: TypeAlias = Annotated[int | None, Parameter(validator=_AT_LEAST_ONE, help="Environment steps per measurement.")]
Decisions: TypeAlias = Annotated[
    int | None, Parameter(name="--steps", validator=_AT_LEAST_ONE, help="Game decisions per training run.")
]
Recorder: TypeAlias = Annotated[
    Literal["probe", "reference"] | None, Parameter(help="Player of the recordings of a fit.")
]
Fights: TypeAlias = Annotated[
    int | None, Parameter(validator=_AT_LEAST_ONE, help="Fights or episodes per row of the table.")
]
EvaluationFights: TypeAlias = Annotated[
    int | None, Parameter(name="--fights", validator=_AT_LEAST_ONE, help="Fights per evaluation.")
]
Seeds: TypeAlias = Annotated[
    list[int] | None,
    Parameter(validator=SEED, consume_multiple=True, negative="", help="Seeds of the training runs."),
]
Seed: TypeAlias = Annotated[int | None, Parameter(name=["--seed", "--seeds"], validator=SEED, help="Seed of the run.")]
LimitS: TypeAlias = Annotated[
    float | None, Parameter(validator=Number(gt=0), help="Maximum training time per run in seconds.")
]
Purpose: TypeAlias = Annotated[
    Literal["development", "report"],
    Parameter(help="Seeds and generated bosses: those for development, or those for reporting."),
]
Processes: TypeAlias = Annotated[
    int | None, Parameter(validator=_AT_LEAST_ONE, help="Training runs at a time, each on one core.")
]

app = App(
    name="benchmarks",
    help="Measure how fast soulslab is on this machine, and how well it learns.",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # run_app handles it
)


def run(arguments: Sequence[str]) -> int:
    """Run one benchmark, or all of them.

    Args:
        arguments: Command line without the name of the program.

    Returns:
        The exit code.
    """
    logging.getLogger("benchmarks").setLevel(logging.INFO)
    try:
        return run_app(app, arguments)
    except CycloptsError:  # cyclopts has printed it
        return EXIT_USAGE


# --- without training ---------------------------------------------------------------------------------------


@app.command
def arena(*, steps: Steps = None, quick: Quick = False, json: Json = None) -> None:
    """Measure steps per second of the built-in fight, and compilation."""
    from benchmarks.arena import ArenaBenchSettings, measure_arena

    settings = ArenaBenchSettings.quick() if quick else ArenaBenchSettings()
    _report(json, lambda: measure_arena(_with(settings, n_steps=steps)))


@app.command
def fights(*, boss: Boss = None, fights: Fights = None, quick: Quick = False, json: Json = None) -> None:
    """Measure the win rates of scripted players."""
    from benchmarks.fights import FightsBenchSettings, measure_fights

    settings = FightsBenchSettings.quick() if quick else FightsBenchSettings()
    settings = _with(settings, bosses=(boss,) if boss else None, n_fights=fights)
    _report(json, lambda: measure_fights(settings))


@app.command
def family(*, fights: Fights = None, quick: Quick = False, json: Json = None) -> None:
    """Measure shipped policies and the reference player against generated bosses that were never used."""
    from benchmarks.family import FamilyBenchSettings, measure_family

    settings = FamilyBenchSettings.quick() if quick else FamilyBenchSettings()
    _report(json, lambda: measure_family(_with(settings, n_fights=fights)))


@app.command
def fit(
    *,
    purpose: Purpose = "report",
    player: Recorder = None,
    held_out_rules: Annotated[bool, Parameter(negative="", help="Record bosses with the held-out rules.")] = False,
    minutes: Annotated[float | None, Parameter(validator=Number(gt=0), help="Game time of the recordings.")] = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Measure how well boss files are fitted to recorded fights."""
    from benchmarks.fit import FitBenchSettings, measure_fits

    settings = FitBenchSettings.quick() if quick else FitBenchSettings()
    settings = _with(settings, player=player, has_held_out_rules=held_out_rules)
    _report(json, lambda: measure_fits(_with(settings, purpose=purpose, minutes=minutes)))


@app.command
def updates(*, config: Config = Path("rainbow.toml"), quick: Quick = False, json: Json = None) -> None:
    """Measure updates per second of Rainbow and of other DQNs."""
    from benchmarks.updates import SpeedSettings, measure_speed
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.rainbow.rainbow_settings import RainbowSettings

    settings = SpeedSettings().quick() if quick else SpeedSettings()
    rainbow = load_settings(RainbowSettings, config_path(config))
    _report(json, lambda: measure_speed(rainbow, settings))


@app.command
def device(*, quick: Quick = False, json: Json = None) -> None:
    """Measure updates per second of PPO and Rainbow on the CPU and on the GPU, if there is one."""
    from benchmarks.device import DeviceBenchSettings, measure_devices

    settings = DeviceBenchSettings().quick() if quick else DeviceBenchSettings()
    _report(json, lambda: measure_devices(settings))


@app.command
def replay(*, quick: Quick = False, json: Json = None) -> None:
    """Measure memory, sampling and saving of the replay buffer."""
    from benchmarks.replay import ReplayBenchSettings, measure_replay

    settings = ReplayBenchSettings().quick() if quick else ReplayBenchSettings()
    _report(json, lambda: measure_replay(settings))


@app.command
def remote_actor(*, quick: Quick = False, json: Json = None) -> None:
    """Measure the lateness of real-time steps while a learner works."""
    from benchmarks.remote_actor import RemoteActorBenchSettings, measure_remote_actor

    settings = RemoteActorBenchSettings().quick() if quick else RemoteActorBenchSettings()
    _report(json, lambda: measure_remote_actor(settings))


@app.command
def dashboard(*, quick: Quick = False, json: Json = None) -> None:
    """Measure the cost of the dashboard to training, its latency, and how fast its pages open."""
    from benchmarks.dashboard import DashboardBenchSettings, measure_dashboard

    settings = DashboardBenchSettings().quick() if quick else DashboardBenchSettings()
    _report(json, lambda: measure_dashboard(settings))


# --- with games ---------------------------------------------------------------------------------------------


@app.command
def siphon(*, quick: Quick = False, json: Json = None) -> None:
    """Measure the process bridge, and Doom stepped with it; on Windows, reading memory."""
    from benchmarks.siphon_memory import IS_WINDOWS, MemoryBenchSettings, measure_memory

    memory_settings = MemoryBenchSettings.quick() if quick else MemoryBenchSettings()
    if IS_WINDOWS:
        _report(json, lambda: [measure_memory(memory_settings)])
        return
    from benchmarks.siphon_capture import CaptureBenchSettings, measure_capture
    from benchmarks.siphon_doom import DoomBenchSettings, measure_doom
    from benchmarks.siphon_public import PublicBenchSettings, measure_public
    from benchmarks.siphon_rpc import RpcBenchSettings, measure_rpc
    from benchmarks.siphon_scan import ScanBenchSettings, measure_scan_rate

    def measure() -> list[Result]:
        return [
            measure_memory(memory_settings),
            measure_scan_rate(ScanBenchSettings.quick() if quick else ScanBenchSettings()),
            measure_capture(CaptureBenchSettings.quick() if quick else CaptureBenchSettings()),
            *measure_rpc(RpcBenchSettings.quick() if quick else RpcBenchSettings()),
            measure_public(PublicBenchSettings.quick() if quick else PublicBenchSettings()),
            *measure_doom(DoomBenchSettings.quick() if quick else DoomBenchSettings()),
        ]

    _report(json, measure)


@app.command
def windows(*, quick: Quick = False, json: Json = None) -> None:
    """Measure the lockstep clock and reading memory on Windows, by a Python for Windows under Wine."""
    from benchmarks.windows import WindowsBenchSettings, measure_windows

    settings = WindowsBenchSettings.quick() if quick else WindowsBenchSettings()
    _report(json, lambda: measure_windows(settings))


@app.command
def window(*, boss: Boss = None, steps: Steps = None, quick: Quick = False, json: Json = None) -> None:
    """Measure frames and steps of the built-in fight in its window."""
    from benchmarks.window import WindowBenchSettings, measure_window

    settings = WindowBenchSettings.quick() if quick else WindowBenchSettings()
    _report(json, lambda: measure_window(_with(settings, boss=boss, n_steps=steps)))


@app.command
def live(*, steps: Steps = None, quick: Quick = False, json: Json = None) -> None:
    """Measure steps and resets of the live environment and of EldenGym."""
    from benchmarks.live import LiveBenchSettings, measure_live

    settings = LiveBenchSettings.quick() if quick else LiveBenchSettings()
    _report(json, lambda: measure_live(_with(settings, n_steps=steps)))


@app.command
def soak(*, steps: Steps = None, seed: Seed = None, quick: Quick = False, json: Json = None) -> None:
    """Run several games for hours with random faults."""
    from benchmarks.soak import SoakSettings, measure_soak
    from soulslab.arena.records import DECISION_S

    settings = SoakSettings.quick() if quick else SoakSettings()
    hours = steps * DECISION_S / 3600 if steps else None
    _report(json, lambda: measure_soak(_with(settings, game_hours=hours, seed=seed)))


# --- with training ------------------------------------------------------------------------------------------


@app.command
def train(
    *,
    config: Config = Path("demo.toml"),
    seeds: Seeds = None,
    limit_s: LimitS = None,
    fights: Fights = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Train our PPO, and those of stable-baselines3 and sb3-contrib."""
    from benchmarks.train import TrainBenchSettings, measure_training
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.settings import TrainSettings

    settings = TrainBenchSettings(train=load_settings(TrainSettings, config_path(config)))
    settings = settings.quick() if quick else settings
    settings = _with(settings, seeds=_as_tuple(seeds), limit_s=limit_s, n_fights=fights)
    _report(json, lambda: measure_training(settings))


@app.command
def bosses(
    *,
    config: Config = Path("demo.toml"),
    boss: Boss = None,
    seeds: Seeds = None,
    limit_s: LimitS = None,
    fights: Fights = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Train with one config against each boss."""
    from benchmarks.bosses import BossesBenchSettings, measure_bosses
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.settings import TrainSettings

    settings = BossesBenchSettings(train=load_settings(TrainSettings, config_path(config)))
    settings = settings.quick() if quick else settings
    settings = _with(settings, bosses=(boss,) if boss else None, seeds=_as_tuple(seeds))
    _report(json, lambda: measure_bosses(_with(settings, limit_s=limit_s, n_fights=fights)))


@app.command
def memory(
    *,
    config: Config = Path("demo.toml"),
    seeds: Seeds = None,
    steps: Decisions = None,
    fights: EvaluationFights = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Train without the times of animations, with and without memory: PPO, or Rainbow with --config rainbow.toml."""
    from benchmarks.memory import MemoryBenchSettings, measure_memory
    from soulslab.learn.configs import config_path
    from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
    from soulslab.learn.training import load_run_settings

    train = load_run_settings(config_path(config))
    settings = MemoryBenchSettings(train=train)
    if isinstance(train, RainbowSettings):
        settings = _with(settings, n_steps=train.run.total_steps)
    settings = settings.quick() if quick else settings
    _report(json, lambda: measure_memory(_with(settings, seeds=_as_tuple(seeds), n_steps=steps, n_fights=fights)))


@app.command
def critic(
    *,
    config: Config = Path("demo.toml"),
    seeds: Seeds = None,
    steps: Decisions = None,
    fights: EvaluationFights = None,
    memory: Annotated[int | None, Parameter(help="Size of the gated recurrent unit; 0 for none.")] = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Train PPO whose actor does not see the times of animations, with critics that see them and that do not."""
    from benchmarks.memory import MemoryBenchSettings, measure_critic
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.settings import TrainSettings

    settings = MemoryBenchSettings.for_critic(load_settings(TrainSettings, config_path(config)))
    settings = settings.quick() if quick else settings
    settings = _with(settings, seeds=_as_tuple(seeds), n_steps=steps, n_fights=fights, memory=memory)
    _report(json, lambda: measure_critic(settings))


@app.command
def fit_training(
    *,
    config: Config = Path("fitted.toml"),
    bosses: Annotated[
        list[str] | None, Parameter(name="--boss", negative="", help="True boss; may be repeated.")
    ] = None,
    known: Annotated[
        list[str] | None,
        Parameter(
            consume_multiple=True,
            negative="",
            help='1x, 2x, 3x, fit, nothing; the last two also "fit, held-out rules".',
        ),
    ] = None,
    used: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="", help="file, drawn.")] = None,
    player: Recorder = None,
    rate: Annotated[
        Literal[10, 20, 30, 60] | None, Parameter(help="Rate of the recordings of a fit (Hz), by default 60.")
    ] = None,
    minutes: Annotated[
        list[float] | None,
        Parameter(
            consume_multiple=True,
            negative="",
            validator=Number(gt=0),
            help="Game time of each recording (min), 20 by default; several values are also plotted.",
        ),
    ] = None,
    trainings: Annotated[int | None, Parameter(help="Trainings per boss, each with its own seed.")] = None,
    seed: Annotated[int | None, Parameter(help="First seed, instead of the one for reports or for choosing.")] = None,
    refine_minutes: Annotated[
        float | None,
        Parameter(validator=Number(gt=0, lte=600), help="Game time of a round of refinement (min); none by default."),
    ] = None,
    refine_rounds: Annotated[int | None, Parameter(help="Rounds of a refinement, by default five.")] = None,
    online_decisions: Annotated[
        int | None, Parameter(help="Decisions of Rainbow in the true fights after each training; none by default.")
    ] = None,
    decisions: Annotated[int | None, Parameter(help="Decisions of each training, instead of the config's.")] = None,
    limit_s: LimitS = None,
    fights: Fights = None,
    development: Annotated[bool, Parameter(negative="", help="Use the seeds for choosing, not for reporting.")] = False,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Train on a distorted or fitted boss, and fight the true one."""
    from benchmarks.fit_training import FitTrainingSettings, measure_fit_training
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
    from soulslab.learn.settings import TrainSettings

    rainbow = load_settings(RainbowSettings, config_path(Path("rainbow.toml")))
    settings = FitTrainingSettings(train=load_settings(TrainSettings, config_path(config)), rainbow=rainbow)
    settings = settings.quick() if quick else settings
    settings = _with(settings, bosses=tuple(bosses) if bosses else None, sources=tuple(known) if known else None)
    settings = _with(settings, uses=tuple(used) if used else None, refine_minutes=refine_minutes)
    settings = _with(settings, n_refine_rounds=refine_rounds)
    settings = _with(settings, decisions=decisions, n_trainings=trainings, player=player)
    settings = _with(settings, rate_hz=rate, seed=seed)
    settings = _with(settings, online_decisions=online_decisions, minutes=tuple(minutes) if minutes else None)
    settings = _with(settings, limit_s=limit_s, n_fights=fights, purpose="development" if development else None)
    _report(json, lambda: measure_fit_training(settings))


@app.command
def doom(
    *, seed: Seed = None, limit_s: LimitS = None, fights: Fights = None, quick: Quick = False, json: Json = None
) -> None:
    """Train PPO on Doom."""
    from benchmarks.doom import DoomLearningSettings, measure_doom_learning
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.settings import TrainSettings

    settings = DoomLearningSettings(train=load_settings(TrainSettings, config_path("doom.toml")))
    settings = settings.quick() if quick else settings
    _report(json, lambda: measure_doom_learning(_with(settings, seed=seed, limit_s=limit_s, n_episodes=fights)))


@app.command
def pixels(
    *,
    config: Config = Path("pixels.toml"),
    overrides: Overrides = None,
    seed: Seed = None,
    limit_s: LimitS = None,
    fights: Fights = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Train PPO on frames of the window."""
    from benchmarks.pixels import PixelsBenchSettings, measure_pixels
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.settings import TrainSettings

    settings = PixelsBenchSettings(train=load_settings(TrainSettings, config_path(config), overrides or []))
    settings = settings.quick() if quick else settings
    _report(json, lambda: measure_pixels(_with(settings, seed=seed, limit_s=limit_s, n_fights=fights)))


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """The policy to measure, and its fights.

    Attributes:
        config: Training config of the policy.
        policy: Policy file; None trains a policy.
        boss: Boss of the fights; by default that of the training.
        only: Only the rows whose name contains this text, and that of the simulator.
        limit_s: Maximum training time in seconds.
        fights: Number of fights per row of the table.
    """

    config: Config = Path("demo.toml")
    policy: Policy = None
    boss: str | None = None
    only: str | None = None
    limit_s: LimitS = None
    fights: Fights = None


@app.command
def fleet(*, quick: Quick = False, json: Json = None) -> None:
    """Measure the transport of a fleet beside learning."""
    from benchmarks.fleet import FleetBenchSettings, measure_fleet

    settings = FleetBenchSettings()
    _report(json, lambda: measure_fleet(settings.quick() if quick else settings))


@app.command
def fleet_faults(*, quick: Quick = False, json: Json = None) -> None:
    """Kill the processes of a fleet at random, fill disks, and measure the time until everything works again."""
    from benchmarks.fleet_faults import FaultSettings, measure_faults

    settings = FaultSettings()
    _report(json, lambda: measure_faults(settings.quick() if quick else settings))


@app.command
def fleet_games(*, seeds: Seeds = None, quick: Quick = False, json: Json = None) -> None:
    """Learn from one game and from eight, and with PPO in a fleet and in one process."""
    from benchmarks.fleet_games import GamesSettings, measure_games

    settings = GamesSettings().quick() if quick else GamesSettings()
    _report(json, lambda: measure_games(_with(settings, seeds=tuple(seeds) if seeds else None)))


@app.command
def fleet_priorities(*, seeds: Seeds = None, quick: Quick = False, json: Json = None) -> None:
    """Compare first priorities of steps with and without the values of the games."""
    from benchmarks.fleet_priorities import PrioritySettings, measure_priorities

    settings = PrioritySettings().quick() if quick else PrioritySettings()
    _report(json, lambda: [measure_priorities(_with(settings, seeds=_as_tuple(seeds)))])


@app.command
def prediction(
    *,
    results: Annotated[Path | None, Parameter(help="Folder with JSON files of the benchmark fit-training.")] = None,
    quick: Quick = False,  # noqa: ARG001 - as all benchmarks
    json: Json = None,
) -> None:
    """Calibrate predicted win rates with the results of fit-training, and count those that hold."""
    from benchmarks.prediction import PredictionResultSettings, measure_prediction

    _report(json, lambda: measure_prediction(_with(PredictionResultSettings(), results=results)))


@app.command
def fleet_scale(
    *,
    results: Annotated[Path | None, Parameter(help="JSON file of the benchmark fleet.")] = None,
    usd_per_core_hour: Annotated[float | None, Parameter(validator=Number(gt=0), help="Price of a core.")] = None,
    quick: Quick = False,  # noqa: ARG001 - as all benchmarks
    json: Json = None,
) -> None:
    """Compute what fleets of 1, 100 and 10,000 games need, from measured numbers."""
    from benchmarks.fleet_scale import ScaleSettings, compute_scale

    settings = _with(ScaleSettings(), results=results, usd_per_core_hour=usd_per_core_hour)
    _report(json, lambda: [compute_scale(settings)])


@app.command
def transfer(*, options: PolicyOptions | None = None, quick: Quick = False, json: Json = None) -> None:
    """Measure a policy of the simulator in the window."""
    from benchmarks.transfer import measure_transfer

    _report(json, lambda: measure_transfer(_transfer_settings(options, is_quick=quick)))


@app.command
def souls(*, options: PolicyOptions | None = None, quick: Quick = False, json: Json = None) -> None:
    """Measure a policy of the simulator in stand-ins for real games."""
    from benchmarks.transfer import measure_souls

    _report(json, lambda: measure_souls(_transfer_settings(options, is_quick=quick)))


def _transfer_settings(options: PolicyOptions | None, *, is_quick: bool) -> TransferBenchSettings:
    from benchmarks.transfer import transfer_settings

    options = options or PolicyOptions()
    settings = transfer_settings(options.config, is_quick=is_quick)
    changes = {"policy": options.policy, "boss": options.boss, "only": options.only, "n_fights": options.fights}
    return _with(settings, limit_s=options.limit_s, **changes)


@app.command
def learner(
    *,
    config: Config = Path("rainbow.toml"),
    steps: Decisions = None,
    fights: EvaluationFights = None,
    seeds: Seeds = None,
    processes: Processes = None,
    tuned_peers: Annotated[
        bool, Parameter(negative="", help="Also train the other libraries with our settings: twice the time.")
    ] = False,
    only: Annotated[
        str | None, Parameter(help="Only the learner of this name, or those whose names contain this text.")
    ] = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Train our Rainbow and other DQNs: hours; an interrupted run resumes."""
    from benchmarks.learner import LearnerBenchSettings, measure_learner
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.rainbow.rainbow_settings import RainbowSettings

    settings = LearnerBenchSettings(config=load_settings(RainbowSettings, config_path(config)))
    settings = settings.quick() if quick else settings
    settings = _with(settings, seeds=_as_tuple(seeds), n_decisions=steps, n_processes=processes, only=only)
    settings = _with(settings, has_tuned_peers=tuned_peers or None)
    _report(json, lambda: measure_learner(_with_evaluation_fights(settings, fights)))


@app.command
def learner_doom(
    *,
    config: Config = Path("rainbow.toml"),
    steps: Decisions = None,
    fights: Fights = None,
    seed: Seed = None,
    limit_s: LimitS = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Train with the config of learner on Doom."""
    from benchmarks.learner_doom import LearnerDoomSettings, measure_learner_doom
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
    from soulslab.learn.settings import TrainSettings

    env = load_settings(TrainSettings, config_path("doom.toml")).env
    settings = LearnerDoomSettings(config=load_settings(RainbowSettings, config_path(config)), env=env)
    settings = settings.quick() if quick else settings
    settings = _with(settings, seed=seed, limit_s=limit_s, n_episodes=fights, decisions=steps)
    _report(json, lambda: measure_learner_doom(settings))


@app.command
def ablation(
    *,
    config: Config = Path("rainbow.toml"),
    steps: Decisions = None,
    fights: EvaluationFights = None,
    seeds: Seeds = None,
    processes: Processes = None,
    components: Annotated[
        list[str] | None,
        Parameter(consume_multiple=True, negative="", help="Only remove these, by their names in the table."),
    ] = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Train with the config of learner without each component: hours."""
    from benchmarks.ablation import AblationSettings, measure_ablation
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.rainbow.rainbow_settings import RainbowSettings

    settings = AblationSettings(config=load_settings(RainbowSettings, config_path(config)))
    settings = settings.quick() if quick else settings
    settings = _with(settings, seeds=_as_tuple(seeds), limit=steps, n_processes=processes)
    settings = _with(settings, components=tuple(components) if components else None)
    _report(json, lambda: measure_ablation(_with_evaluation_fights(settings, fights)))


# --- all ----------------------------------------------------------------------------------------------------

BENCHMARKS: Final[dict[str, Callable[..., None]]] = {
    "arena": arena,
    "fights": fights,
    "family": family,
    "train": train,
    "bosses": bosses,
    "memory": memory,
    "critic": critic,
    "fit": fit,
    "fit-training": fit_training,
    "prediction": prediction,
    "siphon": siphon,
    "windows": windows,
    "doom": doom,
    "window": window,
    "live": live,
    "pixels": pixels,
    "transfer": transfer,
    "souls": souls,
    "learner": learner,
    "learner-doom": learner_doom,
    "updates": updates,
    "device": device,
    "replay": replay,
    "dashboard": dashboard,
    "remote-actor": remote_actor,
    "fleet": fleet,
    "fleet-faults": fleet_faults,
    "fleet-games": fleet_games,
    "fleet-priorities": fleet_priorities,
    "fleet-scale": fleet_scale,
    "ablation": ablation,
    "soak": soak,
}


@app.command(name="all")
def run_all(*, quick: Quick = False) -> None:
    """Run every benchmark, also after one that reported an error; write a JSON file of each into bench-results/."""
    make_folder(RESULTS)
    failed = []
    for name, command in BENCHMARKS.items():
        try:
            command(quick=quick, json=RESULTS / f"{name}.json")
        except SoulslabError as error:
            _log.error("%s: %s", name, error)
            failed.append(name)
    if failed:
        raise SoulslabError(f"{len(failed)} of {len(BENCHMARKS)} benchmarks failed: {', '.join(failed)}")


def _report(json: Path | None, measure: Callable[[], Iterable[Result]]) -> None:
    """Measure, print each table when it is complete, and write all so far to a file if one is given."""
    check_file(json)
    console = table_console()
    console.print(machine_line(), highlight=False, soft_wrap=True)
    results: list[Result] = []
    for result in measure():
        console.print("", as_table(result))
        results.append(result)
        write_json(json, as_rows(results))


def _with(settings: S, **changes: object) -> S:
    """Return the settings with the changes that are not None."""
    return msgspec.structs.replace(settings, **{name: value for name, value in changes.items() if value is not None})


def _with_evaluation_fights(settings: S, n_fights: int | None) -> S:
    """Return the settings of a benchmark of Rainbow with the number of fights per evaluation, if one is given."""
    if n_fights is None:
        return settings
    config = settings.config  # type: ignore[attr-defined]
    run = msgspec.structs.replace(config.run, evaluate_fights=n_fights)
    return msgspec.structs.replace(settings, config=msgspec.structs.replace(config, run=run))


def _as_tuple(seeds: list[int] | None) -> tuple[int, ...] | None:
    return tuple(seeds) if seeds else None
