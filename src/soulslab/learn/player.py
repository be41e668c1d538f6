"""Who plays: what all trained policies have in common, whatever learned them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.config import without_secrets
from soulslab.errors import ConfigError, CorruptCheckpointError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.learn.environment import Sizes
from soulslab.learn.inputs import ExtraInputs, Inputs, PixelShape

Count = Annotated[int, Meta(ge=0, le=2**31)]
Positive = Annotated[int, Meta(ge=1, le=2**31)]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a policy is and where it comes from.

    Attributes:
        env_id: Gymnasium id, with its version, that it was trained on.
        env_options: Keyword arguments of that environment, without `soulslab.config.SECRET_OPTIONS`; a Python function
            is given by name only.
        n_features: F, length of one observation's flat part.
        n_actions: A.
        pixels: Size of one observation's pixels; None if it sees none.
        frame_stack: Observations whose pixels it sees at once.
        extras: What it sees beside the observation.
        soulslab: Version of soulslab that wrote it.
        commit: Git commit of that soulslab, ``+`` appended when it had been changed; "" if unknown.
        env_steps: Game decisions it was trained for.
        n_envs: Environments that it was trained in side by side, so many at least fit on that machine; 0 if unknown.
        feature_names: Names of the features, (F,), where the environment told any: two kinds of observations may be
            equally long.
    """

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
        """Features that the network sees, extra inputs included."""
        return self.n_features + self.extras.n_features(self.n_actions)

    @property
    def stacked_pixels(self) -> tuple[int, int, int] | None:
        """Height, width and channels of all the pixels that the network sees at once; None if it sees none."""
        if self.pixels is None:
            return None
        return self.pixels.height_px, self.pixels.width_px, self.pixels.n_channels * self.frame_stack

    def check_env(self, env_id: str, sizes: Sizes, path: str | Path = "policy", *, alike: Collection[str] = ()) -> None:
        """Check that the policy can play an environment.

        Args:
            env_id: Gymnasium id with its version.
            sizes: Of the environment; how many there are side by side does not matter.
            path: The policy's file, for the message.
            alike: Ids whose policies the environment takes as they are (``metadata["policies_of"]``).

        Raises:
            IncompatibleCheckpointError: The id, its version, a size or the name of a feature differs.
        """
        if self.env_id not in (env_id, *alike):
            raise IncompatibleCheckpointError(
                path, f"was trained on {self.env_id}, not on {env_id}; use that id, or train anew"
            )
        if sizes.pixels != self.pixels:
            raise IncompatibleCheckpointError(
                path,
                f"looks at {self.pixels or 'no'} pixels, but {env_id} gives {sizes.pixels or 'none'}; check the "
                "environment's options",
            )
        for what, here, there in (
            ("features", self.n_features, sizes.n_features),
            ("actions", self.n_actions, sizes.n_actions),
        ):
            if here != there:
                raise IncompatibleCheckpointError(
                    path, f"has {here} {what}, but {env_id} has {there}; check the environment's options"
                )
        difference = different_names(self.feature_names, sizes.feature_names)
        if difference:
            raise IncompatibleCheckpointError(
                path, f"has {difference} in {env_id}; check the environment's options, above all its observation"
            )


def different_names(here: Sequence[str], there: Sequence[str]) -> str:
    """Say which of two lists of features' names differ first; "" where they do not, or one of them is not known."""
    if not here or not there:
        return ""
    pairs = enumerate(zip(here, there, strict=True))
    return next((f"{one!r} as feature {i}, which is {other!r}" for i, (one, other) in pairs if one != other), "")


H = TypeVar("H", bound=Header)


def parse_header(raw: Mapping[str, Any], path: Path, kind: type[H], versions: Collection[int]) -> H:
    """Check and parse the header of a policy's file.

    Args:
        raw: What the file holds.
        path: The file, for the message.
        kind: Of header; the default of its ``format`` is what the file must say.
        versions: Of the format that can be read.

    Raises:
        CorruptCheckpointError: A field is missing or malformed.
        IncompatibleCheckpointError: It is of another kind, or one of a version that this soulslab does not know.
    """
    known = next(field.default for field in msgspec.structs.fields(kind) if field.name == "format")
    if raw.get("format") != known or raw.get("version") not in versions:
        raise IncompatibleCheckpointError(
            path,
            f"has format {raw.get('format')!r:.100} version {raw.get('version')!r:.100}; "
            f"this soulslab reads {known!r} version {' or '.join(map(str, versions))}; "
            f"it was written by soulslab {raw.get('soulslab', 'of unknown version')!s:.100}",
        )
    try:
        header = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise CorruptCheckpointError(path, f"has a malformed header: {error}") from error
    if header.feature_names and len(header.feature_names) != header.n_features:
        raise CorruptCheckpointError(
            path, f"has a malformed header: {len(header.feature_names)} names of {header.n_features} features"
        )
    return header


class ActionScores(NamedTuple):
    """A number for each action.

    Attributes:
        kind: ``probability`` (0 to 1, masked actions 0) or ``value`` (expected discounted return, masked actions too).
        numbers: float32 (B, A).
    """

    kind: str
    numbers: NDArray[np.float32]


@contextmanager
def header_errors(path: Path) -> Iterator[None]:
    """Turn the error of a check of a policy's settings into one that names the file whose header holds them.

    Raises:
        CorruptCheckpointError: A check failed.
    """
    try:
        yield
    except (ConfigError, EnvironmentUsageError) as error:
        raise CorruptCheckpointError(path, f"has a malformed header: {error}") from error


class Player(Protocol):
    """A trained policy of any kind: an actor-critic, action values, one of either for each phase."""

    @property
    def header(self) -> Header:
        """What it is and where it comes from."""

    def act(
        self, obs: NDArray[np.float32] | Inputs, mask: NDArray[np.bool_] | None = None, *, deterministic: bool = True
    ) -> NDArray[np.int64]:
        """Choose an action per observation.

        Args:
            obs: Features as the environment gives them, float32 (B, F) or (F,), or what an
                :class:`soulslab.learn.inputs.Observer` made of its observations.
            mask: True where an action is allowed, bool (B, A) or (A,); None allows everything.
            deterministic: Take the best allowed action; otherwise draw one (see :meth:`seed`).

        Returns:
            Actions, int64 (B,); for one observation, an array without axes.
        """

    def scores(self, inputs: Inputs, mask: NDArray[np.bool_] | None = None) -> ActionScores:
        """Return what the policy thinks of each action, for people to read; draws nothing.

        Args:
            inputs: What an :class:`soulslab.learn.inputs.Observer` made of the observations.
            mask: True where an action is allowed, bool (B, A).
        """

    def seed(self, seed: int) -> None:
        """Seed the draws of :meth:`act`."""

    def save(self, path: Path) -> None:
        """Write the policy to one file, atomically."""
