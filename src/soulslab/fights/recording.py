"""Recorder that adds fights to a data set, and its sources: the reference player, and people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from itertools import count, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, SupportsFloat, TypeAlias

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_catalog import find_bosses
from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.features import write_features, write_state
from soulslab.arena.fitting.recorded_fight import TOP_UP_BELOW, TOPPED_UP_PROBE
from soulslab.arena.player_rules import write_mask
from soulslab.arena.probe_player import ProbePlayer
from soulslab.arena.records import DUEL, MAX_DECISIONS, REWARD_TERMS, TICKS_PER_DECISION, Record
from soulslab.arena.reference_player import ReferencePlayer
from soulslab.arena.relative_features import write_relative
from soulslab.arena.simulator import CENTRE_FREE_M, Simulator
from soulslab.arena.vocabulary import N_ACTIONS, NOTHING
from soulslab.arena.window.key_log import KeyLog, Replay, State, read_key_log
from soulslab.config import load_settings
from soulslab.envs.duels import ArenaOptions, decision_s, default_options, make_options
from soulslab.envs.registration import ARENA_ID
from soulslab.envs.rewards import reward_weights
from soulslab.envs.spaces import ROW_NAMES, duel_observation, row
from soulslab.errors import DemonstrationError, EnvironmentUsageError, KeyLogError
from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.demonstrations.recorded_episode import RECORDING, Episode, PolicyActor, is_duel, play_episode, stack
from soulslab.learn.demonstrations.writing import DemonstrationWriter
from soulslab.learn.environment import environment_seed, register_environment, sizes_of_one
from soulslab.learn.policy_header import Player
from soulslab.learn.settings import EnvSettings
from soulslab.play.terminal_game import Tally, play_in_terminal

SEEDS: Final = 2**31
"""Exclusive upper bound of the seeds of fights."""


def make_fight(env_id: str, options: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """Return an environment to record; raises `EnvironmentUsageError` if an option or the module of the id is wrong."""
    register_environment(env_id)
    try:
        return gymnasium.make(env_id, **options)
    except TypeError as error:
        if "argument" not in str(error):  # a bug in the environment, not a wrong option
            raise
        raise EnvironmentUsageError(f"{env_id}: cannot be made with these options: {error}") from error


class FightRecorder(AbstractContextManager["FightRecorder"]):
    """Records fights of one environment into one data set; as a context it keeps the recorded fights after an error.

    The data set of ``writer`` also has the fights of earlier recordings. ``n_wins`` is 0 if the environment does not
    report wins; ``n_steps`` counts recorded environment steps, ``n_decisions`` game decisions. Raises the errors of
    `DemonstrationWriter`, and `EnvironmentUsageError` if an option is wrong.
    """

    def __init__(
        self, folder: Path, env_id: str, options: Mapping[str, Any], player: str, *, is_continued: bool = False
    ) -> None:
        if is_continued and folder.exists():
            recorded = describe(folder).player
            if TOPPED_UP_PROBE in (player, recorded) and player != recorded:
                problem = (
                    f"has fights of {recorded!r}, and cannot be continued with {player!r}: a fit must know whether the "
                    "health was restored; record into another folder"
                )
                raise DemonstrationError(folder, problem)
        self._env = make_fight(env_id, options)
        self._env_id = env_id
        self._options = options
        try:
            self.writer = DemonstrationWriter(
                folder, self._env, options, player, defaults=default_options(env_id), is_continued=is_continued
            )
        except BaseException:
            self._env.close()
            raise
        self._folder = folder
        self.n_fights = self.n_wins = self.n_steps = self.n_decisions = 0

    def seeds(self, seed: int, *, n_fights: int | None = None, minutes: float | None = None) -> Iterator[int]:
        """Yield the seed of each fight to record, until enough was recorded; see `fight_seeds`.

        Args:
            seed: Determines the seeds, of which those in the data set are left out.
            n_fights: Number of fights; None for no limit.
            minutes: Game time of all fights, of which the last one is completed; None for no limit.

        Raises:
            EnvironmentUsageError: With ``minutes``, the environment is not a duel.
        """
        if minutes is not None and not is_duel(self._env):
            raise EnvironmentUsageError(f"the game time of {self._env_id} is not known; give a number of fights")
        for fight_seed in fresh_seeds(seed, self.writer.seeds):
            if n_fights is not None and self.n_fights >= n_fights:
                return
            if minutes is not None and self.game_time_s >= 60.0 * minutes:
                return
            yield fight_seed

    @property
    def game_time_s(self) -> float:
        """Game time of the recorded fights of a duel (s)."""
        return self.n_decisions * decision_s(self._options)

    def record_actions(self, actions: NDArray[np.int64], seed: int) -> Episode:
        """Replay the action of each decision, int64 (decisions,), of a fight in the arena, and record it.

        Raises `DemonstrationError` if the replay has another length, or cannot be written.
        """
        episode = play_episode(self._env, lambda _, __, n: int(actions[min(n, len(actions) - 1)]), seed)
        n_decisions = int(episode.n_decisions.sum())
        if n_decisions != len(actions):
            raise DemonstrationError(
                self._folder,
                f"the fight with seed {seed} took {len(actions)} decisions, but {n_decisions} in the replay; boss, "
                "phase and start pose must be the same in both",
            )
        self.add(episode)
        return episode

    def play(self, player: Player, seed: int) -> Episode:
        """Play and record a fight of a trained policy.

        Raises `IncompatibleCheckpointError` if the policy cannot play this environment, and the errors of `add`.
        """
        alike = self._env.metadata.get("policies_of", ())
        player.header.check_env(self._env_id, sizes_of_one(self._env), alike=alike)
        episode = play_episode(self._env, PolicyActor(player, self._env.observation_space, self._env_id), seed)
        self.add(episode)
        return episode

    def probe(self, player: ProbePlayer, seed: int, *, is_restored: bool = False) -> Episode:
        """Play and record a fight of the probing player, which plays in every environment of duels with 20 actions.

        With ``is_restored``, the player's health is restored after each step that leaves less than `TOP_UP_BELOW` of
        it. Raises `EnvironmentUsageError` if the environment is not a duel, or has no game to restore the health in,
        and the errors of `add`.
        """
        duel: Any = self._env.unwrapped
        if not is_duel(self._env):
            raise EnvironmentUsageError(f"the probing player can only fight duels, not {self._env_id}")
        if is_restored and not hasattr(duel, "restore_player"):
            raise EnvironmentUsageError(
                f"the health can only be restored in a game, not in {self._env_id}; use soulslab boss record there"
            )

        def act(_: Any, mask: NDArray[np.bool_] | None, n_decisions: int) -> int:
            states = [duel.duel_state]
            if n_decisions == 0:
                player.begin(states, np.ones(1, np.bool_))
            if is_restored and states[0]["player_hp"] < TOP_UP_BELOW * states[0]["player_max_hp"]:
                duel.restore_player()
            return int(player.act(states, [mask if mask is not None else np.ones(N_ACTIONS, np.bool_)])[0])

        episode = play_episode(self._env, act, seed)
        self.add(episode)
        return episode

    def add(self, episode: Episode) -> None:
        """Record an episode of the same environment that was played elsewhere.

        Raises `DemonstrationError` if the episode is already recorded, or cannot be written.
        """
        self.writer.add(episode)
        self.n_fights += 1
        self.n_wins += bool(episode.is_won)
        self.n_steps += len(episode.actions)
        self.n_decisions += int(episode.n_decisions.sum())

    def arena_options(self) -> ArenaOptions:
        """Return the options of the arena, for players that only support it.

        Raises `EnvironmentUsageError` if the environment is not the arena.
        """
        if self._env_id != ARENA_ID:
            raise EnvironmentUsageError(
                f"the reference player and people can only fight in {ARENA_ID}; in {self._env_id}, use --policy or "
                "--player probe"
            )
        options = make_options(dict(self._options))
        for name in ("boss_intervals", "late_share", "position_noise_m"):
            if np.any(getattr(options, name)):
                raise EnvironmentUsageError(f"{name}: only a policy or the probe can be recorded with it; leave it out")
        return options

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with closing(self._env):
            self.writer.__exit__(kind, error, trace)


class _EnvTable(msgspec.Struct, frozen=True):
    """The ``env`` table of a config; recording does not use the other tables."""

    env: EnvSettings = EnvSettings()


def env_settings(config: Path | None, overrides: Sequence[str] = ()) -> EnvSettings:
    """Return the environment settings of a config of any learner, with changes (``env.options.skip_locked=true``).

    Raises `ConfigError` if the file cannot be read, or its ``env`` table is wrong.
    """
    return load_settings(_EnvTable, config, overrides).env


def fight_seeds(seed: int, n_fights: int, recorded: Collection[int] = ()) -> list[int]:
    """Return the seeds of fights to record, far from those of training and evaluation.

    ``seed`` determines the first one, and each further seed is larger by 1. Seeds that are already recorded are left
    out.
    """
    return list(islice(fresh_seeds(seed, recorded), n_fights))


def fresh_seeds(seed: int, recorded: Collection[int]) -> Iterator[int]:
    """Yield the seeds of `fight_seeds` without an end."""
    first = environment_seed(seed, RECORDING)
    return (each for i in count() if (each := (first + i) % SEEDS) not in recorded)


def record_fight(recorder: FightRecorder, seed: int) -> Episode:
    """Play one fight with the reference player, and record it; raises the errors of `FightRecorder`."""
    return recorder.record_actions(reference_actions(recorder.arena_options(), seed), seed)


def reference_actions(options: ArenaOptions, seed: int) -> NDArray[np.int64]:
    """Play one fight with the reference player, and return the action of each decision, int64 (decisions,).

    The player observes the boss in every decision, also while it cannot act, so no decision is skipped. Raises
    `BossFileError` if a boss file is malformed.
    """
    bosses = find_bosses(options.boss)
    simulator = Simulator(bosses, 1, options.fight_options(features=False, states=True, autoreset="disabled"))
    all_envs = np.ones(1, np.bool_)
    simulator.seed(np.array([seed], np.uint64), all_envs)
    simulator.reset(all_envs)
    player = ReferencePlayer(simulator.boss_of(0), 1)
    player.begin(simulator.states, all_envs)
    actions: list[int] = []
    while not simulator.duels["over"][0]:
        action = player.act(simulator.states, simulator.masks)
        actions.append(int(action[0]))
        simulator.step(action)
    return np.array(actions, np.int64)


#: `DUEL_STATE` with the tick of the fight: a person may cut a decision short.
_TICKED_STATE: Final[np.dtype[Any]] = np.dtype([*DUEL_STATE.descr, ("tick", "i8")])
#: Reward terms that are counters of the rules; the value for a step is the difference.
_COUNTED: Final = (("roll", "n_rolls"), ("attack", "n_attacks"), ("hit_streak", "streak_gain"))


def episodes_of_key_log(log: KeyLog, options: ArenaOptions) -> Iterator[Episode]:
    """Yield the completed fights of a log as episodes of an environment; the start poses may differ.

    Raises `KeyLogError` if boss or phase differ, a program changed the fight, or the log cannot be replayed, and
    `EnvironmentUsageError` if the reward is a Python function, which only the environment itself can call.
    """
    _check(log, options)
    replay = Replay(log)
    game = replay.fight
    fight: _EpisodeBuilder | None = None
    n_fights = 0
    while not replay.is_over:
        if game.stage == "fighting" and game.n_fights != n_fights:
            if fight is not None:
                _log.info("fight %d of the log was not completed; skipped", n_fights)
            n_fights, fight = game.n_fights, _EpisodeBuilder(game.fight, options)
        before = game.duel.copy()
        replay.tick()
        if replay.is_over or fight is None:
            continue
        fight.tick(before, game.action, is_press=game.is_press)
        if game.stage in ("won", "lost") or fight.n_decisions >= MAX_DECISIONS:
            yield fight.end(game.duel, is_won=game.stage == "won", is_terminated=game.stage != "fighting")
            fight = None


class _EpisodeBuilder:
    """Builds an episode from the ticks of a fight."""

    def __init__(self, rules: Record, options: ArenaOptions) -> None:
        self._rules = rules
        self._options = options
        self._weights = reward_weights(options.reward)
        self._observations: list[Any] = []
        self._states: list[Any] = []
        self._masks: list[NDArray[np.bool_]] = []
        self._actions: list[int] = []
        self._taken: list[int] = []
        self._rewards: list[float] = []
        self._step_start: Record = np.zeros(1, DUEL)[0]
        self._decision_start = self._step_start
        self._ticks = 0  # of the current decision
        self._centre_m = 0.0  # towards the centre, in the current step
        self.n_decisions = 0

    def tick(self, before: Record, action: int, *, is_press: bool) -> None:
        """Add a tick: the duel before it, and the action during it."""
        is_first = not self._actions
        if is_first or self._ticks == TICKS_PER_DECISION or is_press:
            if self._ticks:
                self._end_decision(before, is_over=False)
            self._begin_decision(before, action, is_first=is_first)
        self._ticks += 1

    def end(self, last: Record, *, is_won: bool, is_terminated: bool) -> Episode:
        """Return the episode, given the duel after its last tick."""
        if self._ticks:
            self._end_decision(last, is_over=is_terminated)
        self._end_step(last, is_won=is_won)
        self._observe(last)
        return Episode(
            observations=stack(self._observations),
            actions=np.array(self._actions, np.int64),
            rewards=np.array(self._rewards),
            masks=np.array(self._masks),
            n_decisions=np.array(self._taken, np.int64),
            is_terminated=is_terminated,
            is_won=is_won,
            duel_states=np.concatenate(self._states),
        )

    def _begin_decision(self, duel: Record, action: int, *, is_first: bool) -> None:
        self._decision_start, self._ticks = duel, 0
        mask = np.zeros(N_ACTIONS, np.bool_)
        n_open = write_mask(duel, self._rules, mask)
        if not is_first:
            if self._options.skip_locked and n_open == 1:
                return
            self._end_step(duel, is_won=False)
        self._observe(duel)
        self._actions.append(action if mask[action] else NOTHING)
        self._taken.append(0)
        self._step_start, self._centre_m = duel, 0.0

    def _end_decision(self, duel: Record, *, is_over: bool) -> None:
        self.n_decisions += 1
        self._taken[-1] += 1
        self._ticks = 0
        after_m = self._from_centre_m(duel)
        if not is_over and after_m > CENTRE_FREE_M:
            self._centre_m += self._from_centre_m(self._decision_start) - after_m

    def _end_step(self, duel: Record, *, is_won: bool) -> None:
        """Add the reward of the current step, with the terms of `soulslab.arena.simulator`."""
        start, rules = self._step_start, self._rules
        terms = {
            "boss_damage": (start.b_hp - duel.b_hp) / rules.b_max_hp,
            "player_damage": (start.p_hp - duel.p_hp) / rules.p_max_hp,
            "win": float(is_won),
            "death": float(duel.p_hp <= 0.0),
            "time": float(self._taken[-1]),
            "centre": self._centre_m,
        }
        terms |= {name: float(duel[field] - start[field]) for name, field in _COUNTED}
        self._rewards.append(sum(self._weights.get(name, 0.0) * float(terms[name]) for name in REWARD_TERMS))

    def _observe(self, duel: Record) -> None:
        """Add the observation and the action mask for a state."""
        mask = np.zeros(N_ACTIONS, np.bool_)
        write_mask(duel, self._rules, mask)
        self._masks.append(mask)
        states = np.zeros(1, DUEL_STATE)
        write_state(duel, self._rules, states[0])
        ticked = np.zeros(1, _TICKED_STATE)
        ticked[list(DUEL_STATE.names or ())] = states
        ticked["tick"] = duel.tick
        self._states.append(ticked)
        kind = self._options.observation
        if kind in ROW_NAMES:
            features = np.zeros(len(ROW_NAMES[kind]), np.float32)
            (write_relative if kind == "relative" else write_features)(duel, self._rules, features)
            self._observations.append(features)
            return
        self._observations.append(row(duel_observation(states), 0))

    def _from_centre_m(self, duel: Record) -> float:
        return float(np.hypot(duel.p_x - self._rules.reward_x, duel.p_y - self._rules.reward_y))


def _check(log: KeyLog, options: ArenaOptions) -> None:
    header = log.header
    for name, theirs, ours in (("boss", header.boss, options.boss), ("phase", header.phase, options.phase)):
        if str(theirs) != str(ours):
            raise KeyLogError(
                log.source, f"its {name} is {theirs}, but the environment has {ours}; set the {name} of the environment"
            )
    if any(isinstance(line, State) for line in log.lines):
        raise KeyLogError(log.source, "a program changed the fight, so the log is not the play of a person")
    if any(options.latency_ms) or options.held_out_rules != "none":
        raise EnvironmentUsageError("latency_ms, held_out_rules: a key log was played without them; leave them out")
    if callable(options.reward):
        raise EnvironmentUsageError("reward: a function cannot be evaluated for a key log; use a table of terms")


#: Called with the seed of a completed fight and the action of each decision, int64 (decisions,).
OnFight: TypeAlias = Callable[[int, NDArray[np.int64]], None]

_log = logging.getLogger(__name__)


def record_in_terminal(
    recorder: FightRecorder, seed: int, on_episode: Callable[[Episode], None] | None = None
) -> Tally:
    """Run fights in the terminal until the player quits; each fight is written when it has ended.

    ``on_episode`` is called with each fight. The seed increases by 1 for each further fight. Raises the errors of
    `FightRecorder` and `play_in_terminal`.
    """
    options = recorder.arena_options()
    rules: dict[str, Any] = {"boss": options.boss, "phase": options.phase, "random_pose": options.random_pose}

    def keep(fight_seed: int, actions: NDArray[np.int64]) -> None:
        episode = recorder.record_actions(actions, fight_seed)
        recorder.writer.publish()
        if on_episode is not None:
            on_episode(episode)

    return play_in_terminal(FightLog(gymnasium.make(ARENA_ID, **rules), seed, keep), seed=seed)


def record_key_log(recorder: FightRecorder, path: Path) -> None:
    """Record the completed fights of a key log; fights that are already recorded are left out.

    Raises the errors of `FightRecorder` and `episodes_of_key_log`.
    """
    n_known = 0
    for episode in episodes_of_key_log(read_key_log(path), recorder.arena_options()):
        if recorder.writer.is_recorded(episode):
            n_known += 1
        else:
            recorder.add(episode)
    if n_known:
        _log.warning("%s: left out %d fights that the data set already contains", path, n_known)
    elif recorder.n_fights == 0:
        _log.warning("%s: contains no completed fight", path)


class FightLog(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wrapper of ``soulslab/Arena-v0`` without ``skip_locked`` that reports the actions of each completed fight.

    The seed increases by 1 for each further fight.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int, on_fight: OnFight) -> None:
        super().__init__(env)
        self._next_seed = self._seed = seed
        self._on_fight = on_fight
        self._actions: list[int] = []
        self._mask = np.zeros(0, np.bool_)

    def reset(
        self,
        *,
        seed: int | None = None,  # noqa: ARG002  (the wrapper chooses the seeds)
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start the next fight with its own seed; see `gymnasium.Env.reset`."""
        self._seed = self._next_seed % SEEDS
        self._next_seed += 1
        self._actions.clear()
        observation, info = self.env.reset(seed=self._seed, options=options)
        self._mask = info["action_mask"]
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one decision; see `gymnasium.Env.step`."""
        # The environment executes an action that is not allowed as "nothing".
        self._actions.append(int(action) if self._mask[action] else NOTHING)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._mask = info["action_mask"]
        if terminated or truncated:
            self._on_fight(self._seed, np.array(self._actions, np.int64))
        return observation, reward, terminated, truncated, info
