"""Loading a policy of any kind, and copying its weights to start a run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

import msgspec
import torch

from soulslab.config.writing import toml_value
from soulslab.errors import CheckpointError, IncompatibleCheckpointError
from soulslab.learn import checkpoint, phases
from soulslab.learn import policy as actor_critic
from soulslab.learn.archive import check_shapes, read_archive, read_archive_header
from soulslab.learn.environment import Sizes
from soulslab.learn.phases import PhasePolicy
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.policy_header import Player
from soulslab.learn.rainbow import q_policy as action_values
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.run_folder import CHECKPOINTS_NAME, POLICY_NAME, part

_AVERAGE: Final = "learner/average"


def _load_checkpoint(path: Path) -> Player:
    """Read the policy of a checkpoint, with the weights that the run would have saved."""
    tensors, raw = read_archive(path)
    header = raw.get("policy")
    if not isinstance(header, dict):
        raise IncompatibleCheckpointError(
            path, f"does not describe its policy, because an older soulslab wrote it; use the run's {POLICY_NAME}"
        )
    held = part(tensors, "policy")
    if header.get("format") != action_values.FORMAT:
        return Policy.from_tensors(header, held, path)
    values = QPolicy.from_tensors(header, held, path)
    flat = values.network.parameters_flat
    check_shapes(tensors, {_AVERAGE: flat.numpy()}, path)
    flat.copy_(torch.from_numpy(tensors[_AVERAGE]))
    return values


_LOADERS: Final[dict[str, Callable[[Path], Player]]] = {
    actor_critic.FORMAT: Policy.load,
    action_values.FORMAT: QPolicy.load,
    phases.FORMAT: PhasePolicy.load,
    checkpoint.FORMAT: _load_checkpoint,
}


def load_player(path: Path) -> Player:
    """Read a policy from its file, the newest one of a run, or an older one from a checkpoint.

    Args:
        path: Policy file, folder of a run, or a file in its ``checkpoints``.

    Returns:
        The policy, of the type that the format of the file determines.

    Raises:
        CheckpointError: The file does not exist, or the run has not saved a policy yet.
        CorruptCheckpointError: The file is truncated or altered.
        IncompatibleCheckpointError: The file is not a policy, or has an unknown version.
    """
    file = path / POLICY_NAME if path.is_dir() else path
    if path.is_dir() and not file.exists():
        has_begun = (path / CHECKPOINTS_NAME).exists()
        hint = "it has checkpoints: resume the run" if has_begun else "is it the folder of a run?"
        raise CheckpointError(path, f"holds no {POLICY_NAME}; {hint}")
    kind = read_archive_header(file).get("format")
    if not isinstance(kind, str) or kind not in _LOADERS:
        raise IncompatibleCheckpointError(
            file, f"is not a policy (format {kind!r:.100} instead of one of {', '.join(_LOADERS)})"
        )
    return _LOADERS[kind](file)


def start_from(policy: Policy | QPolicy, path: Path, alike: Collection[str] = ()) -> None:
    """Copy the weights and the normalisers of another policy.

    Args:
        policy: The policy to change; its header stays.
        path: File of the other policy, or folder of its run.
        alike: Ids of environments whose policies also match this policy's (``metadata["policies_of"]``).

    Raises:
        CheckpointError: The file does not exist or cannot be used.
        IncompatibleCheckpointError: The other policy has another format, or other inputs, actions or layers.
    """
    other, here = load_player(path), policy.header
    if not isinstance(other, Policy | QPolicy) or other.header.format != here.format:
        raise IncompatibleCheckpointError(
            path, f"is not a policy of the format {here.format!r}, which run.start_from needs for this algorithm"
        )
    sizes = Sizes(here.n_envs, here.n_features, here.n_actions, here.pixels, here.feature_names)
    other.header.check_env(here.env_id, sizes, path, alike=alike)
    found = _architecture(other.header)
    for name, wanted in _architecture(here).items():
        if found[name] != wanted:
            raise IncompatibleCheckpointError(
                path,
                f"has {name} = {found[name]}, but this run has {wanted}; use the value of the policy, or another "
                "policy for run.start_from",
            )
    policy.load_state(other.state(), path)


def _architecture(header: PolicyHeader | QHeader) -> dict[str, Any]:
    """Return the settings that determine the inputs and layers of a policy, by their names in the config."""
    built: dict[str, Any] = {"env.frame_stack": header.frame_stack}
    built |= {f"inputs.{name}": value for name, value in msgspec.structs.asdict(header.extras).items()}
    built |= {f"network.{name}": value for name, value in msgspec.structs.asdict(header.network).items()}
    if isinstance(header, QHeader):
        built["network.bins"] = toml_value(header.network.bins)  # in the notation of a config
    if header.pixels is None:  # layers for pixels have no effect
        built.pop("network.channels", None)
        built.pop("network.convolutions", None)
    return built
