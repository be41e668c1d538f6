"""Evaluation of a policy in new fights, without a bias towards short fights.

Of N environments that are stepped together, those with short fights finish more fights in the same time. Counting the
first fights that finish would therefore over-represent quick deaths or quick wins. Instead the number of fights of each
environment is fixed before the first step, and further fights of an environment are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import gymnasium
import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.errors import ConfigError, EnvironmentUsageError
from soulslab.learn.demonstrations.recorded_episode import Episode, EpisodeCollector
from soulslab.learn.environment import (
    EVALUATION,
    Info,
    allowed_actions,
    decisions_taken,
    environment_seed,
    fight_names,
    layout,
    make_any_vector,
    make_vector,
    require_functions,
    sizes,
)
from soulslab.learn.inputs import Observer
from soulslab.learn.policy_header import Player
from soulslab.learn.telemetry import EvaluationProgress, Sink, send_message

Z_95: Final = 1.959963984540054
"""The 97.5 % point of the standard normal distribution, for two-sided 95 % intervals."""


class Interval(NamedTuple):
    """A confidence interval of a proportion, 0..1."""

    low: float
    high: float


def wilson_interval(n_wins: int, n_fights: int) -> Interval:
    r"""Return the 95 % Wilson score interval of a win rate.

    .. math:: \frac{\hat p + z^2 / 2n \pm z \sqrt{\hat p (1 - \hat p) / n + z^2 / 4n^2}}{1 + z^2 / n}

    Unlike the normal approximation it stays inside 0..1 and keeps its coverage near 0 and 1. Source: Wilson 1927,
    "Probable inference, the law of succession, and statistical inference"; recommended by Brown, Cai & DasGupta 2001,
    "Interval estimation for a binomial proportion". Raises ConfigError without fights.
    """
    if not 0 <= n_wins <= n_fights or n_fights == 0:
        raise ConfigError(f"{n_wins} wins in {n_fights} fights is not a proportion; at least one fight is needed")
    share, z = n_wins / n_fights, Z_95
    spread = z * math.sqrt(share * (1.0 - share) / n_fights + (z / (2.0 * n_fights)) ** 2)
    centre, scale = share + z * z / (2.0 * n_fights), 1.0 + z * z / n_fights
    # The share is inside the interval; at 0 and 1 rounding could exclude it.
    return Interval(min(share, max(0.0, (centre - spread) / scale)), max(share, min(1.0, (centre + spread) / scale)))


MANY: Final = 1024
"""Default number of environments."""

_BY_ATTACK: Final = ("damage_by_attack", "uses_by_attack", "hits_by_attack")

MAX_FAILURES: Final = 8
"""Number of consecutive failed fights per environment after which the evaluation gives up."""

MAX_DECISIONS: Final = 100_000
"""Number of decisions of a fight after which the evaluation gives up; fights of the games have at most about 10,000."""


#: Function of observations and action masks, bool (N, A) or None, of N environments; returns N actions.
PolicyFunction: TypeAlias = Callable[[Any, NDArray[np.bool_] | None], Any]


class EvaluationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of an evaluation; ``deterministic`` chooses the most probable action instead of drawing one.

    ``n_envs`` is at most ``n_fights``; None uses `MANY`, but not more than the policy was trained in, because each may
    be a game in a window. With the same number of environments equal seeds give equal fights; no fight is one of the
    training fights. Of the recorded fights, only the first one of an environment has a seed. With ``n_recorded`` only
    these fights are recorded, in that number of environments, and without observations.
    """

    env_id: str
    env_options: dict[str, Any] = {}
    n_fights: Annotated[int, Meta(ge=1)] = 300
    n_envs: Annotated[int, Meta(ge=1, le=65536)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    deterministic: bool = True
    n_recorded: Annotated[int, Meta(ge=1)] | None = None


class AttackRow(msgspec.Struct, frozen=True, kw_only=True):
    """Damage of one attack of the boss per fight and per lost fight (hit points), and how many fights it ended.

    ``mean_uses`` is how often the boss used it per fight, and ``mean_hits`` how many of these uses hit the player.
    None stands for a value that the environment does not report; without a lost fight some values are None, too.
    """

    name: str
    mean_damage: float
    mean_damage_in_losses: float | None
    n_kills: int | None
    mean_uses: float | None = None
    mean_hits: float | None = None


class PoseRow(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the fights from one start pose, by its index, with the 95 % Wilson interval of the win rate."""

    pose: int
    n_fights: int
    n_wins: int
    interval: Interval


class BossRow(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the fights against one of several generated bosses, by its seed; otherwise as `PoseRow`."""

    boss_seed: int
    n_fights: int
    n_wins: int
    interval: Interval


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an evaluation: means over the fights, win rate 0..1 with its 95 % Wilson interval, and details.

    The length is in game decisions and in seconds of game time, the damage in hit points. Values that the environment
    does not report are empty or None; only environments of soulslab report fights.
    """

    n_fights: int
    mean_return: float
    mean_decisions: float
    n_wins: int | None = None
    win_rate: float | None = None
    interval: Interval | None = None
    mean_time_s: float | None = None
    mean_damage_taken: float | None = None
    by_attack: tuple[AttackRow, ...] = ()
    by_pose: tuple[PoseRow, ...] = ()
    by_boss: tuple[BossRow, ...] = ()


def evaluate(
    policy: Player,
    settings: EvaluationSettings,
    *,
    sinks: Sequence[Sink] = (),
    record: Callable[[Episode], object] | None = None,
) -> Evaluation:
    """Evaluate a policy in new fights; its random draws are seeded, and the sinks stay open.

    ``record`` is called with each fight that counts and is recorded, when it has ended.

    Raises IncompatibleCheckpointError if the policy does not match the environment, EnvironmentUsageError if its games
    fail all the time or a fight does not end, and ConfigError if an option names a Python function that was not passed,
    or is unknown.
    """
    from soulslab.learn.torch_device import one_core  # noqa: PLC0415  (torch takes a second; intervals do not need it)

    require_functions(settings.env_options, "evaluation")
    n_envs = min(settings.n_envs or min(MANY, policy.header.n_envs or MANY), settings.n_fights)
    env = make_vector(settings.env_id, n_envs, settings.env_options)
    try:
        # The environment may accept policies of another id that has the same fights, such as the simulator.
        alike = env.metadata.get("policies_of", ())
        policy.header.check_env(settings.env_id, sizes(env), alike=alike)
        observer = policy.header.make_observer(layout(env), n_envs)
        policy.seed(environment_seed(settings.seed, EVALUATION))
        with one_core():
            act = partial(policy.act, deterministic=settings.deterministic)
            fights = _play(act, env, settings, observer, sinks=sinks, record=record)
    finally:
        env.close()
    return _summarise(fights, fight_names(env).attacks)


def evaluate_function(
    policy: PolicyFunction,
    env: str | gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
    *,
    n_fights: int = 300,
    n_envs: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Evaluation:
    """Evaluate a policy of any library in new fights.

    The number of fights of each environment is fixed before the first step, so that short fights do not count more than
    long ones. Equal seeds give equal fights with the same number of environments.

    Args:
        policy: Function of the observations of N environments and their action masks, bool (N, A) or None, that returns
            N actions. With a single environment N is 1.
        env: Gymnasium id; or a single environment; or a vector environment with same-step autoreset. An environment
            that is passed stays open.
        n_fights: Number of fights that count, at least 1.
        n_envs: Number of environments for an id; at most 1024 by default.
        seed: Seed of the fights, 0 to 2**32 - 1.
        options: Options of the environment for an id.

    Returns:
        Win rate with its interval, return, length, and damage by attack, as `soulslab evaluate` prints them. Parts that
        the environment does not report are empty or None.

    Raises:
        EnvironmentUsageError: The environment cannot be made or used, its games fail all the time, or a fight does not
            end within `MAX_DECISIONS`.
        ConfigError: A setting is out of range.
    """
    try:
        settings = msgspec.convert(
            {"env_id": str(env), "n_fights": n_fights, "n_envs": n_envs, "seed": seed}, EvaluationSettings
        )
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), source="soulslab.evaluate") from error
    if isinstance(env, str):
        played = make_any_vector(env, min(n_envs or MANY, n_fights), options)
    else:
        played = _as_vector(env, n_envs, options)
    try:
        fights = _play(policy, played, settings)
    finally:
        if isinstance(env, str):
            played.close()
    return _summarise(fights, fight_names(played).attacks)


def _as_vector(
    env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], n_envs: int | None, options: Mapping[str, Any]
) -> VectorEnv[Any, Any, Any]:
    """Return an existing environment as a vector environment with same-step autoreset."""
    if n_envs is not None or options:
        raise EnvironmentUsageError(
            f"n_envs and options are only for an environment that evaluate makes from an id; {env} already exists"
        )
    if isinstance(env, gymnasium.Env):
        return SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.SAME_STEP)
    if not isinstance(env, VectorEnv):
        raise EnvironmentUsageError(f"env must be a Gymnasium id or environment, not {env!r}")
    if env.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
        raise EnvironmentUsageError(f"{env}: make it with autoreset_mode='same_step' to evaluate a policy in it")
    return env


def quotas(n_fights: int, n_envs: int) -> NDArray[np.int64]:
    """Return the number of fights that each environment plays, int64 (N,); the numbers differ by at most 1."""
    share, rest = divmod(n_fights, n_envs)
    return share + (np.arange(n_envs) < rest).astype(np.int64)


class _Fights:
    """The counted fights as columns, one row each; a column is made when the environment first reports its value."""

    def __init__(self, n_fights: int) -> None:
        self.n_done = 0
        self.columns: dict[str, NDArray[Any]] = {}
        self._n_fights = n_fights

    def add(self, which: NDArray[np.intp], values: Mapping[str, NDArray[Any]]) -> None:
        """Add the rows ``which`` of each array (N, ...)."""
        end = self.n_done + len(which)
        for name, array in values.items():
            if name not in self.columns:
                self.columns[name] = np.zeros((self._n_fights, *array.shape[1:]), array.dtype)
            self.columns[name][self.n_done : end] = array[which]
        self.n_done = end

    def n_wins(self) -> int | None:
        return int(self.columns["won"][: self.n_done].sum()) if "won" in self.columns else None

    def mean(self, name: str) -> float | None:
        return float(self.columns[name].mean()) if name in self.columns else None


def _play(
    act: PolicyFunction,
    env: VectorEnv[Any, Any, Any],
    settings: EvaluationSettings,
    observer: Observer | None = None,
    *,
    sinks: Sequence[Sink] = (),
    record: Callable[[Episode], object] | None = None,
) -> _Fights:
    """Play all fights; with an observer, ``act`` is called with its inputs instead of the observations."""
    left = quotas(settings.n_fights, env.num_envs)
    returns, decisions = np.zeros(env.num_envs), np.zeros(env.num_envs, np.int64)
    fights = _Fights(settings.n_fights)
    seed = environment_seed(settings.seed, EVALUATION)
    obs, info = env.reset(seed=seed)
    collector = EpisodeCollector(env, seed, obs, info, settings.n_recorded) if record is not None else None
    if observer is not None:
        observer.begin(obs)
    n_failures = 0  # consecutive
    while fights.n_done < settings.n_fights:
        actions = act(observer.inputs if observer is not None else obs, allowed_actions(info))
        obs, rewards, terminated, truncated, info = env.step(actions)
        dones, taken = terminated | truncated, decisions_taken(info, env.num_envs)
        if observer is not None:
            observer.follow(obs, dones, actions, taken)
        if collector is not None:
            ended = collector.follow(actions, (obs, rewards, terminated, truncated, info), taken)
        returns += rewards
        decisions += taken
        if decisions.max() > MAX_DECISIONS:
            raise EnvironmentUsageError(
                f"the evaluation was stopped, because a fight in {settings.env_id} has not ended after "
                f"{MAX_DECISIONS:,} decisions; give the environment an end condition, or set its option "
                f"max_episode_steps"
            )
        finished = np.flatnonzero(dones)
        if len(finished) == 0:
            continue
        # A fight that ended because its game failed is repeated.
        failed = info.get("final_info", {}).get("_failure", np.zeros(env.num_envs, np.bool_))
        n_failures = n_failures + len(finished) if failed[finished].all() else 0
        if n_failures > MAX_FAILURES * env.num_envs:
            raise _too_many_failures(info, n_failures)
        counted = finished[(left[finished] > 0) & ~failed[finished]]
        fights.add(counted, {"return": returns, "decisions": decisions, **_fight_values(info)})
        if record is not None:
            for i in filter(ended.__contains__, counted.tolist()):
                record(ended[i])
        left[counted] -= 1
        returns[finished] = 0.0
        decisions[finished] = 0
        progress = EvaluationProgress(n_done=fights.n_done, n_fights=settings.n_fights, n_wins=fights.n_wins())
        send_message(sinks, progress)
    return fights


def _too_many_failures(info: Info, n_failures: int) -> EnvironmentUsageError:
    """Return the error for games that fail in every fight, with the reason of the last failure."""
    failure = info["final_info"].get("failure", {})
    reasons = [message for message in failure.get("message", ()) if message]
    why = reasons[-1] if reasons else "the environment did not report a reason"
    return EnvironmentUsageError(
        f"the evaluation was stopped, because the game failed in {n_failures} fights in a row, and such fights do not "
        f"count; correct the cause of the last failure, then evaluate again: {why}"
    )


def _fight_values(info: Info) -> dict[str, NDArray[Any]]:
    """Return the values of finished fights that the environment reports, except return and length."""
    fight = info.get("final_info", {}).get("fight", {})
    names = ("won", "time_s", "start_pose", "boss_seed", "damage_taken", "killed_by", *_BY_ATTACK)
    return {name: np.asarray(fight[name]) for name in names if name in fight}


def _summarise(fights: _Fights, attacks: tuple[str, ...]) -> Evaluation:
    columns, n_wins = fights.columns, fights.n_wins()
    return Evaluation(
        n_fights=fights.n_done,
        mean_return=float(columns["return"].mean()),
        mean_decisions=float(columns["decisions"].mean()),
        n_wins=n_wins,
        win_rate=n_wins / fights.n_done if n_wins is not None else None,
        interval=wilson_interval(n_wins, fights.n_done) if n_wins is not None else None,
        mean_time_s=fights.mean("time_s"),
        mean_damage_taken=fights.mean("damage_taken"),
        by_attack=_by_attack(columns, attacks),
        by_pose=tuple(PoseRow(pose=pose, **won) for pose, won in _wins_by(columns, "start_pose")),
        by_boss=tuple(BossRow(boss_seed=seed, **won) for seed, won in _wins_by(columns, "boss_seed")),
    )


def _by_attack(columns: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> tuple[AttackRow, ...]:
    if "damage_by_attack" not in columns or "won" not in columns:
        return ()
    damage, lost = columns["damage_by_attack"], ~columns["won"].astype(np.bool_)
    killers = columns.get("killed_by")
    return tuple(
        AttackRow(
            name=name,
            mean_damage=float(damage[:, k].mean()),
            mean_damage_in_losses=float(damage[lost, k].mean()) if lost.any() else None,
            n_kills=int((killers[lost] == k).sum()) if killers is not None else None,
            mean_uses=float(columns["uses_by_attack"][:, k].mean()) if "uses_by_attack" in columns else None,
            mean_hits=float(columns["hits_by_attack"][:, k].mean()) if "hits_by_attack" in columns else None,
        )
        for k, name in enumerate(names)
    )


def _wins_by(columns: Mapping[str, NDArray[Any]], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each value of a column, and the fields of a row for the fights with this value."""
    if name not in columns or "won" not in columns:
        return
    for value in np.unique(columns[name]):
        won = columns["won"][columns[name] == value]
        n_wins = int(won.sum())
        yield int(value), {"n_fights": len(won), "n_wins": n_wins, "interval": wilson_interval(n_wins, len(won))}
