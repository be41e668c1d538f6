"""The interface and the header that all trained policies share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.config import without_secrets
from soulslab.errors import ConfigError, CorruptCheckpointError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.learn.archive import check_format
from soulslab.learn.environment import Sizes, find_features
from soulslab.learn.inputs import ExtraInputs, Inputs, Layout, Observer, PixelShape

if TYPE_CHECKING:
    from soulslab.learn.policy_view import PolicyView

Count = Annotated[int, Meta(ge=0, le=2**31)]
Positive = Annotated[int, Meta(ge=1, le=2**31)]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Description of a policy in its file.

    Attributes:
        env_id: Gymnasium id, with its version, of the training environment.
        env_options: Keyword arguments of that environment, without `soulslab.config.SECRET_OPTIONS`; of a Python
            function only the name.
        commit: Git commit of soulslab, with ``+`` appended if files had been changed; "" if unknown.
        env_steps: Number of game decisions of the training.
        n_envs: Number of environments of the training, which fitted on that machine; 0 if unknown.
        feature_names: Names of the F features, if there are any; they distinguish observations of the same length.
        has_log_probs: Whether the learner needs the log-probabilities of the actions that were drawn; not in the file.
    """

    has_log_probs: ClassVar[bool] = False

    env_id: str
    env_options: dict[str, Any]
    n_features: Count
    n_actions: Positive
    pixels: PixelShape | None = None
    frame_stack: Annotated[int, Meta(ge=1, le=64)] = 1
    extras: ExtraInputs = ExtraInputs()
    soulslab: str
    commit: str
    env_steps: Annotated[int, Meta(ge=0)] = 0
    n_envs: Annotated[int, Meta(ge=0, le=65536)] = 0
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Policies are shared, and files of earlier versions may hold a token.
        msgspec.structs.force_setattr(self, "env_options", without_secrets(self.env_options))

    @property
    def n_inputs(self) -> int:
        """Number of features that the network sees, including extra inputs."""
        return self.n_features + self.extras.n_features(self.n_actions)

    @property
    def n_memory(self) -> int:
        """Number of units of the recurrent layer; 0 without one."""
        return 0

    @property
    def stacked_pixels(self) -> tuple[int, int, int] | None:
        """Height, width and channels of the stacked pixels that the network sees; None without pixels."""
        if self.pixels is None:
            return None
        return self.pixels.height_px, self.pixels.width_px, self.pixels.n_channels * self.frame_stack

    def make_observer(self, layout: Layout, n_envs: int) -> Observer:
        """Return an observer of N environments that makes the inputs of the policy."""
        return Observer(
            layout,
            n_envs,
            self.frame_stack,
            extras=self.extras,
            n_actions=self.n_actions,
            n_memory=self.n_memory,
        )

    def check_env(self, env_id: str, sizes: Sizes, path: str | Path = "policy", *, alike: Collection[str] = ()) -> None:
        """Check that the policy matches an environment.

        ``alike`` are ids whose policies also match the environment (``metadata["policies_of"]``). Raises
        IncompatibleCheckpointError if the id, its version, a size or the name of a feature differs.
        """
        if self.env_id not in (env_id, *alike):
            raise IncompatibleCheckpointError(
                path, f"was trained on {self.env_id}, not on {env_id}; use that id, or train a new policy"
            )
        if sizes.pixels != self.pixels:
            raise IncompatibleCheckpointError(
                path,
                f"has {self.pixels or 'no'} pixels as input, but {env_id} has {sizes.pixels or 'none'}; check the "
                "environment's options",
            )
        for what in ("features", "actions"):
            here, there = getattr(self, f"n_{what}"), getattr(sizes, f"n_{what}")
            if here != there:
                raise IncompatibleCheckpointError(
                    path, f"has {here} {what}, but {env_id} has {there}; check the environment's options"
                )
        difference = different_names(self.feature_names, sizes.feature_names, env_id)
        if difference:
            raise IncompatibleCheckpointError(
                path, f"has {difference}; check the environment's options, especially its observation"
            )


class NetworkHeader(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Header of a policy with one network; ``network`` are its settings, whose type depends on the algorithm."""

    network: Any

    @property
    def n_memory(self) -> int:
        """Number of units of the recurrent layer; 0 without one."""
        n_units: int = self.network.memory
        return n_units

    def find_hidden_features(self) -> list[int]:
        """Return the indices of the features that the actor ignores, ascending; raises ConfigError for unknown ones."""
        found: set[int] = set()
        for name in dict.fromkeys(self.network.hidden_features):
            found.update(find_features(name, self.feature_names, self.env_id, "network.hidden_features"))
        return sorted(found)


def different_names(here: Sequence[str], there: Sequence[str], place: str | Path) -> str:
    """Describe the first difference from the feature names of ``place``; "" without one, or if a list is empty."""
    if not here or not there:
        return ""
    pairs = enumerate(zip(here, there, strict=True))
    return next(
        (f"{one!r} as feature {i}, which is {other!r} in {place}" for i, (one, other) in pairs if one != other), ""
    )


H = TypeVar("H", bound=Header)


def parse_header(raw: Mapping[str, Any], path: Path, kind: type[H], versions: Collection[int]) -> H:
    """Validate the header of a policy file; the default of its field ``format`` is the expected format."""
    known = next(field.default for field in msgspec.structs.fields(kind) if field.name == "format")
    check_format(raw, known, versions, path)
    with header_errors(path):
        header = msgspec.convert(raw, kind)
    if header.feature_names and len(header.feature_names) != header.n_features:
        raise CorruptCheckpointError(
            path, f"has a malformed header: {len(header.feature_names)} names of {header.n_features} features"
        )
    return header


class ActionScores(NamedTuple):
    """A number for each action, float32 (B, A).

    ``kind`` is ``probability`` (0 to 1, masked actions 0) or ``value`` (expected discounted return, masked actions
    too).
    """

    kind: str
    numbers: NDArray[np.float32]


@contextmanager
def header_errors(path: Path) -> Iterator[None]:
    """Convert errors in the settings of a header into a CorruptCheckpointError that names the file."""
    try:
        yield
    except (ConfigError, EnvironmentUsageError, msgspec.ValidationError) as error:
        raise CorruptCheckpointError(path, f"has a malformed header: {error}") from error


class Player(Protocol):
    """A trained policy: an actor-critic, action values, or one of them for each phase."""

    @property
    def header(self) -> Header:
        """Description of the policy."""

    def act(
        self, obs: NDArray[np.float32] | Inputs, mask: NDArray[np.bool_] | None = None, *, deterministic: bool = True
    ) -> NDArray[np.int64]:
        """Choose an action for each observation, int64 (B,), or a scalar array for one observation.

        Args:
            obs: Features of the environment, float32 (B, F) or (F,), or the inputs of a
                :class:`soulslab.learn.inputs.Observer`.
            mask: True for allowed actions, bool (B, A) or (A,); None allows all actions.
            deterministic: Whether to choose the best allowed action; otherwise an action is drawn (see :meth:`seed`).
        """

    def scores(self, inputs: Inputs, mask: NDArray[np.bool_] | None = None) -> ActionScores:
        """Return the score of each action, for display; draws no random numbers."""

    def view(self, inputs: Inputs, mask: NDArray[np.bool_], action: int) -> PolicyView:
        """Compute a decision again, for display; changes nothing, and draws no random numbers.

        Args:
            inputs: Inputs of one observation (B = 1).
            mask: True for allowed actions, bool (A,).
            action: The action that was chosen.
        """

    def seed(self, seed: int) -> None:
        """Seed the random draws of :meth:`act`."""

    def save(self, path: Path) -> None:
        """Write the policy to a file, atomically."""
