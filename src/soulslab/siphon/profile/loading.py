"""Loading of profiles: TOML, then types, then validation; every error names its place."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, get_args, get_type_hints

from soulslab.config.checking import check, short
from soulslab.config.loading import read_toml
from soulslab.errors import ProfileError
from soulslab.siphon.profile.public_format import from_public, is_public
from soulslab.siphon.profile.schema import Profile
from soulslab.siphon.profile.validation import find_mistakes

_log = logging.getLogger(__name__)

#: Supported versions of the profile format.
FORMATS: tuple[int, ...] = get_args(get_type_hints(Profile)["format"])


def load_profile(path: Path) -> Profile:
    """Load and validate a profile, in our format or in the public Siphon format.

    Raises `ProfileError` if the file cannot be read or is malformed; ``error.path`` is the place of the error.
    """
    return parse_profile(read_toml(path, ProfileError), str(path))


def parse_profile(data: Any, source: str) -> Profile:
    """Validate a profile that was read by `tomllib`, in our format or in the public one.

    Raises `ProfileError` with the source if the tables are malformed; ``error.path`` is the place of the error.
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
    for problem, place in find_mistakes(profile):
        raise error(problem, place)
    return profile
