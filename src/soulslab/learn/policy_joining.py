"""Joining trained policies, one for each phase of a fight, for ``soulslab join``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from soulslab.errors import ConfigError, IncompatibleCheckpointError, did_you_mean
from soulslab.learn.environment import feature_names, make_vector
from soulslab.learn.phases import Member, PhasePolicy, Switch
from soulslab.learn.players import load_player
from soulslab.learn.policy import Policy
from soulslab.learn.policy_header import Header
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.untrusted import check_named_environment

_log = logging.getLogger(__name__)


def join_runs(
    runs: Sequence[Path],
    feature: str,
    at_most: Sequence[float],
    changes: Mapping[str, Any] | None = None,
    *,
    trust: bool = False,
) -> PhasePolicy:
    """Join the policies of several runs.

    Args:
        runs: Folders of runs, or policy files, in the order of the phases.
        feature: Feature of the observation that determines the phase: its index, or its name if the environment
            defines names (``feature_names``).
        at_most: The second phase starts when the feature is at most the first threshold, and so on.
        changes: Options of the environment of the joined policy, if they differ from the options of the training.
            Options that the training environments did not have are ignored.
        trust: Whether the first policy's file may name any environment, even one that runs code.

    Returns:
        The joined policy.

    Raises:
        CheckpointError: A run has no policy, or its file cannot be used.
        ConfigError: There are too few policies, the feature is unknown, or the number of thresholds is wrong.
        IncompatibleCheckpointError: The policies have different inputs, or one is a joined policy already.
        UntrustedFileError: The environment has to be made, and the file names code to run.
    """
    if len(runs) < 2:
        raise ConfigError(f"needs policies of at least two phases, not {len(runs)}; name a run for each", source="join")
    members = [_load_member(run) for run in runs]
    headers = [member.header for member in members]
    if not trust and not feature.isdecimal():
        check_named_environment(headers[0].env_id, _without_functions(headers[0].env_options), runs[0])
    switch = find_switch(headers[0], feature, at_most)
    known = {name for header in headers for name in header.env_options}
    given = {name: value for name, value in (changes or {}).items() if name in known}
    _tell_of_differences(headers, runs, given)
    return PhasePolicy(members, switch, given, names=runs)


def find_switch(header: Header, feature: str, at_most: Sequence[float]) -> Switch:
    """Return the switch for a feature that is given by index or by name.

    Args:
        header: Header of one of the policies. Its environment is made to look up a name.
        feature: Index or name.
        at_most: Thresholds in descending order.

    Raises:
        ConfigError: The environment does not define names, or not this name.
    """
    if feature.isdecimal():
        return Switch(feature=int(feature), at_most=tuple(at_most))
    with closing(make_vector(header.env_id, 1, _without_functions(header.env_options))) as env:
        names = feature_names(env)
    if not names:
        raise ConfigError(
            f"{header.env_id} does not define names of its features, so {feature!r} is unknown; give the index of "
            "the feature, counted from 0",
            path="switch.feature",
        )
    if feature not in names:
        raise ConfigError(
            f"{header.env_id} has no feature {feature!r}{did_you_mean(feature, names)}", path="switch.feature"
        )
    return Switch(feature=names.index(feature), at_most=tuple(at_most), name=feature)


def _without_functions(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without Python functions, which a file cannot hold; a reward does not affect observations."""
    return {
        name: value
        for name, value in options.items()
        if not (isinstance(value, str) and value.startswith("<function "))
    }


def _load_member(run: Path) -> Member:
    player = load_player(run)
    if not isinstance(player, Policy | QPolicy):
        raise IncompatibleCheckpointError(run, "is a joined policy; join the policies that it consists of")
    return player


def _tell_of_differences(headers: Sequence[Header], runs: Sequence[Path], given: Mapping[str, Any]) -> None:
    """Warn if policies were trained with different options and ``given`` does not override them."""
    first = headers[0].env_options
    for header, run in zip(headers[1:], runs[1:], strict=True):
        for name in sorted(first.keys() | header.env_options.keys()):
            here, there = header.env_options.get(name), first.get(name)
            if name not in given and here != there:
                _log.warning("%s: trained with %s=%s; the joined policy uses %s of %s", run, name, here, there, runs[0])
