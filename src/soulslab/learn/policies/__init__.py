"""The policies that come with soulslab, and their cards; ``scripts/ship_policies.py`` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from soulslab.config import load_settings
from soulslab.errors import CheckpointError, did_you_mean

POLICY_DIR: Final = Path(__file__).parent
CARDS: Final = POLICY_DIR / "cards.toml"


class PolicyCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a policy was trained, and how often it wins.

    Attributes:
        config: Shipped config of the training.
        boss: Boss of the training, or a range of bosses.
        evaluation_boss: Boss of the evaluation, or a range of bosses that were not used before.
        seed: Seed of the training.
        commit: Commit of soulslab that trained it.
        env_steps: Game decisions of the training.
        train_minutes: Duration of the training on one core of a busy machine (min).
        fights: Greedy evaluation fights; none of them was used for training.
        wins: Number of these fights that it won.
        low: Lower end of the 95 % Wilson interval of the win rate, 0..1.
        high: Upper end of that interval.
        evaluation_seed: Seed of the evaluation; no other seed was evaluated.
    """

    config: str
    boss: str
    evaluation_boss: str
    seed: int
    commit: str
    env_steps: int
    train_minutes: float
    fights: int
    wins: int
    low: float
    high: float
    evaluation_seed: int


class PolicyCards(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The cards of all policies, by name."""

    policies: dict[str, PolicyCard] = {}


def shipped_policies() -> dict[str, PolicyCard]:
    """Return the cards of the policies that come with soulslab, by name."""
    return load_settings(PolicyCards, CARDS).policies


def shipped_policy(name: str) -> Path | None:
    """Return the file of a policy by its name, such as ``judge``; None for an unknown name."""
    return POLICY_DIR / f"{name}.safetensors" if name in shipped_policies() else None


def find_shipped(path: Path) -> Path:
    """Return the file of a shipped policy if the path is only its name and does not exist; otherwise the path.

    Raises `CheckpointError` if the path does not exist and is not the name of a policy either.
    """
    if path.exists():
        return path
    shipped = shipped_policy(path.name) if path.parent == Path() else None
    if shipped is None:
        raise CheckpointError(
            path,
            "does not exist; name the folder of a run, a policy file, or a policy of soulslab"
            + did_you_mean(path.name, shipped_policies()),
        )
    return shipped
