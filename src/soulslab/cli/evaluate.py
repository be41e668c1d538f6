"""``soulslab evaluate``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_OK, check_file, table_console, write_json
from soulslab.cli.parameters import EnvironmentFlags, Flag, Seed, find_run, option_group
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.fights.recording import FightRecorder
    from soulslab.learn.demonstrations.recorded_episode import Episode


@option_group
class EvaluateFlags:
    """The evaluation.

    Attributes:
        fights: Number of fresh fights.
        envs: Number of environments (for real games: of processes); by default, as in training; one if --env names a
            game, and not the environment of the training.
        seed: Seed of the fights.
        greedy: Only evaluate greedy actions; by default, greedy and sampled actions.
        sampled: Only evaluate sampled actions; by default, greedy and sampled actions.
        json: Also write the tables to this file.
        record: Also record the fights as a data set in this folder, for soulslab boss fit and for the dashboard, which
            shows the first 1024 of the built-in fight with their picture. Then only greedy actions are evaluated,
            unless --sampled is given.
    """

    fights: Annotated[int, Parameter(validator=Number(gte=1))] = 1000
    envs: Annotated[int | None, Parameter(validator=Number(gte=1, lte=65536))] = None
    seed: Seed = 0
    greedy: Flag = False
    sampled: Flag = False
    json: Path | None = None
    record: Path | None = None

    def selections(self) -> list[str]:
        """Return how actions are selected in each evaluation."""
        if self.record is not None and self.greedy and self.sampled:
            raise ConfigError("holds one evaluation; give --greedy or --sampled", source="--record")
        if not (self.greedy or self.sampled):
            return ["greedy"] if self.record is not None else ["greedy", "sampled"]
        return [name for name in ("greedy", "sampled") if getattr(self, name)]


def evaluate(
    run: Annotated[Path, Parameter(name=("--run", "--policy"))],
    *,
    flags: EvaluateFlags = EvaluateFlags(),
    environment: EnvironmentFlags = EnvironmentFlags(),
) -> int:
    """Measure the win rate of a trained agent.

    Args:
        run: Folder of a run, a policy file, or the name of a shipped policy, such as judge.
    """
    check_file(flags.json)
    run = find_run(run)
    from contextlib import ExitStack

    from soulslab.config import without_secrets
    from soulslab.envs.registration import ARENA_ID
    from soulslab.learn.evaluate import MANY, EvaluationSettings
    from soulslab.learn.evaluate import evaluate as evaluate_policy
    from soulslab.learn.players import load_player
    from soulslab.learn.sinks import ConsoleSink
    from soulslab.report import evaluation_rows, evaluation_tables

    policy = load_player(run)
    header = policy.header
    env_id, options = environment.choose(header.env_id, header.env_options, run)
    n_envs = None
    if env_id == ARENA_ID:
        # Only the first fight of an environment has a seed, with which the dashboard repeats it.
        n_envs = MANY if flags.record else None
    elif env_id != header.env_id:
        n_envs = 1  # of the environments of a training in the simulator, each would be a game
    evaluations = {}
    sink = ConsoleSink()
    for selection in flags.selections():
        settings = EvaluationSettings(
            env_id=env_id,
            env_options=options,
            n_fights=flags.fights,
            n_envs=flags.envs or n_envs,
            seed=flags.seed,
            deterministic=selection == "greedy",
        )
        with ExitStack() as parts:
            record = None
            if flags.record is not None:
                from soulslab.fights.recording import FightRecorder

                recorder = parts.enter_context(
                    FightRecorder(flags.record, env_id, options, f"evaluation of {run.name}")
                )
                record = partial(_record, recorder)
            evaluations[selection] = evaluate_policy(policy, settings, sinks=[sink], record=record)
    facts = {"env": env_id, "options": without_secrets(options), "seed": flags.seed}
    write_json(flags.json, evaluation_rows(evaluations, facts))
    for table in evaluation_tables(evaluations):
        table_console().print(table, "")
    return EXIT_OK


def _record(recorder: FightRecorder, episode: Episode) -> None:
    """Record a fight; an environment without chance may repeat one, which is not added again."""
    if not recorder.writer.is_recorded(episode):
        recorder.add(episode)
