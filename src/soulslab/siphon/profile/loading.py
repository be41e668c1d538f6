"""Reading profiles: TOML, then types, then what types alone do not catch; every mistake with its place."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, get_args, get_type_hints

from soulslab.config.checking import check, short
from soulslab.config.loading import read_toml
from soulslab.errors import ProfileError
from soulslab.siphon.profile.public_format import from_public, is_public
from soulslab.siphon.profile.schema import Profile
from soulslab.siphon.profile.validation import mistakes_of

_log = logging.getLogger(__name__)

#: Versions of the format that this soulslab reads.
FORMATS: tuple[int, ...] = get_args(get_type_hints(Profile)["format"])


def load_profile(path: Path) -> Profile:
    """Read and check a profile; also reads the public Siphon TOML (`soulslab.siphon.profile.public_format`).

    Raises:
        ProfileError: The file cannot be read or is malformed; ``error.path`` says where.
    """
    return parse_profile(read_toml(path, ProfileError), str(path))


def parse_profile(data: Any, source: str) -> Profile:
    """Check a profile that has been read already.

    Args:
        data: The tables, as `tomllib` reads them; also those of the public Siphon TOML.
        source: Where they come from, for errors.

    Raises:
        ProfileError: They are malformed; ``error.path`` says where.
    """
    if not isinstance(data, dict):
        raise ProfileError(f"is not a table but {short(data)}", source=source)
    if is_public(data):
        public = from_public(data, source)
        if public.injected:
            _log.warning(
                "%s: left out, as they need an entity that a public file does not describe: %s",
                source,
                ", ".join(public.injected),
            )
        return public.profile

    def error(problem: str, place: str) -> ProfileError:
        return ProfileError(problem, path=place, source=source)

    version = data.get("format", FORMATS[-1])
    if type(version) is int and version not in FORMATS:
        known = ", ".join(map(str, FORMATS))
        raise error(f"is version {short(version)} of the format, and this soulslab reads {known}; update it", "format")
    profile = check(data, Profile, error)
    for problem, place in mistakes_of(profile):
        raise error(problem, place)
    return profile
