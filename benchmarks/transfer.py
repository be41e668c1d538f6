"""``python -m benchmarks transfer`` and ``souls``: evaluate a policy of the simulator in the window.

The policy of the demo, or another one, is used without changes. ``transfer`` evaluates it in the simulator, in the
window in lockstep, in the window in real time (also with a delay from observation to keys, as in real games), and in
the window with the memory layout of other games, in lockstep and in real time. ``souls`` evaluates it in the
environments of real games, with the window as a stand-in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from benchmarks.result import Result, Row
from soulslab.config import load_settings
from soulslab.envs.duels import TRAINING_CONDITIONS
from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID, IUDEX_DEMO_ID, IUDEX_ID
from soulslab.learn.configs import config_path
from soulslab.learn.evaluate import Evaluation, EvaluationSettings, evaluate, quotas, wilson_interval
from soulslab.learn.policy import Policy
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import ConsoleSink
from soulslab.learn.train import train_uninterrupted

SIMULATOR = "simulator"


class TransferBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        train: Training config of the policy, if no policy file is given.
        policy: Policy file; None trains a policy first.
        boss: Boss of the fights; None is that of the training. For a policy that was trained on a fitted boss.
        only: Only the evaluations in the window whose name contains this text.
        n_fights: Fights in the window in lockstep; ten times as many in the simulator, half as many per memory layout,
            in lockstep and in real time.
        n_real_time_fights: Fights per row in real time; one takes half a minute.
        n_games: Parallel windows in lockstep; each uses a whole core.
        n_real_time_games: Parallel windows in real time; each uses a small part of a core.
        delays_ms: Delays from an observation to its keys (ms).
        masks: Games whose memory layout the window uses.
        mask_delay_ms: Delay from an observation to its keys in real time with these layouts (ms).
        souls_ids: Environments of real games with the window as a stand-in; half as many fights in each.
        limit_s: Maximum training time (s); the shorter of this and the config's limit is used.
        seed: Seed of the fights.
    """

    train: TrainSettings
    policy: Path | None = None
    boss: str | None = None
    only: str = ""
    n_fights: int = 100
    n_real_time_fights: int = 16
    n_games: int = 2
    n_real_time_games: int = 8
    delays_ms: tuple[float, ...] = (16.0, 33.0, 50.0, 100.0)
    masks: tuple[str, ...] = ("dark_souls_3", "elden_ring")
    mask_delay_ms: float = 50.0
    souls_ids: tuple[str, ...] = (IUDEX_ID, IUDEX_DEMO_ID)
    limit_s: float = float("inf")
    seed: int = 0

    def quick(self) -> TransferBenchSettings:
        """Return settings for a short run."""
        return msgspec.structs.replace(
            self,
            n_fights=4,
            n_real_time_fights=2,
            delays_ms=(50.0,),
            masks=self.masks[:1],
            souls_ids=self.souls_ids[:1],
            limit_s=20.0,
        )


def transfer_settings(config: Path, *, is_quick: bool) -> TransferBenchSettings:
    """Return the settings with a training config, a file or the name of a shipped one."""
    settings = TransferBenchSettings(train=load_settings(TrainSettings, config_path(config)))
    return settings.quick() if is_quick else settings


class _PolicyEvaluation(msgspec.Struct, frozen=True):
    """An evaluation of the policy: environment, delay and number of fights.

    Attributes:
        name: Name in the table.
        env_id: Gymnasium id.
        options: Options in addition to those of the training.
        delay_ms: Delay from an observation to its keys (ms).
        n_fights: Number of fights.
        n_games: Number of parallel games.
    """

    name: str
    env_id: str
    options: dict[str, Any]
    delay_ms: float
    n_fights: int
    n_games: int


class _Fights(msgspec.Struct, frozen=True):
    """Results of the fights of one evaluation.

    Attributes:
        n_fights: Number of fights.
        n_wins: Number of won fights.
        time_s: Mean game time per fight (s).
        damage_taken: Mean damage taken per fight (hit points).
    """

    n_fights: int
    n_wins: int
    time_s: float
    damage_taken: float

    @property
    def win_rate(self) -> float:
        """Share of wins, 0..1."""
        return self.n_wins / self.n_fights


def measure_transfer(settings: TransferBenchSettings) -> list[Result]:
    """Evaluate the policy in the simulator and in the window.

    Raises:
        SiphonError: Xvfb is not installed, or the window does not start.
        PolicyError: The policy file is malformed.
    """
    boss = settings.boss or settings.train.env.options.get("boss", "judge")
    title = f"The policy of the simulator, unchanged, against {boss} (95 % intervals)"
    return [_compare(settings, _places(settings), title)]


def measure_souls(settings: TransferBenchSettings) -> list[Result]:
    """Evaluate the policy in the environments of real games, with the window as a stand-in.

    Raises:
        SiphonError: Xvfb is not installed, or the window does not start.
        PolicyError: The policy file is malformed.
    """
    title = "The policy of the simulator, unchanged, in the environments of a real game (95 % intervals)"
    return [_compare(settings, _souls_places(settings), title)]


def _compare(settings: TransferBenchSettings, places: Iterable[_PolicyEvaluation], title: str) -> Result:
    """Run all evaluations, the simulator first."""
    policy = _policy(settings)
    chosen = [place for place in places if place.name == SIMULATOR or settings.only in place.name]
    found = [(place, _fight(policy, place, settings)) for place in chosen]
    return Result(title=title, rows=[_row(place, fights, found[0][1]) for place, fights in found])


def _places(settings: TransferBenchSettings) -> Iterator[_PolicyEvaluation]:
    yield _simulator(settings)
    yield _live("window, lockstep", 0.0, settings)
    yield from (_live("window, real time", delay, settings, timing="realtime") for delay in (0.0, *settings.delays_ms))
    for mask in settings.masks:
        yield _live(f"window as {mask}, lockstep", 0.0, settings, mask=mask)
        delay_ms = settings.mask_delay_ms
        yield _live(f"window as {mask}, real time", delay_ms, settings, mask=mask, timing="realtime")


def _simulator(settings: TransferBenchSettings) -> _PolicyEvaluation:
    n_fights = 10 * settings.n_fights
    return _PolicyEvaluation(SIMULATOR, ARENA_ID, {}, 0.0, n_fights, n_fights)


def _souls_places(settings: TransferBenchSettings) -> Iterator[_PolicyEvaluation]:
    yield _simulator(settings)
    for env_id in settings.souls_ids:
        n_fights = max(settings.n_fights // 2, 1)
        yield _PolicyEvaluation(f"{env_id}, stood in for", env_id, {"stand_in": True}, 0.0, n_fights, settings.n_games)


def _live(name: str, delay_ms: float, settings: TransferBenchSettings, **options: Any) -> _PolicyEvaluation:
    n_fights = max(settings.n_fights // 2, 1) if "mask" in options else settings.n_fights
    n_games = settings.n_games
    if "timing" in options:
        n_games = settings.n_real_time_games
        n_fights = n_fights if "mask" in options else settings.n_real_time_fights
    return _PolicyEvaluation(name, ARENA_LIVE_ID, {"episodes": "demo", **options}, delay_ms, n_fights, n_games)


def _fight(policy: Policy, place: _PolicyEvaluation, settings: TransferBenchSettings) -> _Fights:
    trained = policy.header.env_options
    options = {name: value for name, value in trained.items() if name not in TRAINING_CONDITIONS}
    options |= place.options
    if settings.boss is not None:
        options["boss"] = settings.boss
    if "stand_in" in place.options:
        options.pop("boss", None)  # the id contains the boss
    if place.delay_ms:
        options["latency_ms"] = place.delay_ms
    where = EvaluationSettings(
        env_id=place.env_id,
        env_options=options,
        n_fights=place.n_fights,
        n_envs=place.n_games,
        seed=settings.seed,
    )
    if place.options.get("timing") != "realtime":
        return _sum([evaluate(policy, where, sinks=[ConsoleSink()])])
    # A vector environment waits for a game that resets; in real time, the other games would continue without keys.
    separate = [
        msgspec.structs.replace(where, n_fights=n, n_envs=1, seed=settings.seed + i)
        for i, n in enumerate(quotas(place.n_fights, place.n_games).tolist())
        if n
    ]
    with ThreadPoolExecutor(len(separate)) as pool:
        return _sum(list(pool.map(lambda one: evaluate(deepcopy(policy), one), separate)))


def _sum(evaluations: Sequence[Evaluation]) -> _Fights:
    """Return the combined results of several evaluations."""
    counts = np.array([one.n_fights for one in evaluations])

    def mean(values: list[float | None]) -> float:
        return float(np.average(np.array(values, np.float64), weights=counts))

    return _Fights(
        n_fights=int(counts.sum()),
        n_wins=sum(one.n_wins or 0 for one in evaluations),
        time_s=mean([one.mean_time_s for one in evaluations]),
        damage_taken=mean([one.mean_damage_taken for one in evaluations]),
    )


def _policy(settings: TransferBenchSettings) -> Policy:
    """Return the policy; train it if no file is given."""
    if settings.policy is not None:
        return Policy.load(settings.policy)
    base = settings.train
    run = msgspec.structs.replace(base.run, max_seconds=min(base.run.max_seconds, settings.limit_s))
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        trained = train_uninterrupted(msgspec.structs.replace(base, run=run), Path(folder), sinks=[ConsoleSink()])
        return Policy.load(trained.policy_path)


def _row(place: _PolicyEvaluation, fights: _Fights, simulated: _Fights) -> Row:
    low, high = wilson_interval(fights.n_wins, fights.n_fights)
    return {
        "where": place.name,
        "added delay (ms)": place.delay_ms,
        "fights": fights.n_fights,
        "won (%)": 100 * fights.win_rate,
        "from": 100 * low,
        "to": 100 * high,
        "beside the simulator (points)": 100 * (fights.win_rate - simulated.win_rate),
        "fight (s)": fights.time_s,
        "damage taken (hp)": fights.damage_taken,
    }
