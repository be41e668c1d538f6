"""A policy that consists of one policy for each phase of a fight, and a switch on a feature of the observation.

A boss that changes its attacks in the middle of a fight is like two bosses for a learner. Each phase can be trained
separately, the second with the weights of the first as a start, and the policies can then be joined into one file that
is used and evaluated like any other policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.errors import ConfigError, CorruptCheckpointError, IncompatibleCheckpointError
from soulslab.learn.archive import Tensors, git_commit, join_parts, read_archive, take_part, write_archive
from soulslab.learn.inputs import Inputs
from soulslab.learn.policy import Policy
from soulslab.learn.policy_header import ActionScores, Header, different_names, header_errors, parse_header
from soulslab.learn.policy_view import PolicyView
from soulslab.learn.rainbow import q_policy as action_values
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.version import VERSION

FORMAT: Final = "soulslab-phase-policy"
FORMAT_VERSION: Final = 1

Member = Policy | QPolicy

_ALIKE: Final = ("env_id", "n_features", "n_actions", "pixels", "frame_stack", "extras")
"""Fields of the headers that must be equal, because one observer makes the inputs of all policies."""


class Switch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Determines the phase from one feature of the observation.

    Only the present observation counts, so the feature should be monotonic, such as the health of a boss.

    The feature is given by its index; its name, which may be "", is for display. The second phase starts when it is at
    most the first threshold (``at_most``), the third when it is at most the second, and so on; the thresholds descend
    and have the unit of the observation.
    """

    feature: int
    at_most: tuple[Annotated[float, Meta(ge=-1e30, le=1e30)], ...]  # within float32
    name: str = ""

    def phases(self, features: NDArray[np.float32]) -> NDArray[np.intp]:
        """Return the phase of each observation, (B,), counted from 0; ``features`` are float32 (B, F or more)."""
        # The comparison is in float32 like the features; 0.3 in float32 is greater than 0.3 in float64.
        thresholds = np.array(self.at_most, np.float32)
        found: NDArray[np.intp] = (features[:, self.feature, None] <= thresholds).sum(axis=1)
        return found

    def check(self, n_members: int, n_features: int) -> None:
        """Raise ConfigError unless there is a threshold for each change, they descend, and the feature exists."""
        if len(self.at_most) != n_members - 1 or not self.at_most:
            raise ConfigError(
                f"has {len(self.at_most)} thresholds for {n_members} policies; give one for each policy but the first",
                path="switch.at_most",
            )
        thresholds = np.array(self.at_most, np.float32)
        if not np.isfinite(thresholds).all() or not (np.diff(thresholds) < 0.0).all():
            raise ConfigError(
                f"must be finite and descend from phase to phase, but are {', '.join(map(str, self.at_most))}",
                path="switch.at_most",
            )
        if not 0 <= self.feature < n_features:
            raise ConfigError(
                f"feature {self.feature} does not exist: the policies have {n_features} features, counted from 0",
                path="switch.feature",
            )


class PhaseHeader(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Header of a joined policy: the switch and the headers of the policies, in the order of the phases."""

    format: str = FORMAT
    version: int = FORMAT_VERSION
    switch: Switch
    members: Annotated[tuple[dict[str, Any], ...], Meta(min_length=2, max_length=64)]


class PhasePolicy:
    """A policy for each phase of a fight, used as one policy.

    The options in its header are those of the first policy, updated with the given ones, and its number of game
    decisions is the sum over all policies.
    """

    def __init__(
        self,
        members: Sequence[Member],
        switch: Switch,
        env_options: Mapping[str, Any] | None = None,
        *,
        names: Sequence[str | Path] = (),
    ) -> None:
        """Join one policy for each phase, in order; ``names`` are their files, for error messages.

        Raises ConfigError if the switch does not match the policies, IncompatibleCheckpointError if the policies have
        different inputs or actions.
        """
        self.members = tuple(members)
        self.switch = switch
        headers = [member.header for member in self.members]
        switch.check(len(headers), headers[0].n_features if headers else 0)
        _check_alike(headers, names or [f"policy {number}" for number in range(1, len(headers) + 1)])
        first = headers[0]
        self.header = PhaseHeader(
            **{name: getattr(first, name) for name in _ALIKE},
            feature_names=next((header.feature_names for header in headers if header.feature_names), ()),
            env_options={**first.env_options, **(env_options or {})},
            soulslab=VERSION,
            commit=git_commit(),
            env_steps=sum(header.env_steps for header in headers),
            n_envs=max(header.n_envs for header in headers),
            switch=switch,
            members=tuple(msgspec.json.decode(msgspec.json.encode(header)) for header in headers),  # as a file has them
        )

    def act(
        self, obs: NDArray[np.float32] | Inputs, mask: NDArray[np.bool_] | None = None, *, deterministic: bool = True
    ) -> NDArray[np.int64]:
        """Choose an action for each observation; see :class:`soulslab.learn.policy_header.Player`."""
        inputs = obs if isinstance(obs, Inputs) else Inputs(np.atleast_2d(np.asarray(obs, np.float32)))
        masks = np.atleast_2d(np.asarray(mask, np.bool_)) if mask is not None else None
        phases = self.switch.phases(inputs.features)
        actions = np.zeros(len(phases), np.int64)
        for number, member in enumerate(self.members):
            rows = np.flatnonzero(phases == number)
            if len(rows) == 0:
                continue
            seen = inputs.select(rows)
            open_ = masks[rows] if masks is not None else None
            actions[rows] = member.act(seen, open_, deterministic=deterministic)
        return actions if isinstance(obs, Inputs) else actions.reshape(np.shape(obs)[:-1])

    def scores(self, inputs: Inputs, mask: NDArray[np.bool_] | None = None) -> ActionScores:
        """Return the scores of the policy of the present phase, for one observation (B = 1)."""
        [number] = self.switch.phases(inputs.features)
        member: Member = self.members[number]
        return member.scores(inputs, mask)

    def view(self, inputs: Inputs, mask: NDArray[np.bool_], action: int) -> PolicyView:
        """Compute a decision of the policy of the present phase again; see `soulslab.learn.policy_header.Player`."""
        [number] = self.switch.phases(inputs.features)
        member: Member = self.members[number]
        return member.view(inputs, mask, action)

    def seed(self, seed: int) -> None:
        """Seed the random draws of :meth:`act`, differently for each policy."""
        for number, member in enumerate(self.members):
            member.seed(seed + number)

    def state(self) -> Tensors:
        """Return copies of all tensors of all policies by name."""
        return join_parts({str(number): member.state() for number, member in enumerate(self.members)})

    def save(self, path: Path) -> None:
        """Write all policies to one file, atomically; raises CheckpointError if it cannot be written."""
        write_archive(path, self.state(), msgspec.to_builtins(self.header))

    @classmethod
    def load(cls, path: Path) -> PhasePolicy:
        """Read a joined policy from a file; errors as in `soulslab.learn.players.load_player`."""
        tensors, raw = read_archive(path)
        header = parse_header(raw, path, PhaseHeader, (FORMAT_VERSION,))
        members: list[Member] = []
        for number, each in enumerate(header.members):
            kind: type[Member] = QPolicy if each.get("format") == action_values.FORMAT else Policy
            members.append(kind.from_tensors(each, take_part(tensors, str(number)), path))
        with header_errors(path):
            policy = cls(members, header.switch, header.env_options, names=[path] * len(members))
        # The origin is that of the file, not of the soulslab that reads it.
        origin = {name: getattr(header, name) for name in ("soulslab", "commit", "members")}
        policy.header = msgspec.structs.replace(policy.header, **origin)
        if policy.header != header:
            raise CorruptCheckpointError(path, "has a malformed header: it does not match the policies in the file")
        return policy


def _check_alike(headers: Sequence[Header], names: Sequence[str | Path]) -> None:
    first = headers[0]
    for header, name in zip(headers, names, strict=True):
        if header.n_memory:
            raise IncompatibleCheckpointError(
                name, "remembers earlier observations (network.memory); only policies without memory can be joined"
            )
    for header, name in zip(headers[1:], names[1:], strict=True):
        differences = (
            f"{field} {here}, but {names[0]} has {there}"
            for field in _ALIKE
            if (here := getattr(header, field)) != (there := getattr(first, field))
        )
        difference = next(differences, "") or different_names(header.feature_names, first.feature_names, names[0])
        if difference:
            raise IncompatibleCheckpointError(
                name,
                f"has {difference}; policies to join must have the same inputs and actions: train them on the same "
                "environment with the same inputs",
            )
