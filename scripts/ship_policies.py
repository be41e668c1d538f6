"""Copy trained policies into the package, and write a card for each: ``src/soulslab/learn/policies``.

::

    for boss in judge trickster frost_beast; do
        soulslab train --config demo.toml --set env.options.boss=$boss --set run.seed=100 --run-dir runs/$boss
    done
    python scripts/ship_policies.py demo.toml COMMIT runs/judge runs/trickster runs/frost_beast

    soulslab train --config generated.toml --set run.seed=100 --run-dir runs/generated
    python scripts/ship_policies.py generated.toml COMMIT runs/generated=generated:5000-5063

The name of a folder becomes the name of its policy. Each policy is evaluated once, in 1000 greedy fights; with
``FOLDER=BOSS`` against other bosses than those of the training, each fight in its own environment.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from soulslab.config import dump_settings, load_settings
from soulslab.learn.archive import write_atomically
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.policies import CARDS, POLICY_DIR, PolicyCard, PolicyCards, shipped_policies
from soulslab.learn.policy import Policy
from soulslab.learn.run_folder import CONFIG_NAME, POLICY_NAME
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import PROGRESS_NAME, read_json_lines
from soulslab.learn.telemetry import TrainFinished

N_FIGHTS: Final = 1000
EVALUATION_SEED: Final = 7_000_000


def main(config: str, commit: str, *runs: str) -> None:
    """Ship the policies of finished runs."""
    cards = shipped_policies() if CARDS.exists() else {}
    for folder, _, boss in (run.partition("=") for run in runs):
        run = Path(folder)
        card = _make_card(run, config, commit, boss)
        shutil.copyfile(run / POLICY_NAME, POLICY_DIR / f"{run.name}.safetensors")
        cards[run.name] = card
        sys.stdout.write(f"{run.name}: {card.wins} of {card.fights} fights won\n")
    write_atomically(CARDS, dump_settings(PolicyCards(policies=cards)).encode())


def _make_card(run: Path, config: str, commit: str, other_boss: str) -> PolicyCard:
    settings = load_settings(TrainSettings, run / CONFIG_NAME)
    finished = [each for each in read_json_lines(run / PROGRESS_NAME) if isinstance(each, TrainFinished)][-1]
    boss = str(settings.env.options["boss"])
    found = evaluate(
        Policy.load(run / POLICY_NAME),
        EvaluationSettings(
            env_id=settings.env.id,
            env_options={**settings.env.options, "boss": other_boss or boss},
            n_fights=N_FIGHTS,
            # So that the fights do not depend on the policy: the first fight of an environment is seeded.
            n_envs=N_FIGHTS if other_boss else None,
            seed=EVALUATION_SEED,
        ),
    )
    if found.n_wins is None or found.interval is None:
        raise SystemExit(f"{run}: its environment does not report wins")
    return PolicyCard(
        config=config,
        boss=boss,
        evaluation_boss=other_boss or boss,
        seed=settings.run.seed,
        commit=commit,
        env_steps=finished.env_steps,
        train_minutes=round(finished.seconds / 60.0, 1),
        fights=found.n_fights,
        wins=found.n_wins,
        low=round(found.interval.low, 4),
        high=round(found.interval.high, 4),
        evaluation_seed=EVALUATION_SEED,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
