"""``soulslab evaluate``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_OK, check_json, table_console, write_json
from soulslab.cli.parameters import Flag, Repeated, Seed, TokenFile, find_run, option_group, token_options

_log = logging.getLogger(__name__)


@option_group
class EvaluateFlags:
    """The evaluation.

    Attributes:
        fights: Number of fresh fights.
        envs: Number of environments (for real games: of processes); by default, as in training.
        env: Environment with the same observations and actions, such as soulslab/DarkSouls3Iudex-v0. Its boss, latency
            and errors of observation are then not those of the training.
        option: Value of an option of the environment, as stand_in=true; may be repeated.
        boss: Boss; by default, that of the training.
        phase: 1, 2 or full; by default, that of the training.
        seed: Seed of the fights.
        greedy: Only evaluate greedy actions; by default, greedy and sampled actions.
        sampled: Only evaluate sampled actions; by default, greedy and sampled actions.
        json: Also write the tables to this file.
        trust: The policy's file may choose programs, profiles, servers and modules of the environment.
    """

    fights: Annotated[int, Parameter(validator=Number(gte=1))] = 1000
    envs: Annotated[int | None, Parameter(validator=Number(gte=1, lte=65536))] = None
    env: str | None = None
    option: Repeated = None
    boss: str | None = None
    phase: str | None = None
    seed: Seed = 0
    greedy: Flag = False
    sampled: Flag = False
    json: Path | None = None
    token_file: TokenFile = None
    trust: Flag = False

    def environment(self, trained_id: str, trained: dict[str, Any], source: Path) -> tuple[str, dict[str, Any]]:
        """Return the environment's id and its options, given those of the training and the file of the policy.

        Raises `UntrustedFileError` if the file chooses what is run, and is not trusted.
        """
        from soulslab.config import read_overrides
        from soulslab.envs.duels import TRAINING_CONDITIONS
        from soulslab.learn.untrusted import check_named_environment

        named = {name: value for name, value in (("boss", self.boss), ("phase", self.phase)) if value is not None}
        named |= read_overrides(self.option or (), "--option")
        # Bosses, and conditions of training in the simulator, belong to an environment.
        dropped = {*named, "boss", *TRAINING_CONDITIONS} if self.env else {*named}
        kept = {name: value for name, value in trained.items() if name not in dropped}
        if not self.trust:
            check_named_environment("" if self.env else trained_id, kept, source)
        return self.env or trained_id, {**kept, **named, **token_options(self.token_file)}


def evaluate(
    run: Annotated[Path, Parameter(name=("--run", "--policy"))], *, flags: EvaluateFlags = EvaluateFlags()
) -> int:
    """Measure the win rate of a trained agent.

    Args:
        run: Folder of a run, a policy file, or the name of a shipped policy, such as judge.
    """
    check_json(flags.json)
    run = find_run(run)
    from soulslab.config import without_secrets
    from soulslab.learn.evaluate import EvaluationSettings
    from soulslab.learn.evaluate import evaluate as evaluate_policy
    from soulslab.learn.players import load_player
    from soulslab.learn.sinks import ConsoleSink
    from soulslab.report import evaluation_rows, evaluation_tables

    policy = load_player(run)
    header = policy.header
    env_id, options = flags.environment(header.env_id, _without_functions(header.env_options), run)
    evaluations = {}
    sink = ConsoleSink()
    for selection in ("greedy", "sampled"):
        if (flags.greedy or flags.sampled) and not getattr(flags, selection):
            continue
        settings = EvaluationSettings(
            env_id=env_id,
            env_options=options,
            n_fights=flags.fights,
            n_envs=flags.envs,
            seed=flags.seed,
            deterministic=selection == "greedy",
        )
        evaluations[selection] = evaluate_policy(policy, settings, sinks=[sink])
    for table in evaluation_tables(evaluations):
        table_console().print(table, "")
    facts = {"env": env_id, **without_secrets(options), "seed": flags.seed}
    write_json(flags.json, evaluation_rows(evaluations, facts))
    return EXIT_OK


def _without_functions(options: dict[str, Any]) -> dict[str, Any]:
    """Leave out options that were Python functions in training, such as rewards; they do not change the win rate."""
    known = {}
    for name, value in options.items():
        if isinstance(value, str) and value.startswith("<function "):
            _log.warning("left out %s=%s, which only Python can pass; returns are those of the default", name, value)
        else:
            known[name] = value
    return known
