"""Policies of any kind: loading, copying weights to start a run, and joining the policies of several phases."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
import torch

from soulslab.config.writing import toml_value
from soulslab.errors import CheckpointError, ConfigError, IncompatibleCheckpointError
from soulslab.learn import checkpoint, phases
from soulslab.learn import policy as actor_critic
from soulslab.learn.archive import check_shapes, read_archive, read_archive_header, take_part
from soulslab.learn.environment import Sizes, feature_names, find_feature, make_vector, without_functions
from soulslab.learn.phases import Member, PhasePolicy, Switch
from soulslab.learn.policies import find_shipped
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.policy_header import Header, Player
from soulslab.learn.rainbow import q_policy as action_values
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.run_folder import CHECKPOINTS_NAME, POLICY_NAME
from soulslab.learn.untrusted import check_named_environment

_AVERAGE: Final = "learner/average"


def _load_checkpoint(path: Path) -> Player:
    """Read the policy of a checkpoint, with the weights that the run would have saved."""
    tensors, raw = read_archive(path)
    header = raw.get("policy")
    if not isinstance(header, dict):
        raise IncompatibleCheckpointError(
            path, f"does not describe its policy, because an older soulslab wrote it; use the run's {POLICY_NAME}"
        )
    held = take_part(tensors, "policy")
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
    """Read a policy from its file, the newest one from the folder of a run, or an older one from a checkpoint.

    The name of a shipped policy, such as ``judge``, is its file if there is no file or folder of that name.

    Raises:
        CheckpointError: The file does not exist, or the run has not saved a policy yet.
        CorruptCheckpointError: The file is truncated or altered.
        IncompatibleCheckpointError: The file is not a policy, or has an unknown version.
    """
    path = find_shipped(path)
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


def untrained_policy(raw: Mapping[str, Any], path: Path) -> Policy | QPolicy:
    """Return a policy of a header that is not in a file; raises IncompatibleCheckpointError or CorruptCheckpointError.

    ``path`` is named in errors.
    """
    if raw.get("format") == action_values.FORMAT:
        return QPolicy(QPolicy.read_header(raw, path))
    return Policy(Policy.read_header(raw, path))


def start_from(policy: Policy | QPolicy, path: Path, alike: Collection[str] = ()) -> None:
    """Copy the weights and the normalisers of another policy, or of the folder of its run.

    The header stays. ``alike`` are ids of environments whose policies also match (``metadata["policies_of"]``). Raises
    IncompatibleCheckpointError if the other policy has another format, or other inputs, actions or layers.
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
        if found.get(name, wanted) != wanted:  # a setting without effect is not there
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
        built.pop("network.channels")
    if header.pixels is None or header.network.channels:
        built.pop("network.convolutions", None)
    return built


_log = logging.getLogger(__name__)


def join_runs(
    runs: Sequence[Path],
    feature: str,
    at_most: Sequence[float],
    changes: Mapping[str, Any] | None = None,
    *,
    trust: bool = False,
) -> PhasePolicy:
    """Join the policies of several runs, or policy files, in the order of the phases.

    ``feature`` is the index or the name of the feature that determines the phase; ``at_most`` are the thresholds of
    :class:`Switch`. ``changes`` are options of the joined policy's environment; those that no training environment had
    are ignored. ``trust`` allows the first file to name any environment. Raises ConfigError,
    IncompatibleCheckpointError or UntrustedFileError.
    """
    if len(runs) < 2:
        raise ConfigError(f"needs policies of at least two phases, not {len(runs)}; name a run for each", source="join")
    members = [_load_member(run) for run in runs]
    headers = [member.header for member in members]
    if not trust and not feature.isdecimal():
        check_named_environment(headers[0].env_id, without_functions(headers[0].env_options), runs[0])
    switch = find_switch(headers[0], feature, at_most)
    known = {name for header in headers for name in header.env_options}
    given = {name: value for name, value in (changes or {}).items() if name in known}
    _warn_of_differences(headers, runs, given)
    return PhasePolicy(members, switch, given, names=runs)


def find_switch(header: Header, feature: str, at_most: Sequence[float]) -> Switch:
    """Return the switch for a feature that is given by index, or by name in the environment of a header."""
    if feature.isdecimal():
        return Switch(feature=int(feature), at_most=tuple(at_most))
    with closing(make_vector(header.env_id, 1, without_functions(header.env_options))) as env:
        names = feature_names(env)
    index = find_feature(feature, names, header.env_id, "switch.feature")
    return Switch(feature=index, at_most=tuple(at_most), name=feature)


def _load_member(run: Path) -> Member:
    player = load_player(run)
    if not isinstance(player, Policy | QPolicy):
        raise IncompatibleCheckpointError(run, "is a joined policy; join the policies that it consists of")
    return player


def _warn_of_differences(headers: Sequence[Header], runs: Sequence[Path], given: Mapping[str, Any]) -> None:
    """Warn if policies were trained with different options and ``given`` does not override them."""
    first = headers[0].env_options
    for header, run in zip(headers[1:], runs[1:], strict=True):
        for name in sorted(first.keys() | header.env_options.keys()):
            here, there = header.env_options.get(name), first.get(name)
            if name not in given and here != there:
                _log.warning("%s: trained with %s=%s; the joined policy uses %s of %s", run, name, here, there, runs[0])
