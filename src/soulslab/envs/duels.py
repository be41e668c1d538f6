"""N duels of the built-in arena: options, observations, rewards and reports of the arena environments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from soulslab.arena.boss_catalog import find_bosses, generated_seeds
from soulslab.arena.boss_file import MAX_MOVES, Boss
from soulslab.arena.boss_pool import N_SPARE, BossPool
from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.features import write_state, write_states
from soulslab.arena.held_out_rules import HeldOutRules
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import DECISION_S, DUEL, FIGHT_REPORT, REWARD_TERMS, TICKS_PER_S
from soulslab.arena.simulator import MAX_LATENCY_TICKS, FightOptions, Simulator, find_impossible_field
from soulslab.arena.uncertainty import load_uncertainty, uncertainty_path
from soulslab.envs.arguments import Phase, parse_options
from soulslab.envs.registration import ARENA_ID
from soulslab.envs.rewards import Reward, Transition, call_reward, check_reward_function, reward_weights
from soulslab.envs.spaces import FIELD_KINDS, ROW_NAMES, duel_observation, duel_space, row
from soulslab.errors import EnvironmentUsageError

Info = dict[str, Any]
#: Options of ``soulslab/Arena-v0`` that make a training robust, and that a policy's fights elsewhere do not have.
TRAINING_CONDITIONS: Final = ("boss_intervals", "interval_decisions", "latency_ms", "late_share", "position_noise_m")
Latency: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1000 * MAX_LATENCY_TICKS / TICKS_PER_S)]
Width: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=10)]


class ArenaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``soulslab/Arena-v0``, as given to ``gymnasium.make`` and ``make_vec``.

    Attributes:
        boss: Name of a shipped boss, ``generated:SEED``, or the path of a boss file (`find_boss`). With
            ``generated:FIRST-LAST`` each fight draws one of the bosses of these seeds, both included.
        phase: ``"1"``, ``"2"`` or ``"full"``.
        reward: Name of a preset, a mapping of terms to weights, or a function (see `soulslab.envs.rewards`).
        random_pose: Draw the start pose of the player from the poses of the ground.
        observation: ``"features"`` (74 numbers), ``"relative"`` (73 numbers in the player's coordinate system),
            ``"dict"`` (the 15 `DuelState` fields with the spaces of SoulsGym) or ``"boxes"`` (the same fields as
            float32 Boxes).
        skip_locked: Repeat "nothing" within a step while it is the only allowed action; rewards are summed.
        max_episode_steps: Number of steps after which a fight is truncated; with `skip_locked` a step may contain
            several decisions. None sets no further limit: each fight is truncated after 3000 decisions (300 s of game
            time). `gymnasium.make` uses an argument of this name for its own `TimeLimit`, with the same effect.
        boss_intervals: Draw the boss of each fight from the intervals of the uncertainty file beside the boss file
            (`soulslab.arena.uncertainty`). The pair is the factor of their widths at the beginning and in the end; two
            zeros use the boss file as it is.
        interval_decisions: Decisions in which the factor changes from the first to the second.
        latency_ms: Least and greatest time from a decision to its keys, at most 200; one is drawn for each fight.
        late_share: Probability that a step returns the observation of the step before it.
        position_noise_m: Greatest error of each coordinate of the observed positions; they stay in the limits of the
            observation space.
        held_out_rules: A set of rules that no boss file describes (`soulslab.arena.held_out_rules`), for tests and
            benchmarks of fitted bosses only.
    """

    boss: str = "judge"
    phase: Phase = "full"
    reward: Any = "soulsgym"
    random_pose: bool = False
    observation: Literal["boxes", "dict", "features", "relative"] = "features"
    skip_locked: bool = False
    max_episode_steps: Annotated[int, msgspec.Meta(ge=1)] | None = None
    boss_intervals: tuple[Width, Width] = (0.0, 0.0)
    interval_decisions: Annotated[int, msgspec.Meta(ge=1)] = 5_000_000
    latency_ms: tuple[Latency, Latency] = (0.0, 0.0)
    late_share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    position_noise_m: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.0
    held_out_rules: HeldOutRules = "none"

    def fight_options(self, **others: Any) -> FightOptions:
        """Return the options of the simulator's fights, with others that do not depend on these."""
        least_ms, greatest_ms = self.latency_ms
        return FightOptions(
            phase=str(self.phase),
            random_pose=self.random_pose,
            latency_ticks=(round(least_ms * TICKS_PER_S / 1000), round(greatest_ms * TICKS_PER_S / 1000)),
            late_share=self.late_share,
            noise_m=self.position_noise_m,
            held_out_rules=self.held_out_rules,
            **others,
        )


def default_options(env_id: str) -> dict[str, Any]:
    """Return the default options of ``soulslab/Arena-v0``, which its data sets also hold; {} for other environments."""
    return msgspec.structs.asdict(ArenaOptions()) if env_id == ARENA_ID else {}


def decision_s(options: Mapping[str, Any]) -> float:
    """Return the game time of a decision (s) in the environment of a duel with these options."""
    return float(options["step_ms"]) / 1000.0 if "step_ms" in options else DECISION_S


class Duels:
    """N duels with their observations, rewards and reports.

    Attributes:
        bosses: The boss, or the bosses of which each fight draws one.
        attack_names: Names of the attacks of all bosses, as reports count them.
        feature_names: Names of the numbers of a Box observation, in order; empty for a Dict.
        term_names: Names of the reward terms in ``info["reward_terms"]``.
        returns: (N,) sums of rewards of the current fights; only updated for reward functions.
        pool: The bosses that are drawn from intervals, if any.
    """

    def __init__(self, options: ArenaOptions, n_duels: int, autoreset: AutoresetMode) -> None:
        check_reward_function(options.reward, n_duels)
        _check(options)
        knight = load_knight()
        self.options = options
        self.reward: Reward = options.reward
        self.bosses = find_bosses(options.boss)
        self.attack_names = tuple(dict.fromkeys(move.id for boss in self.bosses for move in boss.moves))
        self.has_function = callable(options.reward)
        self.term_names = ("function",) if self.has_function else REWARD_TERMS
        self.simulator = Simulator(
            self.bosses * (n_duels + N_SPARE) if any(options.boss_intervals) else self.bosses,
            n_duels,
            options.fight_options(
                skip_locked=options.skip_locked,
                features=options.observation in ROW_NAMES,
                relative=options.observation == "relative",
                states=options.observation in FIELD_KINDS or self.has_function,
                max_steps=options.max_episode_steps or 0,
                autoreset=autoreset.name.lower(),
                weights=reward_weights(options.reward),
            ),
        )
        self.pool = _make_pool(self.simulator, options) if any(options.boss_intervals) else None
        self.returns = np.zeros(n_duels)
        self.feature_names = ROW_NAMES.get(options.observation, ())
        is_hp_fixed = self.pool is None or not self.pool.changes_hp
        self.space: spaces.Space[Any] = duel_space(self.bosses, knight, options.observation, is_hp_fixed=is_hp_fixed)
        self._seeds: NDArray[np.int64] | None = None
        if len(self.bosses) > 1:
            self._seeds = np.array(generated_seeds(options.boss))
            self._columns = np.stack([_attack_columns(boss, self.attack_names) for boss in self.bosses])

    def observation(self) -> Any:
        """Return the current observations; features are a buffer of the simulator, which the next step overwrites."""
        if self.feature_names:
            return self.simulator.features
        return duel_observation(self.simulator.states, self.options.observation)

    def final_observation(self, place: int) -> Any:
        """Return the last observation of a fight that has ended and was replaced by a new one."""
        if self.feature_names:
            return self.simulator.final_features[place].copy()
        return row(duel_observation(self.simulator.final_states[place : place + 1], self.options.observation), 0)

    def step(self, actions: NDArray[np.int64]) -> int:
        """Step the simulator, and return the number of fights that ended.

        With a reward function, its rewards replace the weighted terms.
        """
        simulator = self.simulator
        if self.pool is not None:
            self.pool.count_decisions(simulator.n_duels)
        if not self.has_function:
            return simulator.step(actions)
        before = simulator.states.copy()
        resting = simulator.duels["over"].astype(np.bool_)
        ended = simulator.step(actions)
        results = simulator.results
        terminated, truncated = results["terminated"].astype(np.bool_), results["truncated"].astype(np.bool_)
        after = simulator.states.copy()
        if simulator.options.autoreset == "same_step":
            over = terminated | truncated
            after[over] = simulator.final_states[over]
        terms = {name: results["terms"][:, i].copy() for i, name in enumerate(REWARD_TERMS)}
        transition = Transition(before, after, terms, terminated, truncated)
        rewards = call_reward(self.reward, transition, simulator.n_duels)  # type: ignore[arg-type]
        # In "next_step" mode these fights began in this step, which has no reward.
        results["reward"] = np.where(resting, 0.0, rewards)
        self.returns[resting] = 0.0
        self.returns += results["reward"]
        if ended:
            over = terminated | truncated
            simulator.reports["return_"][over] = self.returns[over]
            self.returns[over] = 0.0
        return ended

    def running_report(self, place: int) -> Info:
        """Return the `fight_report` of a fight as if it ended now."""
        self.simulator.report_running(place)
        if self.has_function:
            self.simulator.reports["return_"][place] = self.returns[place]
        return self.fight_report(place)

    def fight_report(self, place: int | None = None, *, is_copied: bool = True) -> Info:
        """Return the reports of the last finished fights: arrays for all duels, or scalars for one.

        Without a copy they are overwritten by later steps.
        """
        reports = self.simulator.reports
        if is_copied:  # as bytes, because numpy copies records field by field
            reports = reports.view(np.uint8).copy().view(FIGHT_REPORT)
        return self._report(reports[place] if place is not None else reports, is_single=place is not None)

    def begin(self, which: NDArray[np.bool_], *, is_seeded: bool) -> None:
        """Begin new fights, (N,) bool; if all have new seeds, the bosses are drawn from the first one again."""
        if is_seeded and self.pool is not None:
            self.pool.restart()
        self.simulator.reset(which)
        self.returns[which] = 0.0

    def digest(self) -> NDArray[np.uint8]:
        """Return the SHA-256 of the boss, the options and the layout of the records, uint8 (32,)."""
        simulator = self.simulator
        layout = repr((simulator.duels.dtype.descr, simulator.states.dtype.descr))
        rules = self.pool.rules if self.pool is not None else simulator.fight.tobytes()
        return np.frombuffer(hashlib.sha256(rules + layout.encode()).digest(), np.uint8).copy()

    def find_problem(self, state: dict[str, NDArray[Any]]) -> str | None:
        """Return a message about a saved state whose values no fight can have, or None; shapes and types are right."""
        duels, rules = np.ascontiguousarray(state["duels"]).view(DUEL)[:, 0], self.simulator.fight
        numbers = np.clip(duels["fight"], 0, len(rules) - 1)  # a wrong number is reported as such
        problems = (find_impossible_field(duels[numbers == i], rules[i]) for i in np.unique(numbers))
        if not all(np.isfinite(state[name]).all() for name in ("features", "returns")):
            return "features or returns hold NaN or infinity"
        if not state["masks"].any(axis=1).all():
            return "a fight has no allowed action"
        wrong = next(filter(None, problems), None)
        return wrong or (self.pool.find_problem(state) if self.pool is not None else None)

    def scene_info(self) -> dict[str, bytes]:
        """Return the boss, by its name or path, and the record of the rules unless they differ between fights.

        The path is absolute, because a process with another working directory may draw the scene.
        """
        fight, boss = self.simulator.fight, Path(self.options.boss)
        name = str(boss.resolve() if boss.suffix == ".toml" else self.options.boss)
        return {"boss": name.encode(), "rules": fight.tobytes() if len(fight) == 1 else b""}

    def scene(self, place: int) -> dict[str, bytes]:
        """Return the record of one duel, its `DUEL_STATE`, and the name of its boss if the bosses differ."""
        duel = self.simulator.duels[place]
        boss = {} if self._seeds is None else {"boss": f"generated:{self._seeds[duel.fight]}".encode()}
        return {"duel": duel.tobytes(), "state": self.state(place).tobytes(), **boss}

    def states(self) -> NDArray[np.record]:
        """Return the `DUEL_STATE` of all duels, (N,)."""
        simulator = self.simulator
        states = np.zeros(simulator.n_duels, DUEL_STATE)
        write_states(simulator.duels, simulator.fight, states)
        return states

    def state(self, place: int) -> NDArray[np.record]:
        """Return the `DUEL_STATE` of one duel, (1,)."""
        state = np.zeros(1, DUEL_STATE)
        write_state(self.simulator.duels[place], self.simulator.fight_of(place), state[0])
        return state

    def empty_report(self) -> Info:
        """Return the report of a fight without decisions, with the keys and types of `fight_report` for one duel."""
        blank = np.zeros(1, FIGHT_REPORT)
        blank["killed_by"] = blank["start_pose"] = -1
        report = self._report(blank[0], is_single=True)
        return report if self._seeds is None else {**report, "boss_seed": np.int64(-1)}

    def _report(self, reports: Any, *, is_single: bool) -> Info:
        by_attack = ("damage_by_attack", "uses_by_attack", "hits_by_attack")
        converted = ("fight", "won", "return_", *by_attack)
        report: Info = {name: reports[name] for name in reports.dtype.names if name not in converted}
        # A Python bool for one fight: Gymnasium's vector environments store a numpy bool in an array of objects.
        report["won"] = bool(reports["won"]) if is_single else reports["won"].astype(np.bool_)
        report["return"] = reports["return_"]
        report["time_s"] = reports["n_decisions"] * DECISION_S
        for name in by_attack:
            report[name] = reports[name][..., : len(self.attack_names)]
        if self._seeds is not None:
            columns = self._columns[reports["fight"]]
            report["boss_seed"] = self._seeds[reports["fight"]]
            report["killed_by"] = _by_move(columns, report["killed_by"])
            for name in by_attack:
                counts = np.zeros((*columns.shape[:-1], len(self.attack_names) + 1), reports[name].dtype)
                np.put_along_axis(counts, columns, reports[name], axis=-1)
                report[name] = counts[..., :-1]
        return report


def _attack_columns(boss: Boss, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the index in ``names`` of each move of a boss, (MAX_MOVES,); ``len(names)`` for moves that it lacks."""
    columns = np.full(MAX_MOVES, len(names))
    columns[: len(boss.moves)] = [names.index(move.id) for move in boss.moves]
    return columns


def _by_move(columns: NDArray[np.int64], moves: Any) -> Any:
    """Return the column of each move, a number or (N,), from ``columns`` (..., MAX_MOVES); -1 stays -1."""
    found = np.take_along_axis(columns, np.expand_dims(np.maximum(moves, 0), -1), axis=-1)[..., 0]
    return np.where(moves >= 0, found, -1)[()]


def _check(options: ArenaOptions) -> None:
    """Raise `EnvironmentUsageError` for options that contradict each other."""
    least_ms, greatest_ms = options.latency_ms
    if least_ms > greatest_ms:
        raise EnvironmentUsageError(f"latency_ms: {least_ms} is greater than {greatest_ms}")
    if callable(options.reward) and (options.late_share or options.position_noise_m):
        raise EnvironmentUsageError(
            "reward: a function would see late or wrong states; leave out late_share and position_noise_m, or give a "
            "table of terms"
        )
    if any(options.boss_intervals) and Path(options.boss).suffix != ".toml":
        raise EnvironmentUsageError(
            "boss_intervals: the boss must be the path of a fitted boss file with an uncertainty file, not "
            f"{options.boss}; for a boss without intervals set boss_intervals to [0, 0]"
        )


def _make_pool(simulator: Simulator, options: ArenaOptions) -> BossPool:
    uncertainty = load_uncertainty(uncertainty_path(Path(options.boss)), simulator.boss)
    return BossPool(simulator, uncertainty, options.boss_intervals, options.interval_decisions)


def make_options(options: dict[str, Any]) -> ArenaOptions:
    """Return the checked options of ``soulslab/Arena-v0``; raise `EnvironmentUsageError` for the first wrong one."""
    parsed: ArenaOptions = parse_options("soulslab/Arena-v0", options, ArenaOptions)[0]
    return parsed
