"""Refinement of a policy for a boss that is known only from recordings: play, fit again, train on.

Each round the policy fights the boss, and its fights are recorded. The boss is fitted to all recordings, and training
goes on from the policy's weights on bosses drawn from the new intervals. A policy fights where its recordings so far
are wrong, so its own fights show what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeAlias

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.recorded_fight import RecordedFight, save_fight
from soulslab.arena.knight_file import load_knight
from soulslab.errors import ConfigError, EnvironmentUsageError
from soulslab.fights.fit_recordings import fight_of_states, read_recorded_fights, write_fit
from soulslab.fights.recording import make_fight
from soulslab.learn.demonstrations.recorded_episode import RECORDING, PolicyActor, play_episode
from soulslab.learn.environment import environment_seed, sizes_of_one
from soulslab.learn.evaluate import Interval, wilson_interval
from soulslab.learn.players import load_player
from soulslab.learn.policy_header import Player
from soulslab.learn.run_folder import CONFIG_NAME
from soulslab.learn.settings import TrainSettings
from soulslab.learn.telemetry import Sink
from soulslab.learn.train import train_uninterrupted
from soulslab.learn.training import load_run_settings

RECORDING_NAME: Final = "recording"
BOSS_NAME: Final = "boss.toml"
RUN_NAME: Final = "run"

#: Factor of the learning rate: a trained policy would forget much at the rate of the beginning.
LR_FACTOR: Final = 0.2

OpenSinks: TypeAlias = Callable[[Path], Sequence[Sink]]


class RefineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a refinement.

    Attributes:
        env_id: Environment in which the policy fights the boss.
        env_options: Its options.
        n_fights: Fights of each round.
        max_rounds: Greatest number of rounds.
        decisions: Decisions of the training of each round, in the simulator.
        seed: Seed of the fights and of the training.
    """

    env_id: str
    env_options: dict[str, Any]
    n_fights: int = 20
    max_rounds: int = 5
    decisions: int = 20_000_000
    seed: int = 0


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The fights of one round.

    Attributes:
        number: Number of the round, from 1.
        run: Run of the policy that fought.
        n_wins: Fights that it won, of ``n_fights``.
        game_time_s: Time of the fights.
    """

    number: int
    run: Path
    n_wins: int
    n_fights: int
    game_time_s: float

    @property
    def interval(self) -> Interval:
        """95 % interval of the win rate."""
        return wilson_interval(self.n_wins, self.n_fights)


def best_round(rounds: Iterable[Round]) -> Round:
    """Return the round with the most wins, the first of equal ones; its run has the policy to use."""
    return max(rounds, key=lambda each: each.n_wins)


def refine(
    run: Path, recordings: Sequence[Path], out: Path, settings: RefineSettings, open_sinks: OpenSinks = lambda _: ()
) -> Iterator[Round]:
    """Yield each round after its fights, until a round has no more wins than the best one before it.

    The folder ``out/round_1`` gets the recording of the first round, the boss that was fitted to all recordings after
    it, and the run that continued the training.

    Args:
        run: Folder of a PPO run in the simulator against a fitted boss; its policy fights first.
        recordings: Recordings to which the boss was fitted.
        out: Folder of the rounds; it must not exist.
        settings: Settings.
        open_sinks: Returns the telemetry sinks of a training, given its folder.

    Raises:
        ConfigError: The run does not train with PPO against a fitted boss, or ``out`` exists.
        EnvironmentUsageError: The environment is not a duel.
        KeyboardInterrupt: A training was interrupted; see `train_uninterrupted`.
    """
    trained = load_run_settings(run / CONFIG_NAME)
    if not isinstance(trained, TrainSettings) or "boss_intervals" not in trained.env.options:
        raise ConfigError("is not a run of fitted.toml, which a refinement continues", source=run)
    if out.exists():
        raise ConfigError("already exists; choose another folder", source=out)
    fights = read_recorded_fights(recordings)
    ground = find_boss(trained.env.options["boss"]).ground
    best = -1
    for number in range(1, settings.max_rounds + 1):
        folder = out / f"round_{number}"
        played = list(_play(load_player(run), settings, number))
        for fight, _ in played:
            save_fight(folder / RECORDING_NAME, fight)
        fights += [fight for fight, _ in played if len(fight.moments) > 1]
        n_wins = sum(is_won for _, is_won in played)
        time_s = sum(fight.game_time_s for fight, _ in played)
        yield Round(number=number, run=run, n_wins=n_wins, n_fights=len(played), game_time_s=time_s)
        if n_wins <= best or n_wins == len(played) or number == settings.max_rounds:
            return
        best = n_wins
        boss = folder / BOSS_NAME
        write_fit(fit_boss(fights, load_knight(), ground=ground), boss)
        train_uninterrupted(
            _continued(trained, run, boss, settings, number), folder / RUN_NAME, sinks=open_sinks(folder / RUN_NAME)
        )
        run = folder / RUN_NAME


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


def _play(player: Player, settings: RefineSettings, number: int) -> Iterator[tuple[RecordedFight, bool]]:
    """Yield each fight of a round, and whether it was won; no fight is one of another round."""
    # Each decision is a moment of the recording, also while the player is locked.
    options = {**settings.env_options, "skip_locked": False}
    first = environment_seed(settings.seed, RECORDING) + (number - 1) * settings.n_fights
    with closing(make_fight(settings.env_id, options)) as env:
        for n in range(settings.n_fights):
            yield record_duel(env, player, first + n, settings.env_id)


def record_duel(env: gymnasium.Env[Any, Any], player: Player, seed: int, env_id: str) -> tuple[RecordedFight, bool]:
    """Play a fight of a policy in any environment of duels; return its recording, and whether it was won.

    Raises `EnvironmentUsageError` if the environment is not a duel, and `IncompatibleCheckpointError` if the policy
    cannot play it.
    """
    duel: Any = env.unwrapped
    if not hasattr(duel, "duel_state"):
        raise EnvironmentUsageError(f"only duels can be recorded for a fit, not {env_id}")
    player.header.check_env(env_id, sizes_of_one(env), alike=env.metadata.get("policies_of", ()))
    hands = PolicyActor(player, env.observation_space, env_id)
    states: list[Any] = []

    def act(observation: Any, mask: NDArray[np.bool_] | None, n_decisions: int) -> int:
        states.append(duel.duel_state.copy())
        return hands(observation, mask, n_decisions)

    episode = play_episode(env, act, seed)
    states.append(duel.duel_state.copy())
    columns: Mapping[str, NDArray[Any]] = {name: np.stack([s[name] for s in states]) for name in states[0].dtype.names}
    fight = fight_of_states(columns.__getitem__, episode.n_decisions)
    return msgspec.structs.replace(fight, player="policy"), bool(episode.is_won)
