"""Loading a trained policy, whatever learned it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch

from soulslab.errors import CheckpointError, IncompatibleCheckpointError
from soulslab.learn import checkpoint, phases
from soulslab.learn import policy as actor_critic
from soulslab.learn.archive import check_shapes, read_archive, read_archive_header
from soulslab.learn.phases import PhasePolicy
from soulslab.learn.player import Player
from soulslab.learn.policy import Policy
from soulslab.learn.rainbow import policy as action_values
from soulslab.learn.rainbow.policy import QPolicy
from soulslab.learn.runs import CHECKPOINTS_NAME, POLICY_NAME, part

_AVERAGE: Final = "learner/average"


def _load_checkpoint(path: Path) -> Player:
    """Read the policy out of a checkpoint: the one that the run would have kept then."""
    tensors, raw = read_archive(path)
    header = raw.get("policy")
    if not isinstance(header, dict):
        raise IncompatibleCheckpointError(
            path, f"does not say what its policy is, as an older soulslab wrote it; take the run's {POLICY_NAME}"
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
    """Read a policy from its file, the newest one from the folder of its run, or an older one from a checkpoint.

    Args:
        path: Policy file, folder of a run, or a file in its ``checkpoints``.

    Returns:
        The policy, of the kind that its file says.

    Raises:
        CheckpointError: There is no such file, or the run has saved no policy yet.
        CorruptCheckpointError: The file is truncated or altered.
        IncompatibleCheckpointError: It is no policy, or one of a format that this soulslab does not know.
    """
    file = path / POLICY_NAME if path.is_dir() else path
    if path.is_dir() and not file.exists():
        has_begun = (path / CHECKPOINTS_NAME).exists()
        hint = "it has checkpoints: resume the run" if has_begun else "is it the folder of a run?"
        raise CheckpointError(path, f"holds no {POLICY_NAME}; {hint}")
    kind = read_archive_header(file).get("format")
    if not isinstance(kind, str) or kind not in _LOADERS:
        raise IncompatibleCheckpointError(
            file, f"is no policy (format {kind!r:.100}, not one of {', '.join(_LOADERS)})"
        )
    return _LOADERS[kind](file)
