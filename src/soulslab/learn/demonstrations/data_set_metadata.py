"""The metadata of a data set: environment, options and spaces of the recording.

A data set is a folder with Minari's ``metadata.json`` and ``main_data.hdf5``, which are both plain data. If spaces are
missing, Minari would make the environment that ``metadata.json`` describes, and therefore import any module that it
names; here such a file is rejected before Minari reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from soulslab.config import without_secrets
from soulslab.config.input_files import parse_json, read_text
from soulslab.errors import DemonstrationError, optional_imports
from soulslab.learn.environment import describe_options
from soulslab.learn.path_settings import without_folders

FORMAT: Final = 1
"""Version of the metadata that soulslab adds to those of Minari."""

METADATA_NAME: Final = "metadata.json"
DATA_NAME: Final = "main_data.hdf5"
"""Files of a data set, with Minari's names."""

_MINARI_DATA: Final = "data"  # sub-folder of an id among the data sets of a machine
_DATA_FORMAT: Final = "hdf5"
_DEFAULT: Final = "(default)"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata that soulslab adds to those of Minari: versions, and default values of the options."""

    format: int = FORMAT
    soulslab: str = ""
    commit: str = ""
    defaults: dict[str, Any] = {}


class _EnvSpec(msgspec.Struct, frozen=True):
    id: str
    kwargs: dict[str, Any] = {}


class _Metadata(msgspec.Struct, frozen=True, kw_only=True):
    env_spec: str
    observation_space: str
    action_space: str
    data_format: str
    n_episodes: Annotated[int, Meta(ge=0, le=1_000_000)] = msgspec.field(name="total_episodes")
    n_steps: Annotated[int, Meta(ge=0, lt=2**53)] = msgspec.field(name="total_steps")
    player: str = msgspec.field(name="algorithm_name", default="")
    has_jpeg: bool = msgspec.field(name="jpeg_encoding", default=True)
    minari_version: str = ""
    origin: Origin = msgspec.field(name="soulslab", default=Origin())


class Description(_Metadata, frozen=True, kw_only=True):
    """Description of a data set; spaces are in Minari's notation.

    ``options`` are the keyword arguments of the environment, of a Python function only the name. ``has_jpeg`` means
    that images are encoded as JPEG, which changes them. ``origin`` is empty for a data set of other programs.
    """

    folder: Path
    env_id: str
    options: dict[str, Any]

    def check_env(
        self,
        env_id: str,
        options: Mapping[str, Any],
        alike: Collection[str] = (),
        step_options: Mapping[str, Any] = MappingProxyType({}),
        *,
        is_simulated: bool = False,
    ) -> None:
        """Check that the data set was recorded in the same environment with the same options.

        ``alike`` are ids of environments with the same fights (``metadata["fights_of"]``), for a simulated data set of
        those with the same steps (``metadata["policies_of"]``); of these only options that both have are compared.
        ``step_options`` are the options that define a step, with their default values
        (``metadata["step_options"]``). They are always compared; for a simulated data set, no other options are. Raises
        DemonstrationError if the id, its version or an option differs.
        """
        if self.env_id not in (env_id, *alike):
            raise DemonstrationError(
                self.folder,
                f"was recorded in {self.env_id}, not in {env_id}; train on that id, or record new episodes",
            )
        defaults = self.origin.defaults
        theirs = {**step_options, **defaults, **without_secrets(self.options)}
        ours = {**step_options, **(defaults if self.env_id == env_id else {}), **plain_options(options)}
        if is_simulated:
            names = set(step_options)
        elif self.env_id == env_id:
            names = theirs.keys() | ours.keys()
        else:
            names = theirs.keys() & ours.keys()
        pairs = {name: (theirs.get(name, _DEFAULT), ours.get(name, _DEFAULT)) for name in sorted(names)}
        different = {name: values for name, values in pairs.items() if not _is_same(name, *values)}
        if different:
            listed = [f"{name} is {was!r} in the recording and {now!r} here" for name, (was, now) in different.items()]
            advice = ["change env.options"]
            if step_options and not different.keys() & step_options.keys():
                advice.append("set demonstrations.is_simulated for fights of a simulator against a fitted boss")
            raise DemonstrationError(
                self.folder,
                f"was recorded with other options of {self.env_id}: {'; '.join(listed)}; {', '.join(advice)}, or "
                "record new episodes (soulslab fights record --config uses the options of the same file)",
            )


def find_folder(path: str | Path) -> Path:
    """Return the folder of a data set, given as a folder or as an id among Minari's on this machine."""
    places = [Path(path), Path(path) / _MINARI_DATA]
    if not places[0].exists():
        with optional_imports():  # learn works without Minari
            from minari.storage.datasets_root_dir import get_dataset_path  # noqa: PLC0415

        places.append(Path(get_dataset_path(str(path))) / _MINARI_DATA)
    for place in places:
        if (place / METADATA_NAME).is_file():
            return place
    files = " and ".join(str(place / METADATA_NAME) for place in places)
    raise DemonstrationError(
        path, f"is not a data set, because it has no {files}; name a folder that soulslab fights record has made"
    )


def describe(path: str | Path) -> Description:
    """Read the metadata of a data set (:func:`find_folder`); raises DemonstrationError for malformed metadata."""
    folder = find_folder(path)

    def fail(problem: str) -> DemonstrationError:
        return DemonstrationError(
            folder, f"{METADATA_NAME} does not describe recorded episodes of an environment: it {problem}"
        )

    data = parse_json(read_text(folder / METADATA_NAME, fail), _Metadata, fail)
    spec = parse_json(data.env_spec, _EnvSpec, fail)
    if data.data_format != _DATA_FORMAT:
        raise DemonstrationError(folder, f"has the format {data.data_format!r}; soulslab only reads {_DATA_FORMAT!r}")
    if data.origin.format != FORMAT:
        raise DemonstrationError(
            folder,
            f"has version {data.origin.format} of soulslab's metadata; this soulslab reads version {FORMAT}; it was "
            f"written by soulslab {data.origin.soulslab or 'of unknown version'}",
        )
    return Description(**msgspec.structs.asdict(data), folder=folder, env_id=spec.id, options=spec.kwargs)


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of an environment as JSON-compatible values: functions and paths as text, without secrets."""
    plain: dict[str, Any] = msgspec.to_builtins(describe_options(without_secrets(options)), enc_hook=str)
    return plain


def _is_same(name: str, *values: Any) -> bool:
    one, other = (without_folders(f"env.options.{name}", value) for value in values)
    # phase = 1 in TOML is the same as "1" on the command line.
    return bool(one == other) or (not isinstance(one, dict | list) and str(one) == str(other))
