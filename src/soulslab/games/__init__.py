"""One folder per game: its profile, and what TOML cannot say."""

from __future__ import annotations

from pathlib import Path

from soulslab.errors import ConfigError, did_you_mean

_FOLDER = Path(__file__).parent


def known_games() -> tuple[str, ...]:
    """Return the names of the games that come with a profile."""
    return tuple(sorted(file.parent.name for file in _FOLDER.glob("*/profile.toml")))


def profile_path(game: Path) -> Path:
    """Return the profile of a game that comes with soulslab (``doom``), or the path as it is.

    Raises:
        ConfigError: There is neither such a game nor such a file.
    """
    if game.is_file():
        return game
    if str(game) in known_games():
        return _FOLDER / game / "profile.toml"
    raise ConfigError(
        f"there is no such profile, and no game of that name{did_you_mean(str(game), known_games())}", source=game
    )
