"""Plays a policy on fresh fights and says what came of it, without counting short fights twice.

Of N environments that play side by side, those with short fights finish more of them in the same time;
counting the first fights to finish would over-represent quick deaths or quick wins. So each environment's
share of the fights is fixed before the first step: it plays that many, and whatever it plays afterwards is
not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol, TypeAlias

import gymnasium
import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.errors import ConfigError, EnvironmentUsageError
from soulslab.learn.environment import (
    EVALUATION,
    Info,
    decisions_taken,
    environment_seed,
    layout,
    make_any_vector,
    make_vector,
    require_functions,
    sizes,
)
from soulslab.learn.inputs import Observer
from soulslab.learn.player import Player
from soulslab.learn.statistics import Interval, wilson_interval
from soulslab.learn.telemetry import EvaluationProgress, Sink, tell
from soulslab.learn.threads import one_core

MANY: Final = 1024
"""Environments that play side by side where nothing speaks for fewer."""

MAX_FAILURES: Final = 8
"""Fights in a row, for each environment, that may be cut off by failing games before there is no use in going on."""


#: (observations, action masks) of N environments to their N actions; the masks are bool (N, A), or None without masks.
PolicyFunction: TypeAlias = Callable[[Any, NDArray[np.bool_] | None], Any]


class EvaluationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is played.

    Attributes:
        env_id: Gymnasium id, with its version.
        env_options: Keyword arguments of the environment.
        n_fights: Fights that count.
        n_envs: Environments that play side by side, never more than ``n_fights``. None: ``MANY``, but not more than
            the policy was trained in, for each may be a game in a window.
        seed: Seed of the fights. In as many environments equal seeds give equal fights; none of them is one of
            training's.
        deterministic: Always the likeliest action, instead of drawing from the policy.
    """

    env_id: str
    env_options: dict[str, Any] = {}
    n_fights: Annotated[int, Meta(ge=1)] = 300
    n_envs: Annotated[int, Meta(ge=1, le=65536)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    deterministic: bool = True


class AttackRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one attack of the boss did to the player.

    Attributes:
        name: The attack.
        mean_damage: Damage per fight (hit points).
        mean_damage_in_losses: Damage per lost fight (hit points); None if no fight was lost.
        n_kills: Fights that it ended; None if the environment does not tell.
    """

    name: str
    mean_damage: float
    mean_damage_in_losses: float | None
    n_kills: int | None


class PoseRow(msgspec.Struct, frozen=True, kw_only=True):
    """How the fights from one start pose went.

    Attributes:
        pose: Index of the start pose.
        n_fights: Fights from there.
        n_wins: Fights won.
        interval: 95 % Wilson interval of the win rate.
    """

    pose: int
    n_fights: int
    n_wins: int
    interval: Interval


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy achieved.

    What the environment does not tell (any but soulslab's own tell nothing of fights) is None or empty.

    Attributes:
        n_fights: Fights played.
        mean_return: Mean return.
        mean_decisions: Mean length (game decisions).
        n_wins: Fights won.
        win_rate: Share of wins, 0..1.
        interval: 95 % Wilson interval of the win rate.
        mean_time_s: Mean length (s of game time).
        mean_damage_taken: Damage taken per fight (hit points).
        by_attack: What each attack of the boss did.
        by_pose: How the fights went from each start pose.
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


def evaluate(policy: Player, settings: EvaluationSettings, *, sinks: Sequence[Sink] = ()) -> Evaluation:
    """Play a policy on fresh fights.

    Args:
        policy: Who plays; its draws are seeded from ``settings.seed``.
        settings: What is played.
        sinks: Who hears of the progress; left open.

    Returns:
        What it achieved.

    Raises:
        IncompatibleCheckpointError: The policy cannot play this environment.
        EnvironmentUsageError: The environment cannot be played by any policy, or its games do nothing but fail.
        ConfigError: An option names a Python function that was not passed, or is not the environment's.
    """
    require_functions(settings.env_options, "evaluation")
    n_envs = min(settings.n_envs or min(MANY, policy.header.n_envs or MANY), settings.n_fights)
    env = make_vector(settings.env_id, n_envs, settings.env_options)
    try:
        # The same fight behind another door: what one environment taught is good for the other.
        alike = env.metadata.get("policies_of", ())
        policy.header.check_env(settings.env_id, sizes(env), alike=alike)
        with one_core():
            fights = _play(_PlayerChoice(policy, env, settings), env, settings, sinks)
        names = tuple(getattr(env.unwrapped, "attack_names", ()))
    finally:
        env.close()
    return _summarise(fights, names)


def evaluate_function(
    policy: PolicyFunction,
    env: str | gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
    *,
    n_fights: int = 300,
    n_envs: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Evaluation:
    """Play a policy of any library on fresh fights.

    Each environment plays a number of fights that is fixed before the first step, so short fights do not count more
    than long ones. Equal seeds give equal fights in equally many environments.

    Args:
        policy: Takes the observations of N environments and their action masks, bool (N, A) or None, and returns N
            actions. With a single environment N is 1.
        env: Gymnasium id; or a single environment; or a vector environment with same-step autoreset. An environment
            that was given is not closed.
        n_fights: Number of fights that count, at least 1.
        n_envs: Number of environments for an id; at most 1024 by default.
        seed: Seed of the fights, 0 to 2**32 - 1.
        options: Options of the environment for an id.

    Returns:
        Win rate with its interval, return, length, and damage by attack, as `soulslab evaluate` prints them. Parts that
        the environment does not report are None or empty.

    Raises:
        EnvironmentUsageError: The environment cannot be made or used so, or its games do nothing but fail.
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
        fights = _play(_FunctionChoice(policy), played, settings, ())
    finally:
        if isinstance(env, str):
            played.close()
    return _summarise(fights, tuple(_attack_names(played)))


def _as_vector(
    env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], n_envs: int | None, options: Mapping[str, Any]
) -> VectorEnv[Any, Any, Any]:
    """Return an environment that was given as a vector environment with same-step autoreset."""
    if n_envs is not None or options:
        raise EnvironmentUsageError(
            f"n_envs and options are for an environment that evaluate makes from an id; {env} exists already"
        )
    if isinstance(env, gymnasium.Env):
        return SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.SAME_STEP)
    if not isinstance(env, VectorEnv):
        raise EnvironmentUsageError(f"env must be a Gymnasium id or environment, not {env!r}")
    if env.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
        raise EnvironmentUsageError(f"{env}: make it with autoreset_mode='same_step' to evaluate a policy in it")
    return env


def _attack_names(env: VectorEnv[Any, Any, Any]) -> Sequence[str]:
    single = env.envs[0].unwrapped if isinstance(env, SyncVectorEnv) else env.unwrapped
    return tuple(getattr(single, "attack_names", ()))


class _Choice(Protocol):
    """Chooses actions from what N environments give."""

    def begin(self, obs: Any) -> None:
        """Take the first observations."""

    def choose(self, mask: NDArray[np.bool_] | None) -> Any:
        """Return N actions."""

    def follow(self, obs: Any, dones: NDArray[np.bool_], actions: Any, taken: NDArray[np.int64]) -> None:
        """Take the next observations; see `Observer.follow`."""


class _FunctionChoice:
    """Actions of a function that sees the observations as they are."""

    def __init__(self, policy: PolicyFunction) -> None:
        self._policy = policy
        self._obs: Any = None

    def begin(self, obs: Any) -> None:
        self._obs = obs

    def choose(self, mask: NDArray[np.bool_] | None) -> Any:
        return self._policy(self._obs, mask)

    def follow(self, obs: Any, _dones: NDArray[np.bool_], _actions: Any, _taken: NDArray[np.int64]) -> None:
        self._obs = obs


class _PlayerChoice:
    """Actions of a policy of soulslab; its draws are seeded."""

    def __init__(self, policy: Player, env: VectorEnv[Any, Any, Any], settings: EvaluationSettings) -> None:
        header, n_actions = policy.header, policy.header.n_actions
        policy.seed(environment_seed(settings.seed, EVALUATION))
        self._policy = policy
        self._is_greedy = settings.deterministic
        self._observer = Observer(
            layout(env), env.num_envs, header.frame_stack, extras=header.extras, n_actions=n_actions
        )

    def begin(self, obs: Any) -> None:
        self._observer.begin(obs)

    def choose(self, mask: NDArray[np.bool_] | None) -> Any:
        return self._policy.act(self._observer.inputs, mask, deterministic=self._is_greedy)

    def follow(self, obs: Any, dones: NDArray[np.bool_], actions: Any, taken: NDArray[np.int64]) -> None:
        self._observer.follow(obs, dones, actions, taken)


def quotas(n_fights: int, n_envs: int) -> NDArray[np.int64]:
    """Return how many fights each environment plays, int64 (N,), as equal as can be."""
    share, rest = divmod(n_fights, n_envs)
    return share + (np.arange(n_envs) < rest).astype(np.int64)


class _Fights:
    """The counted fights, one row each, in columns that are made when the environment first tells of them."""

    def __init__(self, n_fights: int) -> None:
        self.n_done = 0
        self.columns: dict[str, NDArray[Any]] = {}
        self._n_fights = n_fights

    def add(self, which: NDArray[np.intp], values: Mapping[str, NDArray[Any]]) -> None:
        """Take the rows ``which`` of each array (N, ...)."""
        end = self.n_done + len(which)
        for name, array in values.items():
            if name not in self.columns:
                self.columns[name] = np.zeros((self._n_fights, *array.shape[1:]), array.dtype)
            self.columns[name][self.n_done : end] = array[which]
        self.n_done = end

    def n_wins(self) -> int | None:
        return int(self.columns["won"][: self.n_done].sum()) if "won" in self.columns else None


def _play(
    choice: _Choice, env: VectorEnv[Any, Any, Any], settings: EvaluationSettings, sinks: Sequence[Sink]
) -> _Fights:
    left = quotas(settings.n_fights, env.num_envs)
    returns, decisions = np.zeros(env.num_envs), np.zeros(env.num_envs, np.int64)
    fights = _Fights(settings.n_fights)
    obs, info = env.reset(seed=environment_seed(settings.seed, EVALUATION))
    choice.begin(obs)
    n_failures = 0  # in a row
    while fights.n_done < settings.n_fights:
        actions = choice.choose(info.get("action_mask"))
        obs, rewards, terminated, truncated, info = env.step(actions)
        taken = decisions_taken(info, env.num_envs)
        choice.follow(obs, terminated | truncated, actions, taken)
        returns += rewards
        decisions += taken
        finished = np.flatnonzero(terminated | truncated)
        if len(finished) == 0:
            continue
        # A fight that was cut off because its game failed is fought again.
        failed = info.get("final_info", {}).get("_failure", np.zeros(env.num_envs, np.bool_))
        n_failures = n_failures + len(finished) if failed[finished].all() else 0
        if n_failures > MAX_FAILURES * env.num_envs:
            raise _never_ending(info, n_failures)
        counted = finished[(left[finished] > 0) & ~failed[finished]]
        fights.add(counted, {"return": returns, "decisions": decisions, **_told(info)})
        left[counted] -= 1
        returns[finished] = 0.0
        decisions[finished] = 0
        tell(
            sinks,
            EvaluationProgress(n_done=fights.n_done, n_fights=settings.n_fights, n_wins=fights.n_wins()),
        )
    return fights


def _never_ending(info: Info, n_failures: int) -> EnvironmentUsageError:
    """Return the error for games that fail in every fight, with the reason of the last failure."""
    failure = info["final_info"].get("failure", {})
    said = [message for message in failure.get("message", ()) if message]
    why = said[-1] if said else "the environment did not report a reason"
    return EnvironmentUsageError(
        f"the evaluation was stopped, because the game failed in {n_failures} fights in a row, and such fights do not "
        f"count; correct the cause of the last failure, then evaluate again: {why}"
    )


def _told(info: Info) -> dict[str, NDArray[Any]]:
    """Return what the environment tells of finished fights beyond return and length."""
    fight = info.get("final_info", {}).get("fight", {})
    names = ("won", "time_s", "start_pose", "damage_taken", "damage_by_attack", "killed_by")
    return {name: np.asarray(fight[name]) for name in names if name in fight}


def _summarise(fights: _Fights, attack_names: tuple[str, ...]) -> Evaluation:
    columns = fights.columns
    won = columns.get("won")
    n_wins = None if won is None else int(won.sum())
    return Evaluation(
        n_fights=fights.n_done,
        mean_return=float(columns["return"].mean()),
        mean_decisions=float(columns["decisions"].mean()),
        n_wins=n_wins,
        win_rate=None if n_wins is None else n_wins / fights.n_done,
        interval=None if n_wins is None else wilson_interval(n_wins, fights.n_done),
        mean_time_s=float(columns["time_s"].mean()) if "time_s" in columns else None,
        mean_damage_taken=float(columns["damage_taken"].mean()) if "damage_taken" in columns else None,
        by_attack=_by_attack(columns, attack_names),
        by_pose=_by_pose(columns),
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
            n_kills=None if killers is None else int((killers[lost] == k).sum()),
        )
        for k, name in enumerate(names)
    )


def _by_pose(columns: Mapping[str, NDArray[Any]]) -> tuple[PoseRow, ...]:
    if "start_pose" not in columns or "won" not in columns:
        return ()
    rows = []
    for pose in np.unique(columns["start_pose"]):
        won = columns["won"][columns["start_pose"] == pose]
        n_wins = int(won.sum())
        rows.append(
            PoseRow(pose=int(pose), n_fights=len(won), n_wins=n_wins, interval=wilson_interval(n_wins, len(won)))
        )
    return tuple(rows)
