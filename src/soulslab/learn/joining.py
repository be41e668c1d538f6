"""Joins trained runs, one for each phase, to one policy; the door behind ``soulslab join``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from soulslab.errors import ConfigError, IncompatibleCheckpointError, did_you_mean
from soulslab.learn.environment import feature_names, make_vector
from soulslab.learn.phases import Member, PhasePolicy, Switch
from soulslab.learn.player import Header
from soulslab.learn.players import load_player
from soulslab.learn.policy import Policy
from soulslab.learn.rainbow.policy import QPolicy
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
    """Make one policy of those of several runs.

    Args:
        runs: Folders of runs, or policy files, the first phase's first.
        feature: What tells the phases apart: the number of a feature of the observation, or its name where the
            environment tells names (``feature_names``).
        at_most: The second phase begins where the feature is at most the first of these, and so on.
        changes: Options of the environment in which the joined policy plays, where these are others than the policies
            were trained with. Those that the environment of training had not been given are left out.
        trust: Make the environment that the first policy's file names, whatever it runs.

    Returns:
        The joined policy.

    Raises:
        CheckpointError: A run has no policy, or its file cannot be used.
        ConfigError: There are too few policies, no such feature, or not one threshold for each policy but the first.
        IncompatibleCheckpointError: The policies look at different things, or one is joined already.
        UntrustedFileError: The environment has to be made, and the file decides what runs.
    """
    if len(runs) < 2:
        raise ConfigError(f"needs policies of two phases or more, not {len(runs)}; name a run for each", source="join")
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
    """Return the switch on a feature that is given by number or by name.

    Args:
        header: Of one of the policies. For a name its environment is made, to be asked.
        feature: Number or name.
        at_most: Thresholds, falling.

    Raises:
        ConfigError: The environment tells no names, or none that is this one.
    """
    if feature.isdecimal():
        return Switch(feature=int(feature), at_most=tuple(at_most))
    with closing(make_vector(header.env_id, 1, _without_functions(header.env_options))) as env:
        names = feature_names(env)
    if not names:
        raise ConfigError(
            f"{header.env_id} tells no names of its features, so {feature!r} cannot be found; give the number of the "
            "feature, counted from 0",
            path="switch.feature",
        )
    if feature not in names:
        raise ConfigError(
            f"{header.env_id} has no feature {feature!r}{did_you_mean(feature, names)}", path="switch.feature"
        )
    return Switch(feature=names.index(feature), at_most=tuple(at_most), name=feature)


def _without_functions(options: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out Python functions, which a file does not hold; a reward does not change what is observed."""
    return {
        name: value
        for name, value in options.items()
        if not (isinstance(value, str) and value.startswith("<function "))
    }


def _load_member(run: Path) -> Member:
    player = load_player(run)
    if not isinstance(player, Policy | QPolicy):
        raise IncompatibleCheckpointError(run, "is joined already; join the policies that it was made of")
    return player


def _tell_of_differences(headers: Sequence[Header], runs: Sequence[Path], given: Mapping[str, Any]) -> None:
    """Warn where policies were trained with other options and nobody says which of them counts."""
    first = headers[0].env_options
    for header, run in zip(headers[1:], runs[1:], strict=True):
        for name in sorted(first.keys() | header.env_options.keys()):
            here, there = header.env_options.get(name), first.get(name)
            if name not in given and here != there:
                _log.warning("%s: trained with %s=%s; what counts is that of %s: %s", run, name, here, runs[0], there)
