"""One policy for each phase of a fight, and a switch that tells from the observation whose turn it is.

A boss that changes its manners in the middle of a fight is two bosses to a learner. Each phase can be learned by
itself, the second from the weights of the first, and the two be joined: they play as one policy, are saved as one file,
and are evaluated as any other.
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
from soulslab.learn.archive import Tensors, read_archive, write_archive
from soulslab.learn.inputs import Inputs
from soulslab.learn.player import ActionScores, Header, Player, different_names, parse_header
from soulslab.learn.policy import Policy
from soulslab.learn.provenance import git_commit
from soulslab.learn.rainbow import policy as action_values
from soulslab.learn.rainbow.policy import QPolicy
from soulslab.version import VERSION

FORMAT: Final = "soulslab-phase-policy"
FORMAT_VERSION: Final = 1

Member = Policy | QPolicy

_ALIKE: Final = ("env_id", "n_features", "n_actions", "pixels", "frame_stack", "extras")
"""What the members have to agree in: one observer looks for them all."""


class Switch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whose turn it is, by one feature of the observation.

    It knows nothing but the present observation, so a feature that goes up and down switches to and fro; the health
    of a boss only falls.

    Attributes:
        feature: Number of the feature among those that the environment gives, 0..F-1.
        at_most: The second phase begins where the feature is at most the first of these, the third where it is at most
            the second, and so on; each is below the one before, in the units of the observation.
        name: Name of the feature, for people; "" if the environment tells none.
    """

    feature: int
    at_most: tuple[Annotated[float, Meta(ge=-1e30, le=1e30)], ...]  # within float32
    name: str = ""

    def phases(self, features: NDArray[np.float32]) -> NDArray[np.intp]:
        """Return the phase of each observation.

        Args:
            features: float32 (B, F or more).

        Returns:
            From 0, (B,).
        """
        # In float32, as the features are: 0.3 there is more than 0.3 here.
        thresholds = np.array(self.at_most, np.float32)
        found: NDArray[np.intp] = (features[:, self.feature, None] <= thresholds).sum(axis=1)
        return found

    def check(self, n_members: int, n_features: int) -> None:
        """Check that the switch knows each of its policies, and sees what it compares.

        Raises:
            ConfigError: It has too many or too few thresholds, they do not fall, or there is no such feature.
        """
        if len(self.at_most) != n_members - 1 or not self.at_most:
            raise ConfigError(
                f"has {len(self.at_most)} thresholds for {n_members} policies; give one for each policy but the first",
                path="switch.at_most",
            )
        thresholds = np.array(self.at_most, np.float32)
        if not np.isfinite(thresholds).all() or not (np.diff(thresholds) < 0.0).all():
            raise ConfigError(
                f"must be numbers that fall from phase to phase, but are {', '.join(map(str, self.at_most))}",
                path="switch.at_most",
            )
        if not 0 <= self.feature < n_features:
            raise ConfigError(
                f"there is no feature {self.feature}: the policies see {n_features} features, counted from 0",
                path="switch.feature",
            )


class PhaseHeader(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a policy for phases is; see also :class:`soulslab.learn.player.Header`.

    Attributes:
        format: Kind of file, ``FORMAT``.
        version: Version of the format.
        switch: Whose turn it is.
        members: Headers of the policies, the first phase's first.
    """

    format: str = FORMAT
    version: int = FORMAT_VERSION
    switch: Switch
    members: Annotated[tuple[dict[str, Any], ...], Meta(min_length=2, max_length=64)]


class PhasePolicy:
    """Several policies that take turns.

    Attributes:
        header: What it is and where it comes from. Its options are those of the first policy, over which those given
            are laid; its game decisions are those of all policies together.
        members: The policies, the first phase's first.
        switch: Whose turn it is.
    """

    def __init__(
        self,
        members: Sequence[Member],
        switch: Switch,
        env_options: Mapping[str, Any] | None = None,
        *,
        names: Sequence[str | Path] = (),
    ) -> None:
        """Join policies.

        Args:
            members: One for each phase, the first phase's first.
            switch: Whose turn it is.
            env_options: Options of the environment that the joined policy is for, where they are others than the first
                policy's.
            names: Files of the policies, for messages.

        Raises:
            ConfigError: The switch does not fit the policies.
            IncompatibleCheckpointError: The policies look at different things, or can do different ones.
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
        """Choose an action per observation; see :class:`soulslab.learn.player.Player`."""
        inputs = obs if isinstance(obs, Inputs) else Inputs(np.atleast_2d(np.asarray(obs, np.float32)))
        masks = None if mask is None else np.atleast_2d(np.asarray(mask, np.bool_))
        phases = self.switch.phases(inputs.features)
        actions = np.zeros(len(phases), np.int64)
        for number, member in enumerate(self.members):
            rows = np.flatnonzero(phases == number)
            if len(rows) == 0:
                continue
            seen = Inputs(inputs.features[rows], None if inputs.pixels is None else inputs.pixels[rows])
            open_ = None if masks is None else masks[rows]
            actions[rows] = member.act(seen, open_, deterministic=deterministic)
        return actions if isinstance(obs, Inputs) else actions.reshape(np.shape(obs)[:-1])

    def scores(self, inputs: Inputs, mask: NDArray[np.bool_] | None = None) -> ActionScores:
        """Return the scores of the policy of the present phase, for one observation (B = 1)."""
        [number] = self.switch.phases(inputs.features)
        member: Player = self.members[number]
        return member.scores(inputs, mask)

    def seed(self, seed: int) -> None:
        """Seed the draws of :meth:`act`, each policy's differently."""
        for number, member in enumerate(self.members):
            member.seed(seed + number)

    def state(self) -> Tensors:
        """Return all tensors of all policies by name, as copies."""
        return {
            f"{number}/{name}": tensor
            for number, member in enumerate(self.members)
            for name, tensor in member.state().items()
        }

    def save(self, path: Path) -> None:
        """Write all policies to one file, atomically.

        Raises:
            CheckpointError: The file could not be written.
        """
        write_archive(path, self.state(), msgspec.to_builtins(self.header))

    @classmethod
    def load(cls, path: Path) -> PhasePolicy:
        """Read a policy for phases from its file.

        Raises:
            CheckpointError: There is no such file.
            CorruptCheckpointError: The file is truncated or altered.
            IncompatibleCheckpointError: It is no policy for phases, or of a format unknown to this soulslab.
        """
        tensors, raw = read_archive(path)
        header = read_header(raw, path)
        members = [_read_member(each, tensors, number, path) for number, each in enumerate(header.members)]
        try:
            policy = cls(members, header.switch, header.env_options, names=[path] * len(members))
        except ConfigError as error:
            raise CorruptCheckpointError(path, f"has a malformed header: {error}") from error
        # Where it comes from is what the file says, not who reads it.
        origin = {name: getattr(header, name) for name in ("soulslab", "commit", "members")}
        policy.header = msgspec.structs.replace(policy.header, **origin)
        if policy.header != header:
            raise CorruptCheckpointError(path, "has a malformed header: it is not that of the policies that it holds")
        return policy


def read_header(raw: Mapping[str, Any], path: Path) -> PhaseHeader:
    """Check and parse the header of a policy's file.

    Raises:
        CorruptCheckpointError: A field is missing or malformed.
        IncompatibleCheckpointError: It is no policy for phases, or of a format unknown to this soulslab.
    """
    return parse_header(raw, path, PhaseHeader, (FORMAT_VERSION,))


def _read_member(raw: Mapping[str, Any], tensors: Tensors, number: int, path: Path) -> Member:
    """Return the policy of one phase."""
    prefix = f"{number}/"
    own = {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    kind: type[Member] = QPolicy if raw.get("format") == action_values.FORMAT else Policy
    return kind.from_tensors(raw, own, path)


def _check_alike(headers: Sequence[Header], names: Sequence[str | Path]) -> None:
    """Check that one observer can look for all policies, and that one environment takes all their actions."""
    first = headers[0]
    for header, name in zip(headers[1:], names[1:], strict=True):
        differences = [
            f"{field} {here}, but {names[0]} has {there}"
            for field in _ALIKE
            if (here := getattr(header, field)) != (there := getattr(first, field))
        ]
        difference = different_names(header.feature_names, first.feature_names) if not differences else ""
        if difference:
            differences = [f"{difference} in {names[0]}"]
        if differences:
            raise IncompatibleCheckpointError(
                name,
                f"has {differences[0]}; policies that take turns must agree in what they see and can do: train them on "
                "the same environment with the same inputs",
            )
