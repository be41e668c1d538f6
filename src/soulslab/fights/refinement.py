"""Refinement of a policy for a boss that is known only from recordings: play, fit again, train on.

Each round the policy fights the boss, and its fights are recorded. The boss is fitted to all recordings, and training
goes on from the policy's weights on bosses drawn from the new intervals. A policy fights where its recordings so far
are wrong, so its own fights show what it needs.

The folder of a refinement is its state::

    refinement.json            what is refined, and the outcome of each fight
    round_1/recording          the fights of the first round
    round_1/boss.toml          the boss that was fitted to all recordings after it
    round_1/run                the run that continued the training, whose policy fights in the next round

The outcomes are stored because a recording does not hold the end of a fight: its last moment is that before the last
decision, in which the boss or the player may have died, or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import gymnasium
import msgspec
from msgspec import Meta

from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.recorded_fight import RecordedFight, fight_files, read_fights, save_fight
from soulslab.arena.knight_file import load_knight
from soulslab.config import without_secrets
from soulslab.config.input_files import parse_json, read_bytes
from soulslab.envs.duels import decision_s
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import ConfigError, EnvironmentUsageError
from soulslab.fights.fit_recordings import fight_of_states, read_recorded_fights, ticks_of, write_fit
from soulslab.fights.prediction import trained_facts
from soulslab.fights.recording import make_fight
from soulslab.learn.archive import remove_temporary_files, write_atomically
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.demonstrations.recorded_episode import RECORDING, PolicyActor, is_duel, play_episode
from soulslab.learn.environment import environment_seed, sizes_of_one
from soulslab.learn.evaluate import Interval, wilson_interval
from soulslab.learn.players import load_player
from soulslab.learn.policy_header import Player
from soulslab.learn.run_folder import CHECKPOINTS_NAME, CONFIG_NAME
from soulslab.learn.settings import TrainSettings
from soulslab.learn.telemetry import Sink
from soulslab.learn.train import train_uninterrupted
from soulslab.learn.training import load_run_settings

STATE_NAME: Final = "refinement.json"
RECORDING_NAME: Final = "recording"
BOSS_NAME: Final = "boss.toml"
RUN_NAME: Final = "run"

MAX_STATE_BYTES: Final = 64 << 20
#: Greatest game time of a round.
MAX_MINUTES: Final = 600
#: Factor of the learning rate: a trained policy would forget much at the rate of the beginning.
LR_FACTOR: Final = 0.2
#: A policy that has won at least so many fights one after the other, in whole rounds, is not trained further.
ENOUGH_WON: Final = 10

OpenSinks: TypeAlias = Callable[[Path], Sequence[Sink]]


class RefineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a refinement.

    Attributes:
        env_id: Environment in which the policy fights the boss.
        env_options: Its options.
        minutes: Game time of the fights of each round (min), at most 600; its last fight is completed.
        max_rounds: Greatest number of rounds.
        decisions: Decisions of the training of each round, in the simulator.
        seed: Seed of the fights and of the training.
        profile: Game or profile of recordings of the bridge; see `read_recorded_fights`. "" for none.
    """

    env_id: str
    env_options: dict[str, Any]
    minutes: float = 4.0
    max_rounds: int = 5
    decisions: int = 8_000_000
    seed: int = 0
    profile: str = ""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The fights of one round.

    Attributes:
        number: Number of the round, from 1.
        run: Run of the policy that fought.
        refined: Run that is trained with these fights after the round; ``run`` if the last `ENOUGH_WON` were all won.
        n_wins: Fights that it won, of ``n_fights``.
        game_time_s: Time of the fights.
    """

    number: int
    run: Path
    refined: Path
    n_wins: int
    n_fights: int
    game_time_s: float

    @property
    def interval(self) -> Interval:
        """95 % interval of the win rate."""
        return wilson_interval(self.n_wins, self.n_fights)


class _Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Outcome of a fight, and its game time; one that ended before its second moment is not recorded."""

    is_won: bool
    game_time_s: Annotated[float, Meta(gt=0.0, le=1e6)]
    is_recorded: bool = True


class _State(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Contents of `STATE_NAME`; ``rounds`` are the outcomes of each round that has begun."""

    run: str
    recordings: list[str]
    settings: RefineSettings
    rounds: list[list[_Outcome]] = []

    @classmethod
    def of(cls, run: Path, recordings: Sequence[Path], settings: RefineSettings) -> _State:
        """Return the state of a new refinement; its settings are without secrets."""
        public = msgspec.structs.replace(settings, env_options=without_secrets(settings.env_options))
        return cls(run=str(run.resolve()), recordings=[str(path.resolve()) for path in recordings], settings=public)

    def outcomes_of(self, number: int, recording: Path) -> list[_Outcome]:
        """Return the outcomes of a round, from 1, to which those of further fights are appended."""
        if number > len(self.rounds):
            self.rounds.append([])
        outcomes = self.rounds[number - 1]
        n_files = len(fight_files(recording))
        while sum(each.is_recorded for each in outcomes) > n_files:
            outcomes.pop()  # the process was killed before it had saved this fight
        return outcomes


def _resumed(out: Path, wanted: _State) -> _State:
    """Return the state of the refinement in a folder; raise `ConfigError` if it is another one."""
    path = out / STATE_NAME
    if not path.exists():
        raise ConfigError("holds no refinement to continue; leave out --resume, or name its folder", source=out)

    def fail(problem: str) -> ConfigError:
        return ConfigError(problem, source=path)

    def fail_to_read(problem: str) -> ConfigError:
        return fail(f"{problem}; if an earlier soulslab wrote it, begin a new refinement in another folder")

    state = parse_json(read_bytes(path, MAX_STATE_BYTES, fail), _State, fail_to_read)
    now = msgspec.json.decode(msgspec.json.encode(wanted), type=_State)
    names = [field for field in RefineSettings.__struct_fields__ if field != "max_rounds"]
    pairs = [(name, getattr(state, name), getattr(now, name)) for name in ("run", "recordings")]
    pairs += [(name, getattr(state.settings, name), getattr(now.settings, name)) for name in names]
    for name, was, value in pairs:
        if was != value:
            raise fail(
                f"the refinement was started with {name} = {was!r}, not {value!r}; continue it with the same value, or "
                "choose another folder for a new one"
            )
    if wanted.settings.max_rounds < len(state.rounds):
        n_rounds, limit = len(state.rounds), wanted.settings.max_rounds
        raise fail(f"has {n_rounds} rounds, more than max_rounds = {limit}; continue it with at least {n_rounds}")
    return state


def refine(
    run: Path,
    recordings: Sequence[Path],
    out: Path,
    settings: RefineSettings,
    open_sinks: OpenSinks = lambda _: (),
    *,
    resume: bool = False,
) -> Iterator[Round]:
    """Yield each round after its fights, until all fights of the last rounds were won, at least `ENOUGH_WON`.

    A training follows each round, also the last one, unless it ends the refinement; it begins when the next round is
    requested, so the iterator must be consumed to its end. The policy to use is that of `Round.refined` of the last
    round: it was trained with all recordings, or it won the last fights. Each fight is saved when it has been
    played. SIGINT and SIGTERM during a training end the refinement after the training has been saved.

    Args:
        run: Folder of a PPO run in the simulator against a fitted boss; its policy fights first.
        recordings: Recordings to which the boss was fitted.
        out: Folder of the rounds; it must not exist, except with ``resume``.
        settings: Settings.
        open_sinks: Returns the telemetry sinks of a training, given its folder.
        resume: Whether to continue the refinement in ``out``. Its rounds are yielded again; what they hold is not
            played, fitted or trained again. Only ``max_rounds`` may have changed, and it must not be less than the
            number of the rounds in ``out``.

    Raises:
        ConfigError: The run does not train with PPO against a fitted boss, ``out`` exists, or the minutes are out of
            range; with ``resume``, ``out`` does not hold a refinement of this run with these recordings and settings.
        EnvironmentUsageError: The environment is not a duel.
        KeyboardInterrupt: A training was interrupted.
    """
    if not 0.0 < settings.minutes <= MAX_MINUTES:
        raise ConfigError(f"must be above 0 and at most {MAX_MINUTES}, not {settings.minutes}", path="minutes")
    trained = load_run_settings(run / CONFIG_NAME)
    is_fitted = trained.env.id == ARENA_ID and "boss_intervals" in trained.env.options
    if not isinstance(trained, TrainSettings) or not is_fitted:
        raise ConfigError("is not a run of fitted.toml, which a refinement continues", source=run)
    if out.exists() and not resume:
        raise ConfigError("already exists; choose another folder, or continue it with --resume", source=out)
    state = _State.of(run, recordings, settings)
    if resume:
        state = _resumed(out, state)
        for folder in (out, *out.glob("round_*"), *out.glob(f"round_*/{RECORDING_NAME}")):
            remove_temporary_files(folder)
    fights = read_recorded_fights(recordings, Path(settings.profile) if settings.profile else None)
    facts = trained_facts(trained.env.options, run)
    used = list(recordings)
    n_in_row = 0
    for number in range(1, settings.max_rounds + 1):
        outcomes, recorded = _play_round(state, out, run, settings, number)
        fights += recorded
        used += [_round_folder(out, number) / RECORDING_NAME] if recorded else []
        n_wins = sum(each.is_won for each in outcomes)
        time_s = _game_time_s(outcomes)
        folder = _round_folder(out, number)
        n_in_row = n_in_row + n_wins if n_wins == len(outcomes) else 0
        refined = folder / RUN_NAME if n_in_row < ENOUGH_WON else run
        yield Round(number=number, run=run, refined=refined, n_wins=n_wins, n_fights=len(outcomes), game_time_s=time_s)
        if refined == run:
            return
        boss = folder / BOSS_NAME
        if not boss.exists():
            write_fit(fit_boss(fights, load_knight(), ground=facts.ground, known=facts.known), boss, used)
        if len(state.rounds) <= number:
            _train(_continued(trained, run, boss, settings, number), refined, open_sinks)
        run = refined


def _round_folder(out: Path, number: int) -> Path:
    return out / f"round_{number}"


def _play_round(
    state: _State, out: Path, run: Path, settings: RefineSettings, number: int
) -> tuple[list[_Outcome], list[RecordedFight]]:
    """Play the fights of a round that were not played yet; return the outcomes and recordings of all of its fights."""
    folder = _round_folder(out, number) / RECORDING_NAME
    outcomes = state.outcomes_of(number, folder)
    limit_s = 60.0 * settings.minutes
    if _game_time_s(outcomes) < limit_s:
        player = load_player(run)
        # Each decision is a moment of the recording, also while the player is locked.
        with closing(make_fight(settings.env_id, {**settings.env_options, "skip_locked": False})) as env:
            # A recording ends with the moment before the last decision.
            step_s = decision_s(env.spec.kwargs if env.spec else {})
            while _game_time_s(outcomes) < limit_s:
                # No round repeats a fight.
                seed = environment_seed(settings.seed, RECORDING) + sum(map(len, state.rounds[:number]))
                fight, is_won = record_duel(env, player, seed, settings.env_id)
                time_s, is_recorded = fight.game_time_s + step_s, len(fight.moments) > 1
                outcomes.append(_Outcome(is_won=is_won, game_time_s=time_s, is_recorded=is_recorded))
                # The outcome is written first: `outcomes_of` recognises an outcome without its fight.
                out.mkdir(parents=True, exist_ok=True)
                write_atomically(out / STATE_NAME, msgspec.json.format(msgspec.json.encode(state)) + b"\n")
                if is_recorded:
                    save_fight(folder, fight)
    return outcomes, read_fights(folder) if fight_files(folder) else []


def _game_time_s(outcomes: Sequence[_Outcome]) -> float:
    return sum(each.game_time_s for each in outcomes)


def _train(settings: TrainSettings, run: Path, open_sinks: OpenSinks) -> None:
    """Train, or resume the training in a folder; one that is complete ends at once."""
    has_checkpoint = bool(CheckpointStore(run / CHECKPOINTS_NAME, keep=1).paths())
    train_uninterrupted(settings, run, resume=has_checkpoint, sinks=open_sinks(run))


def _continued(trained: TrainSettings, run: Path, boss: Path, settings: RefineSettings, number: int) -> TrainSettings:
    """Return the settings of a training that goes on from a run in small steps, against a new fit."""
    width = trained.env.options["boss_intervals"][1]
    options = {**trained.env.options, "boss": str(boss), "boss_intervals": [width, width]}
    return msgspec.structs.replace(
        trained,
        env=msgspec.structs.replace(trained.env, options=options),
        learner=msgspec.structs.replace(
            trained.learner, lr=LR_FACTOR * trained.learner.lr, entropy=trained.learner.entropy_end
        ),
        run=msgspec.structs.replace(
            trained.run, start_from=str(run), total_steps=settings.decisions, seed=settings.seed + number
        ),
    )


def record_duel(env: gymnasium.Env[Any, Any], player: Player, seed: int, env_id: str) -> tuple[RecordedFight, bool]:
    """Play a fight of a policy in any environment of duels; return its recording, and whether it was won.

    Raises `EnvironmentUsageError` if the environment is not a duel, and `IncompatibleCheckpointError` if the policy
    cannot play it.
    """
    if not is_duel(env):
        raise EnvironmentUsageError(f"only duels can be recorded for a fit, not {env_id}")
    player.header.check_env(env_id, sizes_of_one(env), alike=env.metadata.get("policies_of", ()))
    episode = play_episode(env, PolicyActor(player, env.observation_space, env_id), seed)
    states: Any = episode.duel_states
    step_s = decision_s(env.spec.kwargs if env.spec else {})
    fight = fight_of_states(lambda name: states[name], ticks_of(episode.n_decisions, step_s))
    return msgspec.structs.replace(fight, player="policy"), bool(episode.is_won)
