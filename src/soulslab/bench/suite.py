"""The benchmarks by name, with the options that a command line can give."""

# ruff: noqa: PLC0415  (the arena's speed can be measured without torch, and each imports what it measures)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from soulslab.bench.result import Result
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.bench.transfer import TransferBenchSettings

S = TypeVar("S", bound=msgspec.Struct)


class BenchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be asked of the benchmarks; None leaves it to each of them.

    Attributes:
        config: File with the training config, or the name of one that comes with soulslab.
        is_quick: Rough numbers in less than a minute.
        boss: The only boss, by its name or the path of its file.
        steps: Environment steps per measurement.
        fights: Fights per evaluation, or per boss, phase and player.
        seeds: Seeds of the training runs.
        limit_s: Training time per run, at most (s).
        policy: File of a policy that is there already.
        processes: Training runs at a time.
        components: The only ones to drop.
        tuned_peers: The peers play with our settings too.
    """

    config: Path | None = None
    is_quick: bool = False
    boss: str | None = None
    steps: int | None = None
    fights: int | None = None
    seeds: tuple[int, ...] | None = None
    limit_s: float | None = None
    policy: Path | None = None
    processes: int | None = None
    components: tuple[str, ...] | None = None
    tuned_peers: bool | None = None


class Benchmark(msgspec.Struct, frozen=True):
    """A benchmark.

    Attributes:
        measure: Does it.
        takes: The options that it knows, apart from ``config`` and ``is_quick``.
    """

    measure: Callable[[BenchOptions], list[Result]]
    takes: frozenset[str]


def check_options(name: str, options: BenchOptions) -> None:
    """Raise `ConfigError` for an option that the benchmark does not know; it would change nothing."""
    takes = BENCHMARKS[name].takes | {"config", "is_quick"}
    for option in BenchOptions.__struct_fields__:
        if getattr(options, option) is not None and option not in takes:
            raise ConfigError(f"means nothing to bench {name}", source=f"--{option.replace('_', '-')}")


def _arena(options: BenchOptions) -> list[Result]:
    from soulslab.bench.arena import ArenaBenchSettings, measure_arena

    settings = ArenaBenchSettings.quick() if options.is_quick else ArenaBenchSettings()
    return measure_arena(_with(settings, n_steps=options.steps))


def _fights(options: BenchOptions) -> list[Result]:
    from soulslab.bench.fights import FightsBenchSettings, measure_fights

    settings = FightsBenchSettings.quick() if options.is_quick else FightsBenchSettings()
    return measure_fights(_with(settings, bosses=_only(options.boss), n_fights=options.fights))


def _train(options: BenchOptions) -> list[Result]:
    from soulslab.bench.train import TrainBenchSettings, measure_training
    from soulslab.config import load_settings
    from soulslab.learn.settings import TrainSettings

    settings = TrainBenchSettings(train=load_settings(TrainSettings, _config(options)))
    settings = settings.quick() if options.is_quick else settings
    return measure_training(_with(settings, seeds=options.seeds, limit_s=options.limit_s, n_fights=options.fights))


def _bosses(options: BenchOptions) -> list[Result]:
    from soulslab.bench.bosses import BossesBenchSettings, measure_bosses
    from soulslab.config import load_settings
    from soulslab.learn.settings import TrainSettings

    settings = BossesBenchSettings(train=load_settings(TrainSettings, _config(options)))
    settings = settings.quick() if options.is_quick else settings
    settings = _with(settings, bosses=_only(options.boss), seeds=options.seeds)
    return measure_bosses(_with(settings, limit_s=options.limit_s, n_fights=options.fights))


def _siphon(options: BenchOptions) -> list[Result]:
    from soulslab.bench.siphon import measure_siphon

    return measure_siphon(is_quick=options.is_quick)


def _doom(options: BenchOptions) -> list[Result]:
    from soulslab.bench.doom import DoomLearningSettings, measure_doom_learning
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.settings import TrainSettings

    settings = DoomLearningSettings(train=load_settings(TrainSettings, config_path(Path("doom.toml"))))
    settings = settings.quick() if options.is_quick else settings
    seed = options.seeds[0] if options.seeds else None
    return measure_doom_learning(_with(settings, seed=seed, limit_s=options.limit_s, n_episodes=options.fights))


def _live(options: BenchOptions) -> list[Result]:
    from soulslab.bench.live import LiveBenchSettings, measure_live

    settings = LiveBenchSettings.quick() if options.is_quick else LiveBenchSettings()
    return measure_live(_with(settings, n_steps=options.steps))


def _transfer(options: BenchOptions) -> list[Result]:
    from soulslab.bench.transfer import measure_transfer

    return measure_transfer(_transfer_settings(options))


def _souls(options: BenchOptions) -> list[Result]:
    from soulslab.bench.transfer import measure_souls

    return measure_souls(_transfer_settings(options))


def _transfer_settings(options: BenchOptions) -> TransferBenchSettings:
    from soulslab.bench.transfer import TransferBenchSettings
    from soulslab.config import load_settings
    from soulslab.learn.settings import TrainSettings

    settings = TransferBenchSettings(train=load_settings(TrainSettings, _config(options)))
    settings = settings.quick() if options.is_quick else settings
    return _with(settings, policy=options.policy, n_fights=options.fights, limit_s=options.limit_s)


def _window(options: BenchOptions) -> list[Result]:
    from soulslab.bench.window import WindowBenchSettings, measure_window

    settings = WindowBenchSettings.quick() if options.is_quick else WindowBenchSettings()
    return measure_window(_with(settings, boss=options.boss, n_steps=options.steps))


def _soak(options: BenchOptions) -> list[Result]:
    from soulslab.arena.state import DECISION_S
    from soulslab.bench.soak import SoakSettings, measure_soak

    settings = SoakSettings.quick() if options.is_quick else SoakSettings()
    hours = None if options.steps is None else options.steps * DECISION_S / 3600
    return measure_soak(_with(settings, game_hours=hours, seed=options.seeds[0] if options.seeds else None))


def _pixels(options: BenchOptions) -> list[Result]:
    from soulslab.bench.pixels import PixelsBenchSettings, measure_pixels
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.settings import TrainSettings

    settings = PixelsBenchSettings(train=load_settings(TrainSettings, config_path(Path("pixels.toml"))))
    settings = settings.quick() if options.is_quick else settings
    seed = options.seeds[0] if options.seeds else None
    return measure_pixels(_with(settings, seed=seed, limit_s=options.limit_s, n_fights=options.fights))


def _learner(options: BenchOptions) -> list[Result]:
    from soulslab.bench.learner import LearnerBenchSettings, measure_learner
    from soulslab.config import load_settings
    from soulslab.learn.rainbow.settings import RainbowSettings

    settings = LearnerBenchSettings(config=load_settings(RainbowSettings, _config(options, "rainbow.toml")))
    settings = settings.quick() if options.is_quick else settings
    settings = _with(
        settings,
        seeds=options.seeds,
        limit=options.steps,
        n_processes=options.processes,
        has_tuned_peers=options.tuned_peers,
    )
    return measure_learner(_with_fights(settings, options.fights))


def _ablation(options: BenchOptions) -> list[Result]:
    from soulslab.bench.ablation import AblationSettings, measure_ablation
    from soulslab.config import load_settings
    from soulslab.learn.rainbow.settings import RainbowSettings

    settings = AblationSettings(config=load_settings(RainbowSettings, _config(options, "rainbow.toml")))
    settings = settings.quick() if options.is_quick else settings
    settings = _with(
        settings,
        seeds=options.seeds,
        limit=options.steps,
        n_processes=options.processes,
        components=options.components,
    )
    return measure_ablation(_with_fights(settings, options.fights))


def _learner_doom(options: BenchOptions) -> list[Result]:
    from soulslab.bench.learner_doom import LearnerDoomSettings, measure_learner_doom
    from soulslab.config import load_settings
    from soulslab.learn.configs import config_path
    from soulslab.learn.rainbow.settings import RainbowSettings
    from soulslab.learn.settings import TrainSettings

    doom = load_settings(TrainSettings, config_path("doom.toml"))
    settings = LearnerDoomSettings(
        config=load_settings(RainbowSettings, _config(options, "rainbow.toml")), env=doom.env
    )
    settings = settings.quick() if options.is_quick else settings
    seed = options.seeds[0] if options.seeds else None
    settings = _with(settings, seed=seed, limit_s=options.limit_s, n_episodes=options.fights)
    return measure_learner_doom(_with(settings, decisions=options.steps))


def _updates(options: BenchOptions) -> list[Result]:
    from soulslab.bench.learner_speed import SpeedSettings, measure_speed
    from soulslab.config import load_settings
    from soulslab.learn.rainbow.settings import RainbowSettings

    settings = SpeedSettings()
    config = load_settings(RainbowSettings, _config(options, "rainbow.toml"))
    return measure_speed(config, settings.quick() if options.is_quick else settings)


def _replay(options: BenchOptions) -> list[Result]:
    from soulslab.bench.learner_replay import ReplayBenchSettings, measure_replay

    settings = ReplayBenchSettings()
    return measure_replay(settings.quick() if options.is_quick else settings)


def _apart(options: BenchOptions) -> list[Result]:
    from soulslab.bench.learner_apart import ApartBenchSettings, measure_apart

    settings = ApartBenchSettings()
    return measure_apart(settings.quick() if options.is_quick else settings)


def _config(options: BenchOptions, default: str = "demo.toml") -> Path:
    from soulslab.learn.configs import config_path

    return config_path(options.config or default)


def _only(boss: str | None) -> tuple[str, ...] | None:
    return None if boss is None else (boss,)


def _with(settings: S, **changes: object) -> S:
    """Return the settings with the changes that are not None."""
    return msgspec.structs.replace(settings, **{name: value for name, value in changes.items() if value is not None})


def _with_fights(settings: S, n_fights: int | None) -> S:
    """Return settings of a benchmark of Rainbow with so many fights in each evaluation, if a number was given."""
    if n_fights is None:
        return settings
    config = settings.config  # type: ignore[attr-defined]
    run = msgspec.structs.replace(config.run, evaluate_fights=n_fights)
    return msgspec.structs.replace(settings, config=msgspec.structs.replace(config, run=run))


BENCHMARKS: Final = {
    "arena": Benchmark(_arena, frozenset({"steps"})),
    "fights": Benchmark(_fights, frozenset({"boss", "fights"})),
    "train": Benchmark(_train, frozenset({"seeds", "limit_s", "fights"})),
    "bosses": Benchmark(_bosses, frozenset({"boss", "seeds", "limit_s", "fights"})),
    "siphon": Benchmark(_siphon, frozenset()),
    "doom": Benchmark(_doom, frozenset({"seeds", "limit_s", "fights"})),
    "window": Benchmark(_window, frozenset({"boss", "steps"})),
    "live": Benchmark(_live, frozenset({"steps"})),
    "pixels": Benchmark(_pixels, frozenset({"seeds", "limit_s", "fights"})),
    "transfer": Benchmark(_transfer, frozenset({"policy", "limit_s", "fights"})),
    "souls": Benchmark(_souls, frozenset({"policy", "limit_s", "fights"})),
    "learner": Benchmark(_learner, frozenset({"steps", "fights", "seeds", "processes", "tuned_peers"})),
    "learner-doom": Benchmark(_learner_doom, frozenset({"steps", "fights", "seeds", "limit_s"})),
    "updates": Benchmark(_updates, frozenset()),
    "replay": Benchmark(_replay, frozenset()),
    "apart": Benchmark(_apart, frozenset()),
    "ablation": Benchmark(_ablation, frozenset({"steps", "fights", "seeds", "processes", "components"})),
    "soak": Benchmark(_soak, frozenset({"steps", "seeds"})),
}
