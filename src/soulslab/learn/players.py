"""Loading a trained policy, whatever learned it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from soulslab.errors import CheckpointError, IncompatibleCheckpointError
from soulslab.learn import phases
from soulslab.learn import policy as actor_critic
from soulslab.learn.archive import read_archive_header
from soulslab.learn.phases import PhasePolicy
from soulslab.learn.player import Player
from soulslab.learn.policy import Policy
from soulslab.learn.rainbow import policy as action_values
from soulslab.learn.rainbow.policy import QPolicy
from soulslab.learn.runs import CHECKPOINTS_NAME, POLICY_NAME

_LOADERS: Final[dict[str, Callable[[Path], Player]]] = {
    actor_critic.FORMAT: Policy.load,
    action_values.FORMAT: QPolicy.load,
    phases.FORMAT: PhasePolicy.load,
}


def load_player(path: Path) -> Player:
    """Read a policy from its file, or the newest one from the folder of its run.

    Args:
        path: File, or folder of a run.

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
    if kind not in _LOADERS:
        raise IncompatibleCheckpointError(file, f"is no policy (format {kind!r}, not one of {', '.join(_LOADERS)})")
    return _LOADERS[kind](file)
