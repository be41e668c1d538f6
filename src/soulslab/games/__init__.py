"""Games: one folder each, with the profile and with facts that do not fit into a profile."""

from __future__ import annotations

from pathlib import Path

from soulslab.errors import ConfigError, did_you_mean

_FOLDER = Path(__file__).parent


def known_games() -> tuple[str, ...]:
    """Return the names of the games that have a profile in soulslab."""
    return tuple(sorted(file.parent.name for file in _FOLDER.glob("*/profile.toml")))


def profile_path(game: Path) -> Path:
    """Return the path of a profile, given the path itself or the name of a game of soulslab (``doom``).

    Raises `ConfigError` if the value is neither of them.
    """
    if game.is_file():
        return game
    if str(game) in known_games():
        return _FOLDER / game / "profile.toml"
    raise ConfigError(
        f"neither a profile file nor the name of a game{did_you_mean(str(game), known_games())}", source=game
    )
