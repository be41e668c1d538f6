"""Beginning a run with the weights of another policy, as of the phase of a fight before."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from soulslab.config.writing import toml_value
from soulslab.errors import IncompatibleCheckpointError
from soulslab.learn.environment import Sizes
from soulslab.learn.players import load_player
from soulslab.learn.rainbow.policy import QHeader, QPolicy


def start_from(policy: QPolicy, path: Path, alike: Collection[str] = ()) -> None:
    """Give a policy the weights of another, and its normaliser, without which they would mean nothing.

    Args:
        policy: Is changed in place; its header stays.
        path: File of the other policy, or folder of its run.
        alike: Ids of environments whose policies fit this one's (``metadata["policies_of"]``).

    Raises:
        CheckpointError: There is no such file, or it cannot be used.
        IncompatibleCheckpointError: It is no policy of action values, or one that sees, does or is built otherwise.
    """
    other = load_player(path)
    if not isinstance(other, QPolicy):
        raise IncompatibleCheckpointError(
            path, "is no policy of action values, and only such a one can be gone on with; run.start_from needs another"
        )
    here = policy.header
    sizes = Sizes(here.n_envs, here.n_features, here.n_actions, here.pixels, here.feature_names)
    other.header.check_env(here.env_id, sizes, path, alike=alike)
    found = _build(other.header)
    for name, wanted in _build(here).items():
        if found[name] != wanted:
            raise IncompatibleCheckpointError(
                path,
                f"has {name} = {found[name]}, but this run has {wanted}; set it to that of the policy, or "
                "run.start_from to another",
            )
    policy.load_state(other.state(), path)


def _build(header: QHeader) -> dict[str, Any]:
    """Return the settings that shape a policy, by their names in the config."""
    built: dict[str, Any] = {"env.frame_stack": header.frame_stack}
    built |= {f"inputs.{name}": value for name, value in msgspec.structs.asdict(header.extras).items()}
    built |= {f"network.{name}": value for name, value in msgspec.structs.asdict(header.network).items()}
    built["network.bins"] = toml_value(header.network.bins)  # as they can be written into a config
    if header.pixels is None:
        del built["network.channels"]  # of no network
    return built
